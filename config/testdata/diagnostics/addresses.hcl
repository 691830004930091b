host "a" {
  nic "net" {
    netdev    = "eth0"
    addresses = ["10.0.0.0/24"]
  }
  nic "broadcast" {
    netdev    = "eth1"
    addresses = ["10.0.1.255/24"]
  }
  nic "loop" {
    netdev    = "eth2"
    addresses = ["127.0.0.1/8", "fe80::1/64"]
  }
  nic "device" {
    netdev = "eth2"
  }
  nic "public" {
    netdev    = "eth4"
    addresses = ["23.10.2.21/30"]
    mtu       = 9000
  }
  nic "one" {
    netdev    = "eth5"
    addresses = ["192.168.9.1/30"]
    mtu       = 9000
  }
  nic "two" {
    netdev      = "eth6"
    addresses   = ["192.168.10.1/30"]
    host_number = 1
  }
  nic "given" {
    netdev    = "eth7"
    addresses = ["192.168.11.1/30"]
  }
}
host "b" {
  nic "public" {
    netdev    = "eth4"
    addresses = ["23.10.2.22/30"]
    mtu       = 9000
  }
  nic "one" {
    netdev    = "eth5"
    addresses = ["192.168.9.2/30"]
  }
  nic "given" {
    netdev = "eth7"
  }
}
link "public" {
  endpoints  = [host.a.nic.public, host.b.nic.public]
  port_group = "lonely"
}
link "mtu" {
  endpoints = [host.a.nic.one, host.b.nic.one]
}
link "given" {
  endpoints = [host.a.nic.given, host.b.nic.given]
  subnet    = ["192.168.11.0/30", "192.168.12.0/30"]
}
link "self" {
  endpoints = [host.a.nic.net, host.a.nic.net]
}
link "home" {
  endpoints = [host.a.nic.net, host.a.nic.broadcast]
}
link "three" {
  endpoints = [host.a.nic.loop, host.a.nic.device, host.a.nic.two]
}
