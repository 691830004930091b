fabric "lab" {
  required_version = ">= 0.1.0"
}

variable "mtu" {
  type    = number
  default = 9000
}

locals {
  rails = { rail0 = "eth1", rail1 = "eth2" }
  gpus  = { gpu1 = "10.0.0.21", gpu2 = "10.0.0.22", gpu3 = "10.0.0.23" }
}

ssh {
  user = "admin"
}

host "a" {
  address = "10.0.0.11"
  labels  = { rack = "r1" }
  sysctl  = { "net.ipv4.ip_forward" = 1 }

  nic "rail0" {
    netdev    = "ens1"
    addresses = ["192.168.88.1/30"]
    mtu       = 9000
  }
  nic "rail1" {
    match     = { mac = "aa:bb:cc:dd:ee:ff" }
    addresses = ["192.168.88.5/30"]
    mtu       = var.mtu
  }
  route "far" {
    to  = "10.99.0.0/16"
    via = "192.168.88.2"
  }
}

host "b" {
  address = "10.0.0.12"

  nic "rail0" {
    netdev    = "ens3"
    addresses = ["192.168.88.2/30"]
    mtu       = 9000
  }
  nic "rail1" {
    netdev    = "ens4"
    addresses = ["192.168.88.6/30"]
    mtu       = 9000
  }
  rxe "rxe0" {
    nic = nic.rail0
  }
}

host "gpu" {
  for_each = local.gpus
  address  = each.value

  nic "rail" {
    for_each    = local.rails
    netdev      = each.value
    host_number = index(keys(local.gpus), self.key) + 1
  }
  policy_route "rail" {
    for_each = local.rails
    nic      = nic.rail[each.key]
    from     = nic.rail[each.key].ip
    table    = 100 + index(keys(local.rails), each.key)

    route {
      to = "10.10.0.0/16"
    }
  }
}

link "rail0" {
  endpoints  = [host.a.nic.rail0, host.b.nic.rail0]
  speed_gbps = 25
}

link "rail1" {
  endpoints  = [host.a.nic.rail1, host.b.nic.rail1]
  speed_gbps = 25
}

network "rail" {
  for_each = local.rails
  members  = [for h in values(host.gpu) : h.nic.rail[each.key]]
  subnet   = cidrsubnet("10.10.0.0/16", 8, index(keys(local.rails), each.key))
  mtu      = 9000
}

nccl {
  env = { NCCL_DEBUG = "INFO" }
}

validate {
  ping {
    count   = 20
    max_rtt = "200us"
  }
}

output "ips" {
  value = { for name, h in host.gpu : name => h.nic.rail["rail0"].ip }
}
