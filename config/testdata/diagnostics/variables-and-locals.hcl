variable "n" {
  type = number
}
locals {
  a = local.b
  b = local.a
}
host "h" {
  for_each = { x = 1, y = 2 }
  nic "r" {
    netdev = "eth${local.missing}"
  }
}
link "l" {
  endpoints = [host.h.nic.r, host.h["x"].nic.r]
}
