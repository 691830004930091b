host "a" {
  nic "r0" {
    netdev = "ens1f0"
  }
  nccl {
    env = {
      NCCL_IB_DISABLE = 1
    }
  }
}
host "b" {
  nic "r0" {
    netdev = "ens1f0"
  }
}
link "l" {
  endpoints  = [host.a.nic.r0, host.b.nic.r0]
}
nccl {
  transport = "ib"
  hca       = [host.a.nic.r0]
  env = {
    LD_LIBRARY_PATH      = "/opt/lib"
    CUDA_VISIBLE_DEVICES = 0
    OMP_NUM_THREADS      = 4
  }
}
validate {
  nccl {
    run = "nccl-tests"
  }
}
