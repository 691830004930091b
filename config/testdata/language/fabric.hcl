fabric "roce-pair" {
  description      = "Two servers with a 25G cable"
  required_version = ">= 0.1.0"
}
