terraform {
  required_version = ">= 1.0"
}
provider "ssh" {
}
module "rails" {
  source = "./rails"
}
local {
  mtu = 9000
}
host "a" {
  hostname   = "10.0.0.11"
  user       = "root"
  port       = 2222
  depends_on = [host.b]

  interface "rail0" {
    device  = "eth1"
    ip      = "192.168.1.1"
    netmask = "255.255.255.252"
    gateway = "192.168.1.2"
  }
  nic "rail0" {
    device  = "eth1"
    mac     = "aa:bb:cc:dd:ee:ff"
    ipv4    = "192.168.1.1"
    netmask = "255.255.255.252"
    gateway = "192.168.1.2"
    vlan    = 100
  }
  bond "bond0" {
  }
  route "far" {
    dst     = "10.0.0.0/8"
    gateway = "192.168.1.2"
  }
}
host "b" {
  count = 2
  ip    = "10.0.0.12"
}
link "rail0" {
  hosts = ["a", "b"]
  speed = 100
}
