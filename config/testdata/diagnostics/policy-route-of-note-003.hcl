host "a" {
  nic "r" {
    netdev    = "eth1"
    addresses = ["23.10.2.22/24"]
  }
  policy_route "p" {
    nic   = nic.r
    from  = "23.10.2.22"
    table = 100
    route {
      to  = "10.245.163.0/8"
      via = "192.168.0.1"
    }
  }
}
