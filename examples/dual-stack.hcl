# Four hosts on one switch, with IPv4 and IPv6. Each host has the same number in both subnets.
fabric "dual-stack" {}

host "node" {
  for_each = { node1 = 1, node2 = 2, node3 = 3, node4 = 4 }
  address  = "node${each.value}.example"

  nic "rdma" {
    netdev      = "ens1f0"
    host_number = each.value
    sysctl      = { "ipv4.conf.arp_ignore" = 1 }
  }
}

network "storage" {
  members    = [for h in values(host.node) : h.nic.rdma]
  subnet     = ["10.20.0.0/24", "fd00:20::/64"]
  mtu        = 9000
  speed_gbps = 100
  role       = "storage"

  validate {
    pairs = "all"

    ping {
      count = 5
    }
    tcp {
      duration = "1s"
    }
  }
}

output "addresses" {
  description = "IPv4 address of each host's RDMA NIC"
  value       = { for name, h in host.node : name => h.nic.rdma.ip }
}
