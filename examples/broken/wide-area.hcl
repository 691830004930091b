# An error: training across. All gradients cross the link in each step, and take longer than the step may take, whatever the distance.
workload "llm" {
  parameters       = 70.6e9
  precision        = "bf16"
  max_step_seconds = 8
}

host "west" {
  nic "wan" {
    netdev = "eth2"
    mtu    = 9000
  }
}

host "east" {
  nic "wan" {
    netdev = "eth2"
    mtu    = 9000
  }
}

link "wan" {
  endpoints   = [host.west.nic.wan, host.east.nic.wan]
  subnet      = "10.30.0.0/30"
  speed_gbps  = 100
  role        = "training"
  distance_km = 1000
  rtt         = "12ms"
  workload    = workload.llm
}
