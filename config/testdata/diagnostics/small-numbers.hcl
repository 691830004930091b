# Numbers that nothing real has, and by which a model divides.
workload "llm" {
  step_seconds            = 1e-300
  max_step_seconds        = 1e-9
  max_first_token_seconds = 5
  prefill_seconds         = 1e-7
}

host "a" {
  nic "r" {
    netdev = "eth1"
  }
}

host "b" {
  nic "r" {
    netdev = "eth1"
  }
}

link "x" {
  endpoints   = [host.a.nic.r, host.b.nic.r]
  speed_gbps  = 1e-300
  expect_gbps = 0.0000001
  role        = "inference"
  distance_km = 1e-300
  rtt         = "25h"
  jitter      = "0s"
  loss        = 1e-12
  workload    = workload.llm

  validate {
    tcp {
      min_gbps     = 1e-9
      min_fraction = 1e-9
    }
  }
}
