host "a" {
  address = "10.0.0.11"

  nic "p0" {
    netdev = "ens3f0"
  }
  nic "p1" {
    netdev = "ens3f1"
  }
  bond "b0" {
    nics      = [nic.p0, nic.p1]
    mode      = "802.3ad"
    lacp_rate = "fast"
    xmit_hash = "layer3+4"
    min_links = 1
    mtu       = 9000
    addresses = ["192.168.88.1/30"]
  }
}
