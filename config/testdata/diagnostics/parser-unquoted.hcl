host "a" {
  address = 10.0.0.11
}
host "b" {
  address "10.0.0.12"
}
