validate {
  tcp {
    duration = "5s"
    streams  = 8
    min_gbps = 22
  }
}
