# Sixteen hosts with eight rails, one subnet per rail. Adding a host does not change other addresses.
locals {
  hosts = { for i in range(16) : format("gpu%02d", i) => { mgmt = cidrhost("10.0.0.0/24", 100 + i), number = i + 1 } }
  rails = { for i in range(8) : format("rail%d", i) => { netdev = "eth${i + 1}", subnet = cidrsubnet("10.10.0.0/16", 8, i), table = 100 + i } }
}

host "gpu" {
  for_each = local.hosts
  address  = each.value.mgmt

  nic "rail" {
    for_each    = local.rails
    netdev      = each.value.netdev
    host_number = self.value.number
    mtu         = 9000
  }

  policy_route "rail" {
    for_each = local.rails
    nic      = nic.rail[each.key]
    from     = nic.rail[each.key].ip
    table    = each.value.table

    route {
      to = each.value.subnet
    }
    route {
      to  = "10.10.0.0/16"
      via = cidrhost(each.value.subnet, 254)
    }
  }
}

network "rail" {
  for_each   = local.rails
  members    = [for h in values(host.gpu) : h.nic.rail[each.key]]
  subnet     = each.value.subnet
  speed_gbps = 400
}
