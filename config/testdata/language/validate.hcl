validate {
  pairs = "all"
  ping {
    count = 20
  }
  tcp {
    min_fraction = 0.9
  }
}
