host "a" {
  address = "root@10.0.0.11:2222"
  sysctl = {
    "net.ipv4/ip_forward"              = 1
    "net.ipv4.conf.eth0/100.rp_filter" = 1
    "net.ipv4.conf.all.forwarding"     = true
    "net.ipv4.tcp_rmem"                = "4096 128KiB 16M"
    "vm.swappiness"                    = ""
    "kernel.core_pattern"              = "core.%p  16M"
  }

  nic "rail0" {
    netdev = "eth1"
    sysctl = { "ipv4/conf.arp_ignore" = 1 }
  }
}
host "b" {
  address = "ssh://[2001:db8::1]:22"
}
host "c" {
  address = "10.0.0.13/24"
}
host "d" {
  address = "2001:db8::2"
}
