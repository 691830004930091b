output "rail_addresses" {
  description = "The address of each host on rail 0."
  value       = { for name, h in host : name => h.nic.rail0.ip }
}
