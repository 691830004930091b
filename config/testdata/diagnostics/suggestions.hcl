variable "mtu" {
  type    = number
  default = 9000
}
locals {
  rails = { rail0 = { subnet = "10.0.0.0/30" } }
  a     = upperr("x")
  b     = lcoal.rails
  c     = local.rials
  d     = local.rails.rail1.subnet
  e     = local.rails["rail0"].subnte
  f     = "MTU ${var.mut}"
}
host "gpu0" {
  nic "rail0" {
    netdev          = "eth1"
    ipv6_link_local = "euI64"
    gid             = { vresion = 2, family = "ipv44" }
  }
  nccl {
    env = {
      NCCL_DEBGU = "INFO"
    }
    transprot = "ib"
  }
}
host "gpu1" {
  nic "rail0" {
    netdev = "eth1"
    gid    = { "versoin" = 2 }
  }
}
link "l" {
  for_each  = local.rails
  endpoints = [host.gpu0.nic.rial0, host.gpu1.nic.rail0]
  subnet    = each.value.subnets
}
link "m" {
  endpoints = [host.gup0.nic.rail0, host.gpu1.ncis.rail0]
}
network "n" {
  members = [for h in values(host) : h.nic.rial0]
}
validate {
  verbs {
    tests = ["send_lat", "wirte_bw"]
  }
  pign {}
}
