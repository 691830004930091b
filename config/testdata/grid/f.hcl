locals {
  hosts = { for i in range(3) : format("gpu%02d", i) => { mgmt = cidrhost("10.0.0.0/24", 100 + i), number = i + 1 } }
  rails = { for i in range(2) : format("rail%d", i) => { netdev = "eth${i}", subnet = cidrsubnet("10.10.0.0/16", 8, i), table = 100 + i } }
  ips   = [for h in values(host.gpu) : h.nic.rail["rail0"].ip]
}
host "gpu" {
  for_each = local.hosts
  address  = each.value.mgmt
  nic "rail" {
    for_each  = local.rails
    netdev    = each.value.netdev
    addresses = ["${cidrhost(each.value.subnet, self.value.number)}/24"]
    mtu       = 9000
  }
  policy_route "rail" {
    for_each = local.rails
    nic      = nic.rail[each.key]
    from     = nic.rail[each.key].ip
    table    = each.value.table
    route {
      to  = "10.10.0.0/16"
      via = cidrhost(each.value.subnet, 254)
    }
  }
}
