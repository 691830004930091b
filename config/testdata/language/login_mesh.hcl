login_mesh "mpi" {
  hosts = [host.a, host.b]
  user  = "mpi"
}
