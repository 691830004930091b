host "a" {
  nic "r" {
    netdev    = "eth1"
    addresses = ["192.168.1.2/30"]
  }
}
host "b" {
  nic "r" {
    netdev    = "eth1"
    addresses = ["192.168.1.2/30"]
  }
}

link "l" {
  endpoints = [host.a.nic.r, host.b.nic.r]
}
link "again" {
  endpoints = [host.a.nic.r, host.b.nic.r]
}
