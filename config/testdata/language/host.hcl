host "gpu" {
  for_each = { gpu1 = "10.0.0.11", gpu2 = "10.0.0.12" }
  address  = each.value
  labels   = { rack = "r1" }
  memlock  = "unlimited"
  sysctl   = { "net.ipv4.tcp_mtu_probing" = 1 }

  nic "rail0" {
    netdev      = "ens19f0np0"
    host_number = index(["gpu1", "gpu2"], self.key) + 1
  }
}

network "rail0" {
  members = values(host.gpu)[*].nic.rail0
  subnet  = "10.10.0.0/24"
}
