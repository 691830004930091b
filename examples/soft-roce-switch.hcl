# Four machines with plain NICs on one switch, each with Soft-RoCE. Try it without any hardware:
#
#   fabricform lab up -backend vm examples/soft-roce-switch.hcl
#   fabricform apply  -lab        examples/soft-roce-switch.hcl

fabric "soft-roce-switch" {
  description = "four virtual machines on a switch, RDMA in software"
}

host "node" {
  for_each = { for i in range(4) : "node${i + 1}" => { address = cidrhost("192.168.1.0/24", 101 + i), number = i + 1 } }
  address  = each.value.address

  nic "rdma" {
    netdev      = "enp8s0"
    host_number = self.value.number
    mtu         = 9000
  }

  rxe "rxe0" {
    nic = nic.rdma
  }
}

network "rdma" {
  members = [for h in values(host.node) : h.nic.rdma]
  subnet  = "10.30.0.0/24"
}

validate {
  pairs = "ring"
}
