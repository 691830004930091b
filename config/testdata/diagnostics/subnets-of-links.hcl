host "a" {
  nic "rail" {
    for_each = toset(["0", "1", "2", "3"])
    netdev   = "eth${each.key}"
  }
}
host "b" {
  nic "rail" {
    for_each = toset(["0", "1", "2", "3"])
    netdev   = "eth${each.key}"
  }
}
link "first" {
  endpoints = [host.a.nic.rail["0"], host.b.nic.rail["0"]]
  subnet    = "10.1.0.0/24"
}
link "second" {
  endpoints = [host.a.nic.rail["1"], host.b.nic.rail["1"]]
  subnet    = "10.1.0.0/24"
}
link "overlapping" {
  endpoints = [host.a.nic.rail["2"], host.b.nic.rail["2"]]
  subnet    = "10.1.0.4/30"
}
link "single" {
  endpoints = [host.a.nic.rail["3"], host.b.nic.rail["3"]]
  subnet    = "10.1.1.3/32"
}

# The same with for_each: keys that two blocks share, and a subnet that does not depend on the key.
host "more" {
  for_each = toset(["a", "c", "d"])
  nic "rail" {
    for_each = toset(["0", "1"])
    netdev   = "eth${each.key}"
  }
}
link "all" {
  for_each  = toset(["0", "1"])
  endpoints = [host.more["c"].nic.rail[each.key], host.more["d"].nic.rail[each.key]]
  subnet    = "10.2.0.0/31"
}
