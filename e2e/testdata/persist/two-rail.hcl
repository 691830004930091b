# Two cables between two machines, each with a table and a rule of its own, strict ARP and Soft-RoCE.
fabric "tworail" {}

locals {
  rails = {
    rail0 = { netdev = "eth1", rdma = "rxe0", table = 101 }
    rail1 = { netdev = "eth2", rdma = "rxe1", table = 102 }
  }
}

host "node" {
  for_each = { node1 = 1, node2 = 2 }
  address  = "192.168.1.10${each.value}"
  memlock  = "unlimited"
  sysctl   = { "net.core.rmem_max" = 4194304 }

  nic "rail" {
    for_each        = local.rails
    netdev          = each.value.netdev
    mtu             = 4200
    ipv6_link_local = "none"
    sysctl          = { "ipv4.conf.arp_ignore" = 1, "ipv4.conf.arp_announce" = 2, "ipv4.conf.rp_filter" = 2 }
  }

  policy_route "rail" {
    for_each = local.rails
    nic      = nic.rail[each.key]
    from     = nic.rail[each.key].ip
    table    = each.value.table
    priority = 10000 + each.value.table

    route {
      to  = each.key == "rail0" ? "10.20.0.0/24" : "10.20.1.0/24"
      src = nic.rail[each.key].ip
    }
    route {
      to  = each.key == "rail0" ? "10.99.0.0/16" : "10.98.0.0/16"
      via = each.key == "rail0" ? "10.20.0.9" : "10.20.1.9"
      src = nic.rail[each.key].ip
    }
  }

  rxe "rxe" {
    for_each = { for rail, r in local.rails : r.rdma => rail }
    nic      = nic.rail[each.value]
  }
}

link "rail" {
  for_each  = { rail0 = "10.20.0.0/24", rail1 = "10.20.1.0/24" }
  endpoints = [host.node["node1"].nic.rail[each.key], host.node["node2"].nic.rail[each.key]]
  subnet    = each.value
}
