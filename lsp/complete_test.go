package lsp

import (
	"slices"
	"strings"
	"testing"
)

// fabricText is a fabric with one of everything that a reference may name.
const fabricText = `variable "mtu" {
  type        = number
  description = "Bytes, 字节."
}
locals {
  rails = { rail0 = "10.0.0.0/30" }
}
host "a" {
  address = "10.0.0.11"
  nic "rail0" {
    netdev = "e0"
  }
}
host "n" {
  for_each = toset(["x"])
  nic "rail" {
    for_each = local.rails
    netdev   = each.key
  }
}
`

// at makes a file of a text with a mark where the cursor is, beside fabricText.
func at(t *testing.T, src string) (files []*file, f *file, cursor int) {
	t.Helper()
	before, after, found := strings.Cut(src, "¦")
	if !found {
		t.Fatalf("%q has no mark", src)
	}
	f = newFile("/f/b.hcl", "file:///f/b.hcl", []byte(before+after))
	return []*file{f, newFile("/f/a.hcl", "file:///f/a.hcl", []byte(fabricText))}, f, len(before)
}

func labels(items []completionItem) []string {
	var out []string
	for _, i := range items {
		out = append(out, i.Label)
	}
	return out
}

func TestCompletionIsExact(t *testing.T) {
	for src, want := range map[string]string{
		"¦":                     "fabric variable locals output ssh slurm host link network qos workload login_mesh nccl validate",
		"ho¦":                   "fabric variable locals output ssh slurm host link network qos workload login_mesh nccl validate",
		"ssh {\n}\n¦":           "fabric variable locals output slurm host link network qos workload login_mesh nccl validate",
		"fabric \"x\" {\n  ¦":   "description required_version",
		"fabric \"x\" {\n  ¦\n": "description required_version",
		"fabric \"x\" {\n  description = \"d\"\n  re¦\n}\nhost \"c\" {}": "required_version",
		"host \"¦":                         "",
		"host ¦ {":                         "",
		"nope {\n  ¦\n}":                   "",
		"locals {\n  ¦\n}":                 "",
		"variable \"v\" {\n  type = ¦\n}":  "string number bool any list(string) set(string) map(string) object({})",
		"# ¦":                              "",
		"x = 1 # ¦\n":                      "",
		"/* ¦ */":                          "",
		"locals {\n  a = var.¦\n}":         "mtu",
		"locals {\n  a = var.m¦tu\n}":      "mtu",
		"locals {\n  b = 1\n  a = local.¦": "b a rails",
		"locals {\n  a = host.¦\n}":        "a n",
		"host \"c\" {\n  nic \"p0\" {}\n  bond \"b0\" {\n    nics = [nic.¦":                 "p0",
		"host \"c\" {\n  nic \"p0\" {}\n  bond \"b0\" {}\n  vlan \"v\" {\n    on = bond.¦":  "b0",
		"host \"c\" {\n  nic \"p0\" {}\n  vlan \"v\" {}\n  route \"v\" {\n    nic = vlan.¦": "v",
		"host \"c\" {\n  nic \"p0\" {}\n  bond \"b0\" {\n    nics = [bond.¦":                "",
		"host \"c\" {\n  bond \"b0\" {}\n}\nlocals {\n  a = host.c.bond.¦\n}":               "b0",
		"locals {\n  a = host.a.¦}":                                                         "name address labels nic bond vlan",
		"link \"l\" {\n  endpoints = [host.a.nic.¦\n  mtu = 1\n}":                           "rail0",
		"link \"l\" {\n  endpoints = [host.a.nic.rail0.i¦":                                  "host name netdev addresses ip ip6 mtu",
		"link \"l\" {\n  endpoints = [host.a.nic[each.key].¦]":                              "host name netdev addresses ip ip6 mtu",
		"link \"l\" {\n  endpoints = [host[\"a\"].nic.¦]":                                   "rail0",
		"locals {\n  a = host.n.¦\n}":                                                       "",
		"locals {\n  a = host.n[\"x\"].nic.¦\n}":                                            "rail",
		"locals {\n  a = host.n[\"x\"].nic.rail.¦\n}":                                       "",
		"locals {\n  a = host.n[f(x[1])].nic.rail[each.key].¦\n}":                           "host name netdev addresses ip ip6 mtu",
		"locals {\n  a = f(x).¦\n}":                                                         "",
		"locals {\n  a = \"${var.¦\"\n  b = 1\n}":                                           "mtu",
		"locals {\n  a = \"${var.¦}\"\n}":                                                   "mtu",
		"locals {\n  a = \"var.¦\"\n}":                                                      "",
		"locals {\n  a = <<E\n var.¦\nE\n}":                                                 "",
		"locals {\n  a = <<E\n ${var.¦}\nE\n}":                                              "mtu",
		"host \"c\" {\n  nic \"r\" {\n    ipv6_link_local = \"¦\"\n  }\n}":                  "keep eui64 none",
		"host \"c\" {\n  nic \"r\" {\n    ipv6_link_local = \"k¦\n  }\n}":                   "keep eui64 none",
		"host \"c\" {\n  nic \"r\" {\n    gid = { ¦ }\n  }\n}":                              "version family index",
		"host \"c\" {\n  nic \"r\" {\n    gid = {\n      version = 2\n      ¦":              "family index",
		"host \"c\" {\n  nic \"r\" {\n    gid = { family = \"¦\" }\n  }\n}":                 "ipv4 ipv6",
		"validate {\n  verbs {\n    tests = [\"send_lat\", \"¦\"]\n  }\n}":                  "send_lat send_bw write_lat write_bw read_lat read_bw",
		"host \"c\" {\n  nic \"r0\" {\n  }\n  route \"d\" {\n    nic = nic.¦\n":             "r0",
		"host \"c\" {\n  for_each = {}\n  address = each.¦\n}":                              "key value",
		"host \"c\" {\n  address = self.¦\n}":                                               "name key value address labels",
		"link \"l\" {\n  endpoints = [host[\"¦":                                             "a n",
		"link \"l\" {\n  endpoints = [host[\"a¦\"].nic.rail0]\n}":                           "a n",
		"link \"l\" {\n  endpoints = [host.n[\"¦":                                           "x",
		"link \"l\" {\n  endpoints = [host.n[\"x\"].nic.rail[\"¦\"]]\n}":                    "rail0",
		"locals {\n  a = local.rails[\"¦\n}":                                                "rail0",
		"locals {\n  a = [\"¦\n}":                                                           "",
		"locals {\n  a = f(\"¦\n}":                                                          "",
		"locals {\n  a = local.rails.¦\n}":                                                  "rail0",
		"locals {\n  a = [for h in values(host.n) : h.¦\n}":                                 "name address labels nic bond vlan",
		"locals {\n  a = [for h in values(host.n) : h.nic.¦]\n}":                            "rail",
		"locals {\n  a = [for h in values(host) : h.nic.¦]\n}":                              "rail0 rail",
		"locals {\n  a = { for k, h in host.n : k => h.nic.¦ }\n}":                          "rail",
		"locals {\n  a = values(host.n)[*].nic.¦\n}":                                        "rail",
		"locals {\n  x = { k = { ip = 1, rail = 2 } }\n  a = [for k, v in local.x : v.¦\n}": "ip rail",
		"variable \"v\" {\n  type = map(object({ mgmt = string, n = optional(object({ a = number })) }))\n}\nhost \"c\" {\n  for_each = var.v\n  address = self.value.¦\n}":                                           "mgmt n",
		"variable \"v\" {\n  type = map(object({ mgmt = string, n = optional(object({ a = number })) }))\n}\nhost \"c\" {\n  for_each = var.v\n  address = each.value.n.¦\n}":                                         "a",
		"variable \"v\" {\n  default = { k = { mgmt = 1 } }\n}\nhost \"c\" {\n  for_each = var.v\n  address = each.value.¦":                                                                                           "mgmt",
		"locals {\n  m = { for i in range(2) : format(\"h%d\", i) => { mgmt = 1, number = i } }\n}\nhost \"c\" {\n  for_each = local.m\n  nic \"r\" {\n    for_each = toset([\"x\"])\n    host_number = self.value.¦": "mgmt number",
		"locals {\n  m = { for i in range(2) : format(\"h%d\", i) => { mgmt = 1, number = i } }\n}\nhost \"c\" {\n  for_each = local.m\n  nic \"r\" {\n    for_each = toset([\"x\"])\n    host_number = each.value.¦": "",
		"locals {\n  m = merge({ a = { x = 1 } }, { b = { y = 1 } })\n}\nhost \"c\" {\n  for_each = local.m\n  address = each.value.¦":                                                                                "x y",
		"locals {\n  a = local.b\n  b = local.a\n  c = local.a.¦":     "",
		"host \"c\" {\n  nccl {\n    env = { NCCL_DEBUG = \"V¦\" }\n": "VERSION WARN INFO ABORT TRACE NONE",
	} {
		files, f, cursor := at(t, src)
		if got := strings.Join(labels(complete(files, f, cursor, false)), " "); got != want {
			t.Errorf("%q:\n got %s\nwant %s", src, got, want)
		}
	}
}

