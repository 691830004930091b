validate {
  verbs {
    tests       = ["send_lat", "write_bw", "read_bw"]
    min_gbps    = 23
    max_latency = "5us"
  }
}
