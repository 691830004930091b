host "a" {
  address = "10.0.0.11"

  nic "rail0" {
    netdev    = "ens19f0np0"
    addresses = ["10.10.0.11/24"]
  }
  policy_route "rail0" {
    nic   = nic.rail0
    from  = nic.rail0.ip
    table = 100

    # Without via: the hosts of this subnet are on the link.
    route {
      to = "10.10.0.0/24"
    }
    route {
      to  = "default"
      via = "10.10.0.1"
    }
  }
}
