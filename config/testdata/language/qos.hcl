qos "lossless" {
  dscp     = 40
  priority = 5
  pfc      = true
  ecn      = true
  trust    = "dscp"
  cnp_dscp = 48
  ets      = { 5 = 60, 0 = 40 } # percent by priority
  pause    = false
}

host "a" {
  address = "10.0.0.11"
  qos     = qos.lossless # all NICs of this host

  nic "rail0" {
    netdev = "ens19f0np0"
  }
}

host "b" {
  address = "10.0.0.12"

  nic "rail0" {
    netdev = "ens19f0np0"
    qos    = qos.lossless
  }
}

link "rail0" {
  endpoints = [host.a.nic.rail0, host.b.nic.rail0]
  subnet    = "192.168.88.0/30"
}
