workload "llm" {
  parameters       = 70.6e9
  precision        = "bf16"
  step_seconds     = 6
  max_step_seconds = 10

  layers                  = 80
  kv_heads                = 8
  head_size               = 128
  tokens                  = 32768
  max_first_token_seconds = 5
}

link "local" {
  endpoints  = [host.a.nic.rail0, host.b.nic.rail0]
  role       = "training"
  speed_gbps = 400
  workload   = workload.llm
}

link "wan" {
  endpoints   = [host.a.nic.rail1, host.b.nic.rail1]
  role        = "inference"
  speed_gbps  = 100
  distance_km = 1000
  rtt         = "12ms"
  workload    = workload.llm
}
