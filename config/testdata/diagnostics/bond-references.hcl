host "a" {
  nic "p0" {
    netdev = bond.b0.netdev
  }
  bond "b0" {
    nics = [nic.p0, vlan.v]
    mode = "802.3ad"
  }
  vlan "v" {
    on = nic.p9
    id = 3
  }
}

output "o" {
  value = host.a.bond.b9.netdev
}
