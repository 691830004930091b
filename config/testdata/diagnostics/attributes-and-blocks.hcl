host "a" {
  adress = "10.0.0.1"
  nic "r" {
    netdev = "eth1"
    mtu    = "nine thousand"
  }
  rxe "rxe0" {
    netdev = "eth1"
  }
  nic "s" {
    netdev = "a-name-that-is-too-long"
  }
}
netwrok "n" {}
network "n" {}
