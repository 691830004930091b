host "a" "b" {
}
host "c" {
  nic "rail0" {
    netdev = "eth1"
    mtu    = "{{ mtu }}"
    sysctl = { ipv4.conf.arp_ignore = 1 }
  }
}
host "d" {
  labels = ["r1"]

  nic "rail0" {
    netdev = "eth1"
    sysctl = ["ipv4.conf.arp_ignore=1"]
  }
}
nccl {
  NCCL_DEBUG = "INFO"
  env        = ["NCCL_DEBUG=INFO"]
}
link "l" {
  endpoints  = [c.nic.rail0, host.d.rail0]
  speed_gbps = "100G"
}
network "n" {
  members = host.*.nic.rail0
}
