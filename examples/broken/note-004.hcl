# Warned of: collectives over a wide area. Every step of a training run waits for the slowest answer;
# the same link serves inference or checkpoints well. And plain NICs keep an MTU that makes RDMA small.
host "beijing" {
  nic "wan" {
    netdev    = "enp0s3"
    addresses = ["192.168.1.101/24"]
    mtu       = 1500
  }

  rxe "rxe0" {
    nic = nic.wan
  }
}

host "shanghai" {
  nic "wan" {
    netdev    = "enp0s3"
    addresses = ["192.168.1.102/24"]
    mtu       = 1500
  }

  rxe "rxe0" {
    nic    = nic.wan
    netdev = "enp0s3"
  }
}

link "wan" {
  endpoints = [host.beijing.nic.wan, host.shanghai.nic.wan]
  role      = "training"

  validate {
    ping {
      max_rtt = "35ms"
    }
  }
}
