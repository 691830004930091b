host "a" {
  ofed {
    stack   = "mlnx_ofed"
    version = "24.10-1.1.4.0"
    bundle  = "MLNX_OFED_LINUX-24.10-2.1.8.0-openeuler22.03sp3-x86_64.tar"
  }
}
host "b" {
  ofed {
    stack  = "mlnx_ofed"
    bundle = "doca-host_3.1.0-091000-25.07-ubuntu2204_amd64.deb"
  }
}
host "c" {
  ofed {
    stack    = "doca_ofed"
    bundle   = "ofed.tgz"
    packages = ["perftest"]
  }
}
host "d" {
  ofed {
    stack  = "inbox"
    bundle = "MLNX_OFED_LINUX-24.10-2.1.8.0-ubuntu22.04-x86_64.tgz"
  }
}
host "e" {
  ofed {
    stack   = "doca_ofed"
    version = "25.07"
  }
}
host "f" {
  ofed {
    stack    = "doca_ofed"
    bundle   = "doca-host_3.1.0-091000-25.07-ubuntu2204_amd64.deb"
    firmware = "update"
  }
}
host "g" {
  ofed {
    stack   = "doca_ofed"
    version = "3.1.0"
  }
}
host "s" {
  nic "n" {
    netdev    = "eth1"
    addresses = ["10.0.0.1/24"]
  }
  rxe "rxe0" {
    nic = nic.n
  }
  ofed {
    stack  = "doca_ofed"
    bundle = "doca-host_3.1.0-091000-25.07-ubuntu2204_amd64.deb"
  }
}
host "r0" {
  ofed {
    stack  = "doca_ofed"
    bundle = "doca-host_3.1.0-091000-25.07-ubuntu2204_amd64.deb"
    relay  = "r1"
  }
}
host "r1" {
  ofed {
    stack  = "doca_ofed"
    bundle = "doca-host_3.1.0-091000-25.07-ubuntu2204_amd64.deb"
    relay  = "r1"
  }
}
host "r2" {
  ofed {
    stack  = "doca_ofed"
    bundle = "doca-host_3.1.0-091000-25.07-ubuntu2204_amd64.deb"
    relay  = "r3"
  }
}
host "r4" {
  ofed {
    stack  = "doca_ofed"
    bundle = "doca-host_3.1.0-091000-25.07-ubuntu2204_amd64.deb"
    relay  = "e"
  }
}
host "r5" {
  ofed {
    stack   = "mlnx_ofed"
    version = "24.10-2.1.8.0"
    relay   = "e"
  }
}
host "r6" {
  ofed {
    stack = "inbox"
    relay = "e"
  }
}
