variable "rail_mtu" {
  type    = number
  default = 9000

  validation {
    condition     = var.rail_mtu >= 1280
    error_message = "IPv6 needs an MTU of at least 1280 bytes."
  }
}
