package lsp

import (
	"strings"
	"testing"
)

func TestHover(t *testing.T) {
	for src, want := range map[string]string{
		"ho¦st \"c\" {\n}":                                            "host \"NAME\"|One machine|for_each",
		"host \"¦c\" {\n}":                                            "One machine",
		"¦nccl {\n":                                                   "At most one.",
		"nccl {\n  ¦transport = \"ib\"\n}":                            "**transport**|`\"ib\"`, `\"socket\"`|TCP sockets|Derived",
		"nccl {\n  file¦ = \"/x\"":                                    "Default: `/etc/nccl.conf`.",
		"link \"l\" {\n  endpoints¦ = []":                             "Required.|a list of NICs",
		"host \"c\" {\n  nic \"r\" {\n    gid¦":                       "",
		"host \"c\" {\n  nic \"r\" {\n    gi¦d = {}":                  "an object|- `family`: ",
		"host \"c\" {\n  nic \"r\" {\n    gid = { fam¦ily = \"ipv4\"": "**family**|Address family.|`ipv4`",
		"host \"c\" {\n  nic \"r\" {\n    gid = { famil¦ = \"ipv4\"":  "",
		"locals {\n  a = v¦ar.mtu":                                    "The variables.",
		"locals {\n  a = var.mt¦u":                                    "variable \"mtu\": number|Bytes, 字节.",
		"locals {\n  a = local.rai¦ls":                                "rails = { rail0 = \"10.0.0.0/30\" }",
		"locals {\n  a = host.¦a":                                     "host \"a\", address \"10.0.0.11\"",
		"locals {\n  a = host.a.nic.rail¦0.ip":                        "nic \"rail0\", netdev \"e0\"",
		"locals {\n  a = host.a.nic.rail0.i¦p":                        "nic.ip|first IPv4",
		"locals {\n  a = cidr¦host(1)":                                "cidrhost(prefix, n)|The address with the number n|`\"10.0.0.5\"`",
		"locals {\n  a = cidr¦hosts(1)":                               "",
		"locals {\n  a = nope.mt¦u":                                   "",
		"locals {\n  a = \"var.m¦tu\"":                                "",
		"locals {\n  a = 1¦23":                                        "",
		"locals {\n  a¦ = 1":                                          "",
		"nope {\n  a¦ = 1":                                            "",
		"# ho¦st":                                                     "",
		"host \"c\" {\n  for_each = { k = 1 }\n  address = ea¦ch.key": "each of { k = 1 }",
		"host \"c\" {\n  address = se¦lf.key":                         "host \"c\"|This instance",
	} {
		files, f, cursor := at(t, src)
		got, _ := help(files, f, cursor)
		for w := range strings.SplitSeq(want, "|") {
			if !strings.Contains(got, w) || want == "" && got != "" {
				t.Errorf("%q: %q lacks %q", src, got, w)
			}
		}
	}
}

func TestHoverRange(t *testing.T) {
	files, f, cursor := at(t, "# 中文\nlocals {\n  \"😀\" = 1\n  a = \"两 ${var.mt¦u}\"\n}")
	_, of := help(files, f, cursor)
	if got := f.text.textRange(of); got != (textRange{position{3, 15}, position{3, 18}}) {
		t.Fatal(got)
	}
}

func TestDefinition(t *testing.T) {
	for src, want := range map[string]struct {
		uri  string
		text string
	}{
		"locals {\n  a = var.m¦tu":                      {"file:///f/a.hcl", "mtu"},
		"locals {\n  a = local.rai¦ls.x":                {"file:///f/a.hcl", "rails"},
		"locals {\n  b = 1\n  a = local.¦b":             {"file:///f/b.hcl", "b"},
		"locals {\n  a = host.a¦.nic.rail0":             {"file:///f/a.hcl", "a"},
		"locals {\n  a = host.n[\"x\"].nic.rail¦[0].ip": {"file:///f/a.hcl", "rail"},
		"host \"c\" {\n  nic \"两\" {\n  }\n  nic \"r\" {\n  }\n  route \"x\" {\n    nic = nic.¦r": {"file:///f/b.hcl", "r"},
		"host \"c\" {\n  for_each = {}\n  address = each.k¦ey":                                    {"file:///f/b.hcl", "for_each"},
		"locals {\n  a = host¦.a":   {},
		"locals {\n  a = var.nope¦": {},
		"loc¦als {\n}":              {},
		"locals {\n  a = \"¦\"":     {},
		"# ¦":                       {},
	} {
		files, f, cursor := at(t, src)
		got, ok := definition(files, f, cursor)
		if !ok {
			if want.uri != "" {
				t.Errorf("%q: nothing", src)
			}
			continue
		}
		for _, f := range files {
			if f.uri == got.URI && f.uri == want.uri {
				if text := f.source(span{f.text.offset(got.Range.Start), f.text.offset(got.Range.End)}); text == want.text {
					want.uri = ""
				}
			}
		}
		if want.uri != "" || want.text == "" {
			t.Errorf("%q: %+v", src, got)
		}
	}
}
