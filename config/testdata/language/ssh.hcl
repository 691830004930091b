ssh {
  user            = "admin"
  identity_file   = "~/.ssh/fabric"
  proxy_jump      = "jump.example.net"
  connect_timeout = "20s"
}
