# Hosts that may log in to each other.
host "gpu" {
  for_each = toset(["a", "b"])
}

host "off" {
  enabled = false
}

login_mesh "nobody" {
  hosts = values(host.gpu)
}

login_mesh "wrong" {
  hosts = host.gpu
  user  = "Ann Smith"
}

login_mesh "names" {
  hosts = ["a", "b"]
  user  = "ann"
}

login_mesh "one" {
  hosts = [host.gpu["a"], host.off]
  user  = "ann"
}

login_mesh "twice" {
  hosts = [host.gpu["a"], host.gpu["b"], host.gpu["a"]]
  user  = "ann"
}

login_mesh "fine" {
  hosts = values(host.gpu)
  user  = "ann"
}

login_mesh "fine" {
  hosts = values(host.gpu)
  user  = "root"
}

login_mesh "each" {
  for_each = toset(["x"])
  hosts    = values(host.gpu)
  user     = "root"
}
