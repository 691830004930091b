# -var nonsense
# -var unkown=1
# -var list=[1,
# -var-file testdata/diagnostics/values-from-outside.fabricvars
# env FABRICFORM_VAR_number=many
# env FABRICFORM_VAR_numbr=1
# env FABRICFORM_VAR_TWICE=1
# env FABRICFORM_VAR_twice=1
# env FABRICFORM_VAR_CASE=1
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
variable "Twice" {
  default = 1
}
variable "case" {
  default = 1
}
variable "Case" {
  default = 1
}
