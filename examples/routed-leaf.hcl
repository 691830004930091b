# Hosts with a routed link to their leaf switch: each NIC shares a /31 with the switch, and has a route
# in the main table to the rest of the fabric.
fabric "routed-leaf" {}

locals {
  fabric = "10.30.0.0/16"
  hosts  = { for i in range(4) : "node${i}" => cidrsubnet(local.fabric, 15, i) }
}

host "node" {
  for_each = local.hosts

  nic "leaf" {
    netdev    = "ens2f0"
    addresses = ["${cidrhost(each.value, 1)}/31"]
    mtu       = 9000
  }

  route "fabric" {
    to  = local.fabric
    via = cidrhost(each.value, 0)
    src = nic.leaf.ip
  }
}

network "leaf" {
  members    = values(host.node)[*].nic.leaf
  routed     = true
  speed_gbps = 100

  validate {
    pairs = "ring"

    tcp {
      duration = "1s"
    }
  }
}
