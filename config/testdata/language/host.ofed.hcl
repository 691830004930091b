host "a" {
  address = "10.0.0.11"

  ofed {
    stack    = "inbox"
    packages = ["perftest", "infiniband-diags"]
  }
}

host "b" {
  address = "10.0.0.12"

  ofed {
    stack   = "mlnx_ofed"
    version = "24.10-2.1.8.0"
    bundle  = "MLNX_OFED_LINUX-24.10-2.1.8.0-ubuntu24.04-x86_64.tgz"
    reboot  = "allow"
  }
}
