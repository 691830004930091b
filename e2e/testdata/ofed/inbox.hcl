# Two machines without any RDMA package become a Soft-RoCE fabric.
fabric "inbox" {}

host "node1" {
  nic "rail0" {
    netdev    = "eth1"
    addresses = ["10.20.0.1/30"]
    mtu       = 4200
  }
  rxe "rxe0" {
    nic = nic.rail0
  }
  ofed {
    stack    = "inbox"
    packages = ["perftest"]
  }
}

host "node2" {
  nic "rail0" {
    netdev    = "eth1"
    addresses = ["10.20.0.2/30"]
    mtu       = 4200
  }
  rxe "rxe0" {
    nic = nic.rail0
  }
  ofed {
    stack    = "inbox"
    packages = ["perftest"]
  }
}

link "rail0" {
  endpoints = [host.node1.nic.rail0, host.node2.nic.rail0]
}

validate {
  tcp {
    enabled = false
  }
}
