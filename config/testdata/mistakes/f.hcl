hots "a" {}
network "n" {}
locals {
  a = local.b
  b = local.a
}
host "a" {
  adress = "x"
}
