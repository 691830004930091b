host "a" {
  address = "10.0.0.11"

  ssh {
    user = "root"
    port = 2222
  }
}
