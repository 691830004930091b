host "a" {
  nic "r" {
    netdev    = "ens1f0"
    addresses = ["10.0.0.1/30"]
  }
  nccl {
    version = "2.20.5"
    env = {
      NCCL_IB_HCAS         = "=mlx5_0"
      NCCL_NO_SUCH_THING   = 1
      MY_OWN               = "x"
      NCCL_IB_ADDR_RANGE   = "10.0.0.0/24"
      NCCL_IB_QPS_PER_CONNECTION = "010"
      NCCL_BUFFSIZE        = "8388608 # 8 MiB"
      NCCL_IB_TC           = "0xA0"
      NCCL_IB_SL           = 16
      NCCL_CROSS_NIC       = 2
      NCCL_NET_GDR_LEVEL   = 2
      NCCL_P2P_LEVEL       = "pxb"
      NCCL_IB_HCA          = "=mlx5_0,=mlx5_1"
      NCCL_SOCKET_IFNAME   = "e"
      NCCL_SOCKET_FAMILY   = "ipv4"
      NCCL_IB_CUDA_SUPPORT = 1
      NCCL_MAX_NCHANNELS   = 8
      NCCL_COMM_ID         = ""
      NCCL_TOPO_FILE       = "~/topo.xml"
      NCCL_IB_RETRY_CNT    = "99999999999999999999"
    }
  }
}
host "b" {
  nic "r" {
    netdev    = "ens1f0"
    addresses = ["10.0.0.2/30"]
  }
  nccl {
    version = "new"
  }
}
link "l" {
  endpoints = [host.a.nic.r, host.b.nic.r]
}
nccl {
  env = merge({ NCCL_IB_DISABLE = 1 }, {
    NCCL_IB_ADDR_RANGE           = "10.0.0.1/8"
    NCCL_SOCKET_IFNAME           = "ens1f0"
    NCCL_IB_PCI_RELAXED_ORDERING = 1
    NCCL_IB_HCA                  = "mlx5_1:1"
    NCCL_IB_GID_INDEX            = 0
  })
}
