host "a" {
  nic "r" {
    netdev    = "ens1f0"
    addresses = ["10.0.0.1/30"]
    gid       = { index = 3 }
  }
  nccl {
    gid_index = 5
    env = {
      NCCL_IB_GID_INDEX  = 3
      NCCL_IB_DISABLE    = true
      NCCL_IB_HCA        = "ens1f0, mlx5_1"
      NCCL_SOCKET_IFNAME = "mlx5_0"
      NCCL_IB_TIMEOUT    = 23
    }
  }
}
host "b" {
  nic "r" {
    netdev    = "ens1f0"
    addresses = ["10.0.0.2/30"]
  }
}
link "l" {
  endpoints = [host.a.nic.r, host.b.nic.r]
  role      = "checkpoint"
}
nccl {
  hca = [host.a.nic.r]
}
validate {
  nccl {
    run    = "torch"
    python = "python3; reboot"

    nccl_tests = "~/nccl-tests/build"
    mpirun     = "mpirun --allow-run-as-root"
  }
}
