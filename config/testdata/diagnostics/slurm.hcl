# Hosts that are reached by Slurm.
slurm {
  partition     = "a b"
  wave          = 0
  drain_timeout = "soon"
  qos           = "a b"
  time_limit    = "20s"
}

ssh {
  user = "root"
}

host "both" {
  ssh {
    port = 2222
  }
  slurm {
    reservation = "--uid=0"
  }
}

host "stack" {
  ofed {
    stack = "inbox"
  }
}

host "plain" {
  ssh {
    user = "ann"
  }
  ofed {
    stack = "inbox"
  }
}

login_mesh "m" {
  hosts = [host.stack, host.plain]
  user  = "ann"
}
