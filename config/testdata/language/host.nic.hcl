host "a" {
  address = "10.0.0.11"

  nic "rail0" {
    match     = { mac = "b8:ce:f6:00:00:01" }
    addresses = ["192.168.88.1/30", "fd00:88::1/64"]
    mtu       = 9000
    sysctl    = { "ipv4.conf.arp_ignore" = 1 }
    gid       = { version = 2, family = "ipv4" }
  }
}
