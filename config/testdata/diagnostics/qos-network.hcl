# Members of a network send to each other, so that their classes must be the same.
qos "five" {
  dscp     = 40
  priority = 5
  pfc      = true
}

qos "same" {
  dscp     = 40
  priority = 5
  pfc      = true
  ets      = { 5 = 60, 0 = 40 }
}

qos "three" {
  dscp     = 26
  priority = 3
  pfc      = true
}

host "a" {
  nic "rail0" {
    netdev      = "eth1"
    host_number = 1
    qos         = qos.five
  }
}

host "b" {
  nic "rail0" {
    netdev      = "eth1"
    host_number = 2
    qos         = qos.same
  }
}

host "c" {
  nic "rail0" {
    netdev      = "eth1"
    host_number = 3
    qos         = qos.three
  }
}

host "d" {
  nic "rail0" {
    netdev      = "eth1"
    host_number = 4
  }
}

host "e" {
  nic "rail0" {
    netdev      = "eth1"
    host_number = 5
    pfc         = true
  }
}

qos "broken" {
  dscp     = 26
  priority = 9
}

host "f" {
  nic "rail0" {
    netdev      = "eth1"
    host_number = 6
    qos         = qos.broken
  }
}

network "rail0" {
  subnet  = "10.0.0.0/24"
  members = [host.f.nic.rail0, host.a.nic.rail0, host.b.nic.rail0, host.c.nic.rail0, host.d.nic.rail0, host.e.nic.rail0]
}
