link "rail0" {
  endpoints  = [host.a.nic.rail0, host.b.nic.rail0]
  subnet     = ["192.168.88.0/31", "fd00:88::/127"]
  mtu        = 9000
  speed_gbps = 25
}
