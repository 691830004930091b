# Two DGX Sparks, one QSFP cable. A Spark's port is two PCIe functions, each with half of the lanes: a
# job that uses one of them gets half of the port's speed. Both halves are declared, each with its own
# subnet, and are measured one by one and together.
fabric "spark-pair" {}

ssh {
  user = "nvidia"
}

locals {
  halves = {
    lower = { netdev = "enp1s0f0np0", subnet = "192.168.100.10/31" }
    upper = { netdev = "enP2p1s0f0np0", subnet = "192.168.101.10/31" }
  }
}

host "spark" {
  for_each = toset(["spark0", "spark1"])

  nic "half" {
    for_each = local.halves
    netdev   = each.value.netdev
  }
}

link "half" {
  for_each    = local.halves
  endpoints   = [host.spark["spark0"].nic.half[each.key], host.spark["spark1"].nic.half[each.key]]
  subnet      = each.value.subnet # a /31: spark0 gets .10, spark1 .11
  mtu         = 9000
  speed_gbps  = 200 # the speed that the port negotiates
  expect_gbps = 100 # the speed of the lanes of one function
  port_group  = "qsfp0"
}

# NCCL uses both halves. Its settings are derived; `fabricform render nccl` prints them.
nccl {}

validate {
  tcp {
    duration = "2s"
  }
}
