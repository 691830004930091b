host "a" {
  slurm {
    reservation = "maintenance"
  }
}
