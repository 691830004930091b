# GPU nodes whose RDMA NIC reaches the others through a gateway. The NIC has its own routing table, so
# packets from its address leave through it, whatever the main table says.
fabric "policy-routed" {}

locals {
  nodes = {
    node0 = { mgmt = "192.168.0.20", subnet = "10.245.163.0/24" }
    node1 = { mgmt = "192.168.0.21", subnet = "10.245.164.0/24" }
    node2 = { mgmt = "192.168.0.22", subnet = "10.245.165.0/24" }
  }
}

host "node" {
  for_each = local.nodes
  address  = each.value.mgmt

  nic "xgbe0" {
    netdev    = "xgbe0"
    addresses = ["${cidrhost(each.value.subnet, 22)}/24"]
    mtu       = 9000
  }

  # The rule and its routes are added together. The gateway is in the NIC's own subnet.
  policy_route "rdma" {
    nic      = nic.xgbe0
    from     = nic.xgbe0.ip
    table    = 100
    priority = 10000

    route {
      to = each.value.subnet
    }
    route {
      to  = "10.0.0.0/8"
      via = cidrhost(each.value.subnet, 1)
      src = nic.xgbe0.ip
    }
  }
}

network "rdma" {
  members    = values(host.node)[*].nic.xgbe0
  routed     = true
  speed_gbps = 100
}

nccl {}

validate {
  tcp {
    duration = "2s"
  }
}
