host "a" {
  address = "192.0.2.1"
  sysctl = {
    "net.ipv4.conf.t.rp_filter"    = "2"
    "net.ipv4.conf.eth1.rp_filter" = "2"
  }
  nic "p0" {
    netdev = "eth0"
    up     = false
  }
  nic "p1" {
    netdev = "eth1"
  }
  vlan "s" {
    on = nic.p0
    id = 200
  }
  vlan "t" {
    on = nic.p1
    id = 300
  }
}

host "b" {
  address = "192.0.2.2"
  nic "p0" {
    netdev = "eth0"
  }
}

link "l" {
  endpoints = [host.a.vlan.t, host.b.nic.p0]
}
