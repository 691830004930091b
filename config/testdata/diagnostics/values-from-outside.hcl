# -var nonsense
# -var unkown=1
# -var list=[1,
# -var-file testdata/diagnostics/values-from-outside.fabricvars
# env FABRICFORM_VAR_number=many
# -var-again unknown=2
# -var-file-again testdata/diagnostics/again.fabricvars
# -var secret=[hunter2
variable "list" {
  type = list(string)
}
variable "number" {
  type = number
}
variable "unknown" {
  default = 1
}
variable "secret" {
  type      = list(string)
  sensitive = true
}
