# A cure has the value that was written.
fabric "x" {}

workload "m" {
  for_each   = toset(["a"])
  parameters = 7e9
}

host "a" {
  nic "r" {
    dev     = "eth1"
    address = "10.0.0.1/30"
  }
  vlan "listed" {
    for_each = [100, 101]
    on       = nic.r
    id       = each.value
  }
  vlan "ranged" {
    for_each = range(100, 103)
    on       = nic.r
    id       = each.value
  }
  vlan "set" {
    for_each = toset(range(100, 103))
    on       = nic.r
    id       = each.value
  }
  vlan "counted" {
    for_each = 3
    on       = nic.r
    id       = each.value
  }
  vlan "under" {
    device = nic.r
    vid    = 7
  }
  vlan "texts" {
    for_each = ["100", "101"]
    on       = nic.r
    id       = each.value
  }
  vlan "objects" {
    for_each = [{ name = "a", id = 7 }]
    on       = nic.r
    id       = each.value.id
  }
  route {
    dst = "10.9.0.0/16"
    gw  = "10.0.0.2"
    dev = nic.r
  }
}

host "b" {
  nic "r" {
    netdev = "eth1"
  }
}

link "l" {
  nodes     = [host.a, host.b]
  cidr      = "10.0.0.0/30"
  bandwidth = "100G"
}
