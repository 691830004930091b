host "a" {
  address = "10.0.0.11"

  nic "rail0" {
    netdev    = "ens19f0np0"
    addresses = ["10.10.0.11/24"]
  }
  route "other_rails" {
    to  = "10.10.0.0/16"
    via = "10.10.0.1"
    src = nic.rail0.ip
  }
}
