# Two machines with plain NICs become an RDMA fabric with Soft-RoCE (rdma_rxe). By hand this takes
# `modprobe` and `rdma link add`, and a reboot loses both. Try it without any hardware:
#
#   fabricform lab up -backend vm examples/soft-roce-pair.hcl
#   fabricform apply  -lab        examples/soft-roce-pair.hcl

fabric "soft-roce-pair" {
  description = "two virtual machines, two cables, RDMA in software"
}

locals {
  rails = {
    rail0 = { netdev = "eth1", rdma = "rxe0" }
    rail1 = { netdev = "eth2", rdma = "rxe1" }
  }
}

host "node" {
  for_each = { node1 = "192.168.1.101", node2 = "192.168.1.102" }
  address  = each.value

  nic "rail" {
    for_each = local.rails
    netdev   = each.value.netdev
    mtu      = 4200 # enough for an RDMA MTU of 4096
  }

  rxe "rxe" {
    for_each = { for rail, r in local.rails : r.rdma => rail }
    nic      = nic.rail[each.value]
  }
}

# One subnet per cable: if both were in one subnet, the kernel would send everything over the first.
link "rail" {
  for_each  = { rail0 = "10.20.0.0/30", rail1 = "10.20.0.4/30" }
  endpoints = [host.node["node1"].nic.rail[each.key], host.node["node2"].nic.rail[each.key]]
  subnet    = each.value
}

validate {
  verbs {
    tests = ["send_lat", "write_bw"]
  }
}
