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

host "c" {
  nic "p0" {}
  nic "p1" {}
  bond "each" {
    for_each = toset(["x"])
    nics     = [nic.p0]
    mode     = "802.3ad"
  }
  bond "one" {
    nics = [host.c.nic.p1]
    mode = "802.3ad"
  }
  vlan "a" {
    on = bond.each
    id = 4
  }
  vlan "b" {
    on = bond.nix
    id = 5
  }
  vlan "d" {
    on = nic.one
    id = 6
  }
}

host "words" {
  nic "p0" {}
  bond "b0" {
    nics    = [nic.p0]
    mode    = "802.3ad"
    primary = nic.p0
    ip      = "10.0.0.1/24"
    gateway = "10.0.0.2"
    name    = "bond0"
    slaves  = ["eth0"]
    ecn     = true
  }
  vlan "v" {
    on       = bond.b0
    id       = 7
    protocol = "802.1q"
    mac      = "02:00:00:00:00:01"
    device   = "bond0"
    vlan_id  = 7
    address  = "10.0.0.1"
  }
}

output "o" {
  value = host.a.bond.b9.netdev
}
