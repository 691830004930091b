host "a" {
  nic "r" {
    netdev    = "eth1"
    addresses = ["192.168.1.1/30"]
    mtu       = 9000
  }
}
host "b" {
  nic "r" {
    netdev    = "eth1"
    addresses = ["192.168.2.2/30"]
    mtu       = 1500
  }
}
link "l" {
  endpoints = [host.a.nic.r, host.b.nic.r]
}
