variable "rails" {
  description = "Interface and routing table of each rail."
  type        = map(object({ netdev = string, table = number }))
  default = {
    rail0 = { netdev = "ens19f0np0", table = 100 }
    rail1 = { netdev = "ens19f1np1", table = 101 }
  }
}
