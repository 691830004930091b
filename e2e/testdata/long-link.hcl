# Two virtual machines with Soft-RoCE and 50 ms between them.
fabric "long-link" {}

workload "state" {
  checkpoint_bytes    = 1000
  checkpoint_interval = "250ms"
}

host "a" {
  nic "wan" {
    netdev = "eth1"
    mtu    = 4200
  }
  rxe "rxe0" {
    nic = nic.wan
  }
}

host "b" {
  nic "wan" {
    netdev = "eth1"
    mtu    = 4200
  }
  rxe "rxe0" {
    nic = nic.wan
  }
}

link "wan" {
  endpoints = [host.a.nic.wan, host.b.nic.wan]
  subnet    = "10.40.0.0/30"
  role      = "checkpoint"
  rtt       = "50ms"
  jitter    = "2ms"
  workload  = workload.state

  validate {
    ping {
      max_loss_percent = 50
    }
    tcp {
      duration = "4s"
    }
    verbs {
      tests = ["write_bw"]
    }
  }
}
