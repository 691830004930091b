# Classes of traffic that contradict each other.
qos "five" {
  dscp     = 40
  priority = 5
  pfc      = true
  ecn      = true
}

qos "three" {
  dscp     = 26
  priority = 3
  pfc      = true
}

host "a" {
  qos = qos.five

  nic "rail0" {
    netdev = "eth1"
  }
  nic "rail1" {
    netdev = "eth2"
    qos    = qos.three
  }
  nic "rail2" {
    netdev = "eth3"
    qos    = qos.fiv
  }
  nic "vlan" {
    netdev = "eth1.100"
    qos    = qos.three
  }
  nic "half" {
    netdev = "eth5"
    qos    = "five"
  }

  nccl {
    env = {
      NCCL_IB_TC = 104
      NCCL_IB_SL = 3
    }
  }
}

host "b" {
  qos = qos.five

  nic "rail0" {
    netdev = "eth1"
  }
  nic "rail1" {
    netdev = "eth2"
  }
  nic "rail3" {
    netdev = "eth4"
  }
  nic "rail4" {
    netdev = "eth5"
    qos    = qos.three
  }

  nccl {
    env = {
      NCCL_IB_TC = 161
    }
  }
}

host "c" {
  nic "rail3" {
    netdev = "eth4"
    pfc    = true
  }
  nic "rail4" {
    netdev = "eth5"
  }
}

link "rail1" {
  endpoints = [host.a.nic.rail1, host.b.nic.rail1]
}

link "rail3" {
  endpoints  = [host.b.nic.rail3, host.c.nic.rail3]
  port_group = "p0"
}

link "rail4" {
  endpoints  = [host.b.nic.rail4, host.c.nic.rail4]
  port_group = "p0"
}
