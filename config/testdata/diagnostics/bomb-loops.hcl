locals {
  a = [for i in range(5000) : [for j in range(5000) : i * j]]
  b = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
  c = "${local.b}${local.b}${local.b}${local.b}${local.b}${local.b}${local.b}${local.b}${local.b}${local.b}${local.b}${local.b}${local.b}${local.b}${local.b}${local.b}"
  d = "${local.c}${local.c}${local.c}${local.c}${local.c}${local.c}${local.c}${local.c}${local.c}${local.c}${local.c}${local.c}${local.c}${local.c}${local.c}${local.c}"
  e = "${local.d}${local.d}${local.d}${local.d}${local.d}${local.d}${local.d}${local.d}${local.d}${local.d}${local.d}${local.d}${local.d}${local.d}${local.d}${local.d}"
  f = "${local.e}${local.e}${local.e}${local.e}${local.e}${local.e}${local.e}${local.e}${local.e}${local.e}${local.e}${local.e}${local.e}${local.e}${local.e}${local.e}"
  g = setproduct(range(60000), range(60000))
  h = format("%999999999d", 1)
  i = 1e300 * 1e300 * 1e300
  j = tostring(tonumber("1e10000000"))
  k = replace(local.e, "x", local.e)
  l = [for x in range(60000) : local.e]
  m = join(local.e, range(60000))
}
