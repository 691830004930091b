locals {
  rails = { rail0 = "ens19f0np0", rail1 = "ens19f1np1" }
  mtu   = 9000
}

host "a" {
  address = "10.0.0.11"

  nic "rail" {
    for_each = local.rails
    netdev   = each.value
    mtu      = local.mtu
  }
}
