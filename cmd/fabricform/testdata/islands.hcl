# A segment, a host that joins another one, a pair with a cable that nothing joins with them, and a host on nothing.
fabric "islands" {}
locals {
  number = { a = 1, b = 2, c = 3, d = 4 }
}
host "n" {
  for_each = local.number
  nic "x" {
    enabled     = each.key != "d"
    netdev      = "eth1"
    host_number = each.value
  }
  nic "s" {
    netdev      = "eth3"
    host_number = each.value
  }
  nic "y" {
    enabled     = each.value > 2
    netdev      = "eth2"
    host_number = each.value
  }
}
host "p" {
  for_each = toset(["e", "f"])
  nic "z" {
    netdev = "eth1"
  }
}
host "login" {}
network "x" {
  members = [for k in ["a", "b", "c"] : host.n[k].nic.x]
  subnet  = "10.1.0.0/24"
}
network "y" {
  members = [for k in ["c", "d"] : host.n[k].nic.y]
  subnet  = "10.2.0.0/24"
}
link "z" {
  endpoints = [host.p["e"].nic.z, host.p["f"].nic.z]
  subnet    = "10.3.0.0/30"
}
network "storage" {
  members = [host.n["a"].nic.s, host.n["b"].nic.s]
  subnet  = "10.4.0.0/24"
  role    = "storage"
}
