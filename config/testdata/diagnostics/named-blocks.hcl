# References into blocks that have a name and no instances.
fabric "x" {}

workload "n" {
  parameters = 7e9
}

qos "q" {
  dscp = 26
}

host "b" {
  nic "r" {
    netdev = "eth1"
  }
}

link "indexed" {
  endpoints = [host.b.nic.r, host.c.nic.r]
  workload  = workload.n["x"]
}

link "asked" {
  endpoints = [host.b.nic.r, host.c.nic.r]
  mtu       = workload.n.parameters
}

host "c" {
  nic "r" {
    netdev = "eth1"
    qos    = qos.q["x"]
    mtu    = qos.q.class
  }
}
