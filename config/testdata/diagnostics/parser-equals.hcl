host = {
  nic "r" {
  }
}
