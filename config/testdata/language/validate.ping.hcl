validate {
  ping {
    count            = 100
    max_loss_percent = 0
    max_rtt          = "200us"
  }
}
