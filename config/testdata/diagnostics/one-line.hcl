host "a" { address = "10.0.0.1" user = "x" }
