host "a" {
  nic "r" {
    netdev    = "eth0"
    addresses = ["10.1.0.1/24"]
  }
  nic "off" {
    netdev  = "eth1"
    enabled = false
  }

  policy_route "empty" {
    nic   = nic.r
    table = 100
  }
  policy_route "strange" {
    nic   = nic.r
    from  = "10.9.9.9"
    table = 101

    route {
      to  = "10.2.0.0/16"
      via = "10.7.0.1"
    }
    route {
      to  = "10.3.0.0/16"
      via = "10.1.0.1"
    }
    route {
      to  = "fd00::/64"
      via = "10.1.0.2"
    }
    route {
      to  = "10.4.0.0/16"
      src = "10.9.9.9"
    }
  }
  policy_route "families" {
    nic   = nic.r
    from  = nic.r.ip
    to    = "fd00::/64"
    table = 102

    route {
      to = "default"
    }
    route {
      to = "fd01::/64"
    }
  }
  policy_route "foreign" {
    nic   = host.b.nic.r
    table = 103

    route {
      to = "default"
    }
  }
  policy_route "disabled" {
    nic   = nic.off
    table = 254

    route {
      to = "default"
    }
  }
  policy_route "disabled" {
    nic   = nic.r
    table = 105

    route {
      to = "default"
    }
  }
  route "nowhere" {
    to = "10.5.0.0/16"
  }
  route "far" {
    to  = "10.5.0.0/16"
    via = "10.8.0.1"
  }
  route "one" {
    to  = "10.6.0.0/16"
    via = "10.1.0.2"
  }
  route "twice" {
    to  = "10.6.0.0/16"
    via = "10.1.0.3"
  }
  route "one" {
    to  = "10.16.0.0/16"
    via = "10.1.0.3"
  }
  route "own" {
    to  = "10.1.0.0/24"
    nic = nic.r
  }
  route "direct" {
    to      = "10.17.0.0/16"
    nic     = nic.r
    on_link = true
  }
}
host "b" {
  nic "r" {
    netdev = "eth0"
  }
}
host "repeated" {
  nic "r" {
    for_each  = toset(["rail0", "rail1"])
    netdev    = each.key
    addresses = ["10.${each.key == "rail0" ? 18 : 19}.0.1/24"]
  }
  policy_route "v4" {
    for_each = toset(["rail0"])
    nic      = nic.r[each.key]
    from     = nic.r[each.key].ip
    table    = 106

    route {
      to = "10.20.0.0/16"
    }
  }
  policy_route "v4" {
    for_each = toset(["rail0"])
    nic      = nic.r["rail1"]
    table    = 107
  }
  route "not\"a name" {
    for_each = toset(["rail0"])
    to       = "10.21.0.0/16"
    nic      = nic.r[each.key]
  }
}
