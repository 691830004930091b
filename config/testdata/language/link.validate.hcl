link "rail0" {
  endpoints  = [host.a.nic.rail0, host.b.nic.rail0]
  subnet     = "192.168.88.0/30"
  speed_gbps = 25

  validate {
    tcp {
      min_fraction = 0.95
    }
  }
}
