host "gpu" {
  for_each = { gpu1 = 1, gpu2 = 2, gpu3 = 3 }
  address  = "10.0.0.${each.value}"

  nic "rail0" {
    netdev      = "ens19f0np0"
    host_number = self.value
  }
}

network "rail0" {
  members    = values(host.gpu)[*].nic.rail0
  subnet     = "10.10.0.0/24"
  mtu        = 9000
  speed_gbps = 400
}
