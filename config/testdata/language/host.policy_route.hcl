locals {
  rails = {
    rail0 = { netdev = "ens19f0np0", number = 0 }
    rail1 = { netdev = "ens19f1np1", number = 1 }
  }
}

host "a" {
  address = "10.0.0.11"

  nic "rail" {
    for_each  = local.rails
    netdev    = each.value.netdev
    addresses = ["10.10.${each.value.number}.11/24", "fd00:10:${each.value.number}::11/64"]
  }
  # These are policy_route.v4["rail0"] and policy_route.v4["rail1"] in a plan.
  policy_route "v4" {
    for_each = local.rails
    nic      = nic.rail[each.key]
    from     = nic.rail[each.key].ip
    table    = 100 + each.value.number

    route {
      to  = "10.10.0.0/16"
      via = "10.10.${each.value.number}.1"
    }
  }
  policy_route "v6" {
    for_each = local.rails
    nic      = nic.rail[each.key]
    from     = nic.rail[each.key].ip6
    table    = 100 + each.value.number

    route {
      to  = "fd00:10::/32"
      via = "fd00:10:${each.value.number}::1"
    }
  }
}
