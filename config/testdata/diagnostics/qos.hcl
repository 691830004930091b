# Classes of traffic that no NIC can have.
qos "numbers" {
  dscp     = 160
  priority = 8
  cnp_dscp = 106
}

qos "far" {
  dscp = 300
}

qos "shares" {
  priority = 5
  ets      = { 5 = 60, 0 = 30 }
}

qos "own_share" {
  priority = 5
  ets      = { 0 = 100 }
}

qos "keys" {
  ets    = { 9 = 100 }
  buffer = { 5 = 0 }
}

qos "cells" {
  buffer = { 5 = 100000 }
}

qos "more_keys" {
  ets    = { 0 = "all" }
  buffer = 524288
}

qos "nowhere" {
  dscp = 40
}

qos "unused" {
  dscp     = 40
  priority = 5
  trust    = "pcp"
}

qos "trust" {
  trust = "dscp"
}

qos "pfc" {
  pfc = true
}

qos "both" {
  priority = 5
  pfc      = true
  pause    = true
}

qos "cnp" {
  cnp_dscp = 48
  rdma_cm  = true
}

qos "cnp" {
}

qos "-" {
  tclass = 160
}

qos "behind" {
  dscp     = 40
  priority = 5
  ecn      = true
  cnp_dscp = 40
}
