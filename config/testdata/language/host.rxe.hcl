host "a" {
  address = "10.0.0.11"

  nic "rail0" {
    netdev    = "ens3"
    addresses = ["192.168.88.1/30"]
  }
  rxe "rxe0" {
    nic = nic.rail0
  }
}
