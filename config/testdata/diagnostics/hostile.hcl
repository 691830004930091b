fabric "f" {
  required_version = ">= 99.0"
}
host "a" {
  address = "-oProxyCommand=id"
  sysctl = { "../../kernel/panic" = 1 }
}
