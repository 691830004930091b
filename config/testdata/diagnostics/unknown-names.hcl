host "a" {
  nic "r" {
    netdev    = "eth1"
    addresses = ["192.168.1.1/30"]
  }
}
host "b" {
  nic "r" {
    netdev    = "eth1"
    addresses = ["192.168.1.2/30"]
  }
}

link "l" {
  endpoints = [host.a.nic.r, host.c.nic.r]
}
link "m" {
  endpoints = [host.a.nic.q, host.b.nic.r]
}
