# NICs for collectives whose classes differ.
qos "five" {
  dscp     = 40
  priority = 5
}

qos "three" {
  dscp     = 26
  priority = 3
}

host "a" {
  nic "rail0" {
    netdev = "eth1"
    qos    = qos.five
  }
  nic "rail1" {
    netdev = "eth2"
    qos    = qos.three
  }
  nic "storage" {
    netdev = "eth3"
    qos    = qos.three
  }

  nccl {
    env = {
      NCCL_IB_TC = 160
    }
  }
}

host "b" {
  nic "rail0" {
    netdev = "eth1"
    qos    = qos.five
  }
  nic "rail1" {
    netdev = "eth2"
    qos    = qos.three
  }
  nic "rail2" {
    netdev = "eth4"
  }
  nic "storage" {
    netdev = "eth3"
    qos    = qos.three
  }

  nccl {
    hca = [nic.rail0, nic.rail2]
  }
}

link "rail0" {
  endpoints = [host.a.nic.rail0, host.b.nic.rail0]
}

link "rail1" {
  endpoints = [host.a.nic.rail1, host.b.nic.rail1]
}

link "storage" {
  endpoints = [host.a.nic.storage, host.b.nic.storage]
  role      = "storage"
}
