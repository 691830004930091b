fabric "f" {
  required_version = "newest"
}
ssh {
  user            = "-l"
  proxy_jump      = "a b"
  port            = 0
  connect_timeout = "5"
}
host "h" {
  memlock = "lots"
  sysctl  = { "kernel.core_pattern" = "|/bin/sh\nx" }

  nic "mac" {
    match = { mac = "aa-bb-cc-dd-ee-ff" }
  }
  nic "key" {
    match = { serial = "1" }
  }
  nic "type" {
    netdev          = "eth2"
    addresses       = "10.0.0.1/24"
    ipv6_link_local = "eui46"
  }
  nic "text" {
    netdev = "eth3"
    mtu    = "9000"
    gid    = { version = 3 }
  }
  nic "lengths" {
    netdev    = "eth4"
    addresses = ["10.0.0.1"]
  }
  nic "octal" {
    netdev    = "eth5"
    addresses = ["10.0.0.010/24"]
  }
  nic "null" {
    netdev    = "eth6"
    addresses = [null]
  }
  nic "whole" {
    netdev = "eth7"
    mtu    = 1500.5
  }
  nic "sysctl" {
    netdev = "eth8"
    sysctl = { "net.ipv4.conf.eth8.arp_ignore" = 1 }
  }
  rxe "rxe0" {}
  rxe "rxe1" {
    netdev = "eth0"
  }
  rxe "rxe1" {
    netdev = "eth/1"
  }
  ofed {
    stack  = "mofed"
    sha256 = "abc"
  }
  nccl {
    file      = "nccl.conf"
    transport = "rdma"
    hca       = ["mlx5_0"]
  }
}
locals {
  twice = { a = 1, b = 2, "a" = 3 }
}
