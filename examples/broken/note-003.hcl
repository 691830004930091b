# Refused: the policy route as it was written down. The destination has host bits, the gateway is on
# no subnet of the NIC, the addresses belong to somebody else, the rule has no route of its own, and
# NCCL_SOCKET_IFNAME names an RDMA device.
host "node0" {
  nic "xgbe0" {
    netdev    = "xgbe0"
    addresses = ["23.10.2.22/24"]
    mtu       = 9000
  }

  policy_route "rdma" {
    nic      = nic.xgbe0
    from     = "23.10.2.22"
    table    = 100
    priority = 10000

    route {
      to  = "10.245.163.0/8"
      via = "192.168.0.1"
      src = "23.10.2.22"
    }
  }
  policy_route "rule-only" {
    nic   = nic.xgbe0
    from  = "23.10.2.22"
    table = 101
  }
}

host "node1" {
  nic "xgbe0" {
    netdev    = "xgbe0"
    addresses = ["23.10.2.23/24"]
    mtu       = 9000
  }

  policy_route "rdma" {
    nic   = nic.xgbe0
    from  = "23.10.2.22"
    table = 100

    route {
      to  = "10.0.0.0/8"
      via = "192.168.0.1"
    }
  }
}

network "rdma" {
  members = [host.node0.nic.xgbe0, host.node1.nic.xgbe0]
}

nccl {
  env = {
    NCCL_SOCKET_IFNAME = "mlx5_0"
    NCCL_IB_HCA        = "xgbe0"
  }
}
