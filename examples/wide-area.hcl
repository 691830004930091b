# Two sites, 1,000 km apart. Training stays within a site; the hand-over of KV caches from prefill to decode and the checkpoints
# cross. What the distance does to each of them, with its formulas:
#
#   fabricform estimate examples/wide-area.hcl

fabric "wide-area" {
  description = "prefill and training in the west, decode and the archive in the east"
}

locals {
  hosts = {
    west1 = { mgmt = "10.0.0.11", number = 1 }
    west2 = { mgmt = "10.0.0.12", number = 2 }
    east1 = { mgmt = "10.0.1.11", number = 1 }
    east2 = { mgmt = "10.0.1.12", number = 2 }
  }
}

# A dense model of the size of Llama 3.1 70B. What is not written is unknown, and results are ranges.
workload "llm" {
  parameters       = 70.6e9
  precision        = "bf16"
  step_seconds     = 6
  max_step_seconds = 8

  layers                  = 80
  kv_heads                = 8
  head_size               = 128
  tokens                  = 32768
  max_first_token_seconds = 5

  checkpoint_interval = "30m"
}

host "node" {
  for_each = local.hosts
  address  = each.value.mgmt

  nic "local" {
    netdev      = "eth1"
    host_number = each.value.number
    mtu         = 9000
  }
  nic "wan" {
    netdev = "eth2"
    mtu    = 9000
  }
}

network "west" {
  members    = [host.node["west1"].nic.local, host.node["west2"].nic.local]
  subnet     = "10.20.0.0/24"
  speed_gbps = 400
  workload   = workload.llm
}

network "east" {
  members    = [host.node["east1"].nic.local, host.node["east2"].nic.local]
  subnet     = "10.20.1.0/24"
  speed_gbps = 400
  role       = "inference"
}

# From prefill to decode.
link "handover" {
  endpoints   = [host.node["west1"].nic.wan, host.node["east1"].nic.wan]
  subnet      = "10.30.0.0/30"
  speed_gbps  = 100
  role        = "inference"
  distance_km = 1000
  rtt         = "12ms" # the way is longer than light's, and passes routers
  jitter      = "1ms"
  workload    = workload.llm
}

link "archive" {
  endpoints   = [host.node["west2"].nic.wan, host.node["east2"].nic.wan]
  subnet      = "10.30.0.4/30"
  speed_gbps  = 100
  role        = "checkpoint"
  distance_km = 1000
  rtt         = "12ms"
  jitter      = "1ms"
  workload    = workload.llm
}
