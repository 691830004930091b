fabric "f" {}
fabric "g" {}
ssh "named" {}
link {
}
host "a" {
  nic = "eth0"
  labels {
    x = 1
  }
  count = 2
  nic "r" {
    netdev = "eth0"
    speed  = 25
  }
  nic "r" {
    netdev = "eth1"
  }
  nic "same" {
    netdev = "eth0"
  }
  nic "none" {}
  nic "both" {
    netdev = "eth3"
    match  = { mac = "aa:bb:cc:dd:ee:ff" }
  }
}
host "a" {
}
host "bad name" {
}
locals {
  x = 1
  block {
  }
}
locals {
  x = 2
}
variable "v" {
  default = 1
}
variable "v" {
  default = 1
}
variable "1v" {
  default = 1
}
output "o" {
  value = 1
}
output "o" {
  value = 2
}
