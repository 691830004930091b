# Two machines with two cables that act as one: LACP on both ends, RDMA in software on the bond, and a VLAN for storage. When a cable
# fails, the traffic goes on over the other one. Try it without any hardware:
#
#   fabricform lab up -backend vm examples/bond-vlan.hcl
#   fabricform apply  -lab        examples/bond-vlan.hcl
#   fabricform lab fault          examples/bond-vlan.hcl pair:p0 cut

fabric "bond-vlan" {
  description = "two virtual machines, a bond of two cables, a VLAN, RDMA in software"
}

host "node" {
  for_each = { node1 = "192.168.1.101", node2 = "192.168.1.102" }
  address  = each.value

  nic "p0" {
    netdev = "eth1"
  }
  nic "p1" {
    netdev = "eth2"
  }

  bond "b0" {
    nics      = [nic.p0, nic.p1]
    mode      = "802.3ad"
    lacp_rate = "fast"
    xmit_hash = "layer3+4"
    min_links = 1
    mtu       = 4200 # enough for an RDMA MTU of 4096
  }

  vlan "storage" {
    on           = bond.b0
    id           = 200
    priority_map = { 4 = 3 }
    mtu          = 4200
  }

  rxe "rxe0" {
    nic = bond.b0 # also serves its VLANs
  }
}

# The members are the cables: p0 to p0, and p1 to p1.
link "pair" {
  endpoints = [host.node["node1"].bond.b0, host.node["node2"].bond.b0]
  subnet    = "10.40.0.0/30"
}

link "storage" {
  endpoints = [host.node["node1"].vlan.storage, host.node["node2"].vlan.storage]
  subnet    = "10.2.0.0/30"
  role      = "storage"
}

validate {
  verbs {
    tests = ["send_lat", "write_bw"]
  }
}
