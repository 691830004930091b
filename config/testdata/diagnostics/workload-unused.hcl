# Bounds and workloads by which nothing is judged.
workload "idle" {
  max_step_seconds = 8
  ranks            = 3
  sites            = 4
}

workload "llm" {
  parameters              = 7e9
  step_seconds            = 6
  max_step_seconds        = 8
  max_first_token_seconds = 5
  checkpoint_interval     = "30m"
}

host "a" {
  nic "r" {
    netdev = "eth0"
    mtu    = 9000
  }
}

host "b" {
  nic "r" {
    netdev = "eth0"
    mtu    = 9000
  }
}

link "wan" {
  endpoints  = [host.a.nic.r, host.b.nic.r]
  role       = "checkpoint"
  speed_gbps = 100
  rtt        = "30ms"
  workload   = workload.llm
}
