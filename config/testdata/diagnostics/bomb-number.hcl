locals {
  a = "x${1e10000000}"
}
