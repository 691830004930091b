host "a" {
  nic "p0" {
    netdev    = "eth0"
    addresses = ["192.168.1.1/30"]
  }
  nic "p1" {
    netdev = "eth1"
    mtu    = 1500
  }
  nic "p2" {
    netdev = "eth2"
    up     = false
  }
  nic "p3" {
    netdev = "eth3"
    mtu    = 9000
  }
  nic "off" {
    netdev  = "eth4"
    enabled = false
  }
  bond "b0" {
    nics = [nic.p0, nic.p1, nic.p1]
    mode = "802.3ad"
    mtu  = 9000
  }
  bond "b1" {
    nics      = [nic.p1, nic.p2, nic.p3]
    mode      = "active-backup"
    lacp_rate = "fast"
    xmit_hash = "layer3+4"
    min_links = 4
  }
  bond "empty" {
    nics = []
    mode = "lacp"
  }
  bond "none" {
    nics = []
    mode = "balance-xor"
  }
  bond "disabled" {
    nics = [nic.off]
    mode = "balance-xor"
  }
  bond "away" {
    nics = [host.b.nic.p0]
    mode = "balance-xor"
  }
  bond "p3" {
    nics   = [nic.p3]
    mode   = "balance-xor"
    netdev = "bond3"
  }
  bond "a-name-of-16-byt" {
    nics = [nic.p3]
    mode = "balance-xor"
  }
  vlan "small" {
    on           = bond.b0
    id           = 200
    mtu          = 9001
    priority_map = { 9 = 1 }
  }
  vlan "large" {
    on  = bond.b0
    id  = 200
    mtu = 9001
  }
  vlan "again" {
    on = bond.b0
    id = 200
  }
  vlan "zero" {
    on = bond.b0
    id = 4095
  }
  vlan "inner" {
    on = vlan.again
    id = 7
  }
  vlan "member" {
    on = nic.p1
    id = 8
  }
  vlan "default" {
    on  = bond.b1
    id  = 9
    mtu = 9000
  }
  vlan "map" {
    on           = bond.b1
    id           = 10
    priority_map = { 3 = 8 }
  }
  rxe "soft" {
    nic = vlan.again
  }
  rxe "below" {
    nic = nic.p1
  }
  route "r" {
    nic = nic.p1
    to  = "10.9.0.0/16"
  }
  nccl {
    hca = [nic.p0, bond.b0]
  }
}

host "b" {
  nic "p0" {
    netdev    = "eth0"
    addresses = ["192.168.1.2/30"]
  }
  bond "b0" {
    nics = [nic.p0]
    mode = "balance-xor"
    mtu  = 9000
  }
}

link "cable" {
  endpoints = [host.a.nic.p1, host.b.bond.b0]
  mtu       = 9000
}

host "c" {
  nic "p0" { netdev = "eth0" }
  nic "p1" { netdev = "eth1" }
  nic "p2" { netdev = "eth2" }
  bond "lacp" {
    nics = [nic.p0, nic.p1]
    mode = "802.3ad"
  }
  bond "default" {
    nics = [nic.p2]
    mode = "active-backup"
  }
  vlan "percent" {
    on     = bond.lacp
    id     = 5
    netdev = "b%d"
  }
  vlan "v" {
    on = bond.lacp
    id = 6
  }
}

host "d" {
  nic "p0" { netdev = "eth0" }
  bond "backup" {
    nics = [nic.p0]
    mode = "active-backup"
  }
  vlan "v" {
    on = bond.backup
    id = 7
  }
}

link "v" {
  endpoints = [host.c.vlan.v, host.d.vlan.v]
}

output "typo" {
  value = host.a.nic.b0.netdev
}
