# -var token=hunter2
# -var-file testdata/diagnostics/sensitive.fabricvars
variable "token" {
  sensitive = true
  validation {
    condition     = length(var.token) > 20
    error_message = "${upper(var.token)}: ${base64encode(var.token)} is too short for ${var.token}"
  }
}
variable "list" {
  type      = list(string)
  sensitive = true
}
variable "number" {
  type      = number
  default   = "hunter2"
  sensitive = true
}
variable "hosts" {
  default   = { hunter2 = "hunter2" }
  sensitive = true
}
locals {
  text    = "a-${var.token}"
  parsed  = parseint(upper(var.token), 10)
  decoded = jsondecode("{${local.text}")
  missing = var.hosts.hunter3
  looped  = [for k, v in var.hosts : tonumber("${v}-")]
  shown   = nonsensitive(substr(local.text, 0, 1))
}
host "a" {
  address = "10.0.0.${length(var.token)}"
  labels  = { rack = split("-", local.text)[1] }
  nic "r" {
    netdev  = local.text
    enabled = var.token == ""
  }
  nic "s" {
    netdev  = "eth1"
    mtu     = length(local.text) > 3 ? 9000 : 1500
    comment = local.parsed + local.decoded + local.missing + length(local.looped)
  }
  nccl {
    env = {
      NCCL_IB_TIMEOUT = var.token
      NCCL_IB_HCA     = "=${var.token}"
      NCCL_DEBUG_FILE = "${templatestring("/$${x}", { x = local.text })}-${local.shown}"
    }
  }
}
host "b" {
  for_each = var.hosts
  nccl {
    env = var.hosts
  }
}
host "c" {
  nccl {
    env = var.hosts
  }
}
