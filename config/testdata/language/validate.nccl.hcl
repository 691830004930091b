login_mesh "mpi" {
  hosts = values(host)
  user  = "mpi"
}

validate {
  nccl {
    run           = "nccl-tests"
    nccl_tests    = "/opt/nccl-tests/build"
    min_busbw_gbs = 2.5
  }
}
