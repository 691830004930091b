host "${var.name}" {
  address = ${var.address}
}
