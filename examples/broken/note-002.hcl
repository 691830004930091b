# Warned of, and refused: NCCL variables that were copied from host to host. The GID index moves, a
# time-out of 23 hides a dead link for minutes, and NCCL reads a list up to its first space.
host "gpu" {
  for_each = { gpu0 = 1, gpu1 = 2 }

  nic "rail" {
    for_each    = { for i in range(2) : "rail${i}" => "eth${i + 1}" }
    netdev      = each.value
    host_number = self.value
    mtu         = 9000
  }
}

network "rail" {
  for_each = { rail0 = "10.10.0.0/24", rail1 = "10.10.1.0/24" }
  members  = [for h in values(host.gpu) : h.nic.rail[each.key]]
  subnet   = each.value
}

nccl {
  env = {
    NCCL_IB_GID_INDEX  = 3
    NCCL_IB_HCA        = "mlx5_1:1, mlx5_2:1"
    NCCL_IB_TIMEOUT    = 23
    NCCL_SOCKET_IFNAME = "eth0"
    NCCL_IB_DISABLE    = "false"
  }
}
