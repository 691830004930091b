host "a" {
  nic "r0" {
    netdev = "ens1f0"
  }
  nccl {
    hca = ["mlx5_0"]
  }
}
host "b" {
  nic "r0" {
    netdev = "ens1f0"
  }
}
link "l" {
  endpoints   = [host.a.nic.r0, host.b.nic.r0]
  speed_gbps  = "25G"
  expect_gbps = "22.5 Gbit/s"
}
nccl {
  version = 2.30
  hca     = [nic.r0]
}
