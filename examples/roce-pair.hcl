# Two servers with two direct 25G cables. Each cable has its own subnet.
fabric "roce-pair" {
  required_version = ">= 0.1.0"
}

# How to reach the servers. ~/.ssh/config supplies everything that is not set here.
ssh {
  user = "tutu"
}

host "a" {
  address = "10.0.0.11"
  sysctl  = { "net.ipv4.tcp_mtu_probing" = 1 }

  nic "rail0" {
    netdev    = "ens19f0np0"
    addresses = ["192.168.88.1/30"]
    mtu       = 9000
  }
  nic "rail1" {
    netdev    = "ens19f1np1"
    addresses = ["192.168.88.5/30"]
    mtu       = 9000
  }
}

host "b" {
  address = "10.0.0.12"
  sysctl  = { "net.ipv4.tcp_mtu_probing" = 1 }

  nic "rail0" {
    netdev    = "ens19f0np0"
    addresses = ["192.168.88.2/30"]
    mtu       = 9000
  }
  nic "rail1" {
    netdev    = "ens19f1np1"
    addresses = ["192.168.88.6/30"]
    mtu       = 9000
  }
}

# One link block describes both ends of a cable.
link "rail" {
  for_each   = toset(["rail0", "rail1"])
  endpoints  = [host.a.nic[each.key], host.b.nic[each.key]]
  speed_gbps = 25
}

# NCCL's settings are derived from the NICs.
nccl {}

validate {
  ping {
    count = 20
  }
  tcp {
    duration     = "3s"
    streams      = 4
    min_fraction = 0.9
  }
}
