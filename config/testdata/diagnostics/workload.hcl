# Bounds, distances and references of workloads.
workload "llm" {
  parameters              = 70.6e9
  precision               = "bf17"
  max_first_token_seconds = 1
}

workload "kv" {
  precision               = "bf16"
  layers                  = 80
  kv_heads                = 8
  head_size               = 128
  tokens                  = 131072
  max_first_token_seconds = 2
  checkpoint_bytes        = 1e12
  checkpoint_interval     = "1m"
}

workload "kv" {
}

workload "-x" {
}

workload "step" {
  parameters       = 7e9
  precision        = "bf16"
  all_reduce       = "ring"
  max_step_seconds = 0.01
}

workload "slow" {
  step_seconds     = 9
  max_step_seconds = 8
}

host "a" {
  nic "r" {
    for_each = { for i in range(9) : "${i}" => "eth${i}" }
    netdev   = each.value
    mtu      = 9000
  }
}

host "b" {
  nic "r" {
    for_each = { for i in range(9) : "${i}" => "eth${i}" }
    netdev   = each.value
    mtu      = 9000
  }
}

link "light" {
  endpoints   = [host.a.nic.r["0"], host.b.nic.r["0"]]
  role        = "storage"
  distance_km = 3000
  rtt         = "20ms"
}

link "far" {
  endpoints   = [host.a.nic.r["1"], host.b.nic.r["1"]]
  role        = "storage"
  distance_km = 3000

  validate {
    ping {
      max_rtt = "20ms"
    }
  }
}

link "first" {
  endpoints  = [host.a.nic.r["2"], host.b.nic.r["2"]]
  role       = "inference"
  speed_gbps = 100
  rtt        = "30ms"
  workload   = workload.kv
}

link "kept" {
  endpoints  = [host.a.nic.r["3"], host.b.nic.r["3"]]
  role       = "checkpoint"
  speed_gbps = 100
  rtt        = "30ms"
  workload   = workload.kv
}

link "step" {
  endpoints  = [host.a.nic.r["4"], host.b.nic.r["4"]]
  speed_gbps = 100
  rtt        = "30ms"
  workload   = workload.step
}

link "slow" {
  endpoints = [host.a.nic.r["5"], host.b.nic.r["5"]]
  workload  = workload.slow
}

link "unasked" {
  endpoints = [host.a.nic.r["6"], host.b.nic.r["6"]]
  rtt       = "100ms"
}

link "quoted" {
  endpoints = [host.a.nic.r["7"], host.b.nic.r["7"]]
  workload  = "workload.kv"
}

link "unknown" {
  endpoints = [host.a.nic.r["8"], host.b.nic.r["8"]]
  workload  = workload.llms
}

# Two sites that train, each on its own.
host "site" {
  for_each = toset(["w1", "w2", "e1", "e2"])

  nic "local" {
    netdev = "eth1"
    mtu    = 9000
  }
  nic "wan" {
    netdev = "eth2"
    mtu    = 9000
  }
}

link "local" {
  for_each  = { west = ["w1", "w2"], east = ["e1", "e2"] }
  endpoints = [for h in each.value : host.site[h].nic.local]
}

link "between" {
  endpoints = [host.site["w1"].nic.wan, host.site["e2"].nic.wan]
  role      = "inference"
  rtt       = "20ms"
}

qos "lossless" {
  dscp     = 26
  priority = 3
  pfc      = true
}

host "c" {
  qos = qos.lossless

  nic "r" {
    for_each = { for i in range(2) : "${i}" => "eth${i}" }
    netdev   = each.value
    mtu      = 9000
  }
}

host "d" {
  qos = qos.lossless

  nic "r" {
    for_each = { for i in range(2) : "${i}" => "eth${i}" }
    netdev   = each.value
    mtu      = 9000
  }
}

link "small" {
  endpoints    = [host.c.nic.r["0"], host.d.nic.r["0"]]
  role         = "storage"
  speed_gbps   = 100
  rtt          = "5ms"
  buffer_bytes = 64e6 - 2e6
}

link "lossless" {
  endpoints  = [host.c.nic.r["1"], host.d.nic.r["1"]]
  role       = "storage"
  speed_gbps = 100
  rtt        = "5ms"
}

nccl {
  env = {
    NCCL_IB_TIMEOUT = 14
  }
}
