host "a" {
  address = "10.0.0.11
  nic "r" {
    netdev = "eth1"
  }
}
link "l" {
  role = "x"
}
