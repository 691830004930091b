host "h" {
  for_each = { a = 1, b = 2 }

  nic "leaf" {
    netdev    = "eth0"
    addresses = ["10.4.${each.value}.1/24"]
  }
  nic "flat" {
    netdev    = "eth1"
    addresses = ["10.5.${each.value}.1/24"]
  }
  nic "number" {
    netdev      = "eth2"
    host_number = each.value
  }
  nic "outside" {
    netdev    = "eth3"
    addresses = ["10.6.${each.value}.1/16"]
  }
  nic "x" {
    netdev    = "eth4"
    addresses = ["10.7.0.${each.value}/24"]
  }
  nic "y" {
    netdev    = "eth5"
    addresses = ["10.7.0.${each.value + 10}/24"]
  }
}
network "leaf" {
  members = values(host.h)[*].nic.leaf
  routed  = true
}
network "flat" {
  members = values(host.h)[*].nic.flat
}
network "number" {
  members = values(host.h)[*].nic.number
}
network "outside" {
  members = values(host.h)[*].nic.outside
  subnet  = "10.6.0.0/24"
}
network "x" {
  members = values(host.h)[*].nic.x
  mtu     = 1500
}
network "y" {
  members = values(host.h)[*].nic.y
}
link "far" {
  endpoints = [host.h["a"].nic.x, host.h["b"].nic.x]
  role      = "training"

  validate {
    ping {
      max_rtt = "20ms"
    }
  }
}
