host "a" {
  nic "r" {
    mtu = 9k
  }
}
}
; comment