// TestCompletionOfNCCLVariables: the table's, once each, without those that NCCL no longer reads.
func TestCompletionOfNCCLVariables(t *testing.T) {
	files, f, cursor := at(t, "nccl {\n  env = {\n    NCCL_DEBUG = \"INFO\"\n    NCCL_IB_¦\n  }\n}\n")
	items := complete(files, f, cursor, false)
	got := labels(items)
	for name, want := range map[string]bool{"NCCL_IB_HCA": true, "NCCL_DEBUG_SUBSYS": true, "NCCL_DEBUG": false, "NCCL_AGG_CHANNEL_SIZE": false, "GLOO_SOCKET_IFNAME": false} {
		if slices.Contains(got, name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
	at := items[slices.Index(got, "NCCL_IB_HCA")]
	if at.TextEdit != (textEdit{textRange{position{3, 4}, position{3, 12}}, "NCCL_IB_HCA = "}) || at.Documentation == nil {
		t.Errorf("%+v", at)
	}
}

// TestCompletionHas checks lists that go on with functions.
func TestCompletionHas(t *testing.T) {
	for src, want := range map[string]string{
		"host \"c\" {\n  nic \"r\" {\n    up = ¦\n  }\n}":                      "true false var local host self cidrhost -each -nic",
		"host \"c\" {\n  for_each = {}\n  rxe \"r\" {\n    nic = ¦\n  }\n}":    "nic self each -true",
		"nccl {\n  transport = ¦":                                              `"ib" "socket" "auto" var -self`,
		"host \"c\" {\n  nic \"r\" {\n    gid = { family = ¦ }\n  }\n}":        `"ipv4" "ipv6" var`,
		"link \"l\" {\n  for_each = local.rails\n  subnet = each.value == ¦\n": "each var",
		"host \"c\" {\n  ¦\n}":                                                 "address labels for_each enabled nic ssh ofed -subnet",
	} {
		files, f, cursor := at(t, src)
		got := labels(complete(files, f, cursor, false))
		for w := range strings.FieldsSeq(want) {
			name, not := strings.CutPrefix(w, "-")
			if slices.Contains(got, name) == not {
				t.Errorf("%q: %s in %v", src, w, got)
			}
		}
	}
}

// TestCompletionEdits: an item replaces what was written of it, behind Chinese too.
func TestCompletionEdits(t *testing.T) {
	for src, want := range map[string]struct {
		label, insert string
		from, to      position
	}{
		"# 网络\n/* 主机 */ ho¦":                                    {"host", "host", position{1, 9}, position{1, 11}},
		"nccl {\n  tr¦\n}":                                      {"transport", "transport = ", position{1, 2}, position{1, 4}},
		"nccl {\n  tr¦ = \"ib\"\n}":                             {"transport", "transport", position{1, 2}, position{1, 4}},
		"nccl {\n  transport = i¦\n}":                           {`"ib"`, `"ib"`, position{1, 14}, position{1, 15}},
		"nccl {\n  transport = \"i¦\"\n}":                       {"ib", "ib", position{1, 15}, position{1, 16}},
		"locals {\n  a = \"机房 😀 ${var.m¦}\"\n}":                 {"mtu", "mtu", position{1, 19}, position{1, 20}},
		"host \"c\" {\n  nic \"r\" {\n    gid = { v¦ }\n  }\n}": {"version", "version = ", position{2, 12}, position{2, 13}},
	} {
		files, f, cursor := at(t, src)
		items := complete(files, f, cursor, false)
		i := slices.IndexFunc(items, func(i completionItem) bool { return i.Label == want.label })
		if i < 0 || items[i].TextEdit != (textEdit{textRange{want.from, want.to}, want.insert}) {
			t.Errorf("%q: %+v", src, items)
		}
	}
	files, f, cursor := at(t, "¦")
	for _, i := range complete(files, f, cursor, true) {
		if i.Label == "host" && (i.TextEdit.NewText != "host \"${1:NAME}\" {\n  $0\n}" || i.InsertTextFormat != formatSnippet || !strings.Contains(i.Documentation.Value, "One machine")) {
			t.Errorf("%+v", i)
		}
		if i.Label == "ssh" && i.TextEdit.NewText != "ssh {\n  $0\n}" {
			t.Errorf("%+v", i)
		}
	}
}
