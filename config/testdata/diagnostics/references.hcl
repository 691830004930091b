variable "secret" {
  default   = "topsecret"
  sensitive = true
}
variable "checked" {
  default = 7

  validation {
    condition     = var.checked < 5
    error_message = "It must be below 5."
  }
}
locals {
  hosts  = { a = { n = 1 } }
  useful = local.hosts.a.m
  list   = [for h in host.keyed : h.nic.r.ip]
}
host "keyed" {
  for_each = local.hosts

  nic "r" {
    netdev = "eth${nope.x}"
    mtu    = host.keyed["a"].nic.r.mtu
  }
  nic "s" {
    netdev = "eth${each.value.m}"
  }
  nic "t" {
    for_each = ["a", "b"]
    netdev   = "eth1"
  }
}
host "late" {
  for_each = toset(local.list)
}
host "null" {
  for_each = null
}
host "number" {
  for_each = 5
}
host "plain" {
  nic "r" {
    netdev = nic.r.netdev
    mtu    = timestamp()
  }
}
link "a" {
  endpoints = [host.keyed["b"].nic.r, host.plain.nic.r]
}
link "b" {
  endpoints = host.keyed[*].nic.r
}
link "c" {
  endpoints = [host.plain.hostname, host.plain.nic.r.ip]
}
link "d" {
  for_each  = { x = host.plain.nic.r.ip }
  endpoints = [host.plain.nic.r, host.plain.nic.r]
}
link "e" {
  endpoints = [each.key, self.name]
}
host "shown" {
  nic "r" {
    netdev = "a-name-that-holds-${var.secret}"
  }
  nccl {
    hca = [host.plain.nic.r]
  }
}
output "secret" {
  value = "${var.secret}-"
}
host "unquoted" {
  address = node1
}
