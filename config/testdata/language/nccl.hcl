nccl {
  hca     = [for h in values(host) : h.nic.rail0]
  version = "2.27.5"
  env     = { NCCL_IB_TC = 106 }
}
