# Routes and policy routes with for_each and without it, as users wrote them before labels counted.
fabric "rails" {}

locals {
  rails = {
    rail0 = { netdev = "eth1", net = "10.1.0", table = 101 }
    rail1 = { netdev = "eth2", net = "10.2.0", table = 102 }
  }
}

host "h" {
  for_each = { a = 1, b = 2 }

  nic "rail" {
    for_each  = local.rails
    netdev    = each.value.netdev
    addresses = ["${each.value.net}.${self.value}/24"]
    mtu       = 9000
  }

  route "far" {
    for_each = local.rails
    to       = "${replace(each.value.net, "10.", "10.10")}.0/24"
    via      = "${each.value.net}.254"
  }
  route "plain" {
    to  = "10.3.0.0/16"
    via = "10.2.0.254"
  }

  policy_route "v4" {
    for_each = local.rails
    nic      = nic.rail[each.key]
    from     = nic.rail[each.key].ip
    table    = each.value.table

    route {
      to = "${each.value.net}.0/24"
    }
    route {
      to  = "10.0.0.0/8"
      via = "${each.value.net}.254"
    }
  }
  policy_route "plain" {
    nic   = nic.rail["rail0"]
    to    = "10.9.0.0/16"
    table = 109

    route {
      to  = "10.9.0.0/16"
      via = "10.1.0.254"
    }
  }
}
