host "a" {
  address = "10.0.0.11"

  nic "rail0" {
    netdev    = "ens19f0np0"
    addresses = ["192.168.88.1/30"]
  }
  nccl {
    hca           = [nic.rail0]
    socket_ifname = "eno1"
    env           = { NCCL_DEBUG = "WARN" }
  }
}
