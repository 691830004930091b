host "h" {
  for_each = { a = 1, b = 2, c = 300 }

  nic "plain" {
    netdev = "eth0"
  }
  nic "numbered" {
    netdev      = "eth1"
    host_number = each.value
  }
  nic "declared" {
    netdev    = "eth2"
    addresses = ["10.3.0.${each.value % 200}/24"]
    mtu       = each.value * 10 + 1400
  }
  nic "routed" {
    netdev    = "eth3"
    addresses = ["10.4.${each.value % 200}.1/24"]
  }
  nic "same" {
    netdev    = "eth4"
    addresses = ["10.3.0.${each.value % 200 + 10}/24"]
    mtu       = 9000
  }
}
network "without" {
  members = values(host.h)[*].nic.plain
  subnet  = "10.1.0.0/24"
}
network "small" {
  members = values(host.h)[*].nic.numbered
  subnet  = "10.2.0.0/24"
}
network "mixed" {
  members = values(host.h)[*].nic.declared
}
network "same" {
  members = concat(values(host.h)[*].nic.same, [host.h["a"].nic.same, host.h["a"].nic.declared])
  subnet  = "10.3.0.0/24"
}
network "routed" {
  members = values(host.h)[*].nic.routed
  routed  = true
  subnet  = "10.4.0.0/16"
}
network "unrouted" {
  members = [host.h["a"].nic.routed]
  routed  = true

  validate {
    ping {
      max_rtt = "30ms"
    }
  }
}
