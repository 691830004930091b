host "a" {
  address = "10.0.0.11"

  nic "rail0" {
    netdev = "ens3"
    mtu    = 9000
  }
  vlan "storage" {
    on           = nic.rail0
    id           = 200
    priority_map = { 4 = 3 }
    addresses    = ["10.2.0.1/24"]
    mtu          = 9000
  }
}
