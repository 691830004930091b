slurm {
  partition = "fabric"
}
