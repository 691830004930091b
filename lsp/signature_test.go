package lsp

import (
	"strings"
	"testing"
)

func TestSignatureHelp(t *testing.T) {
	for src, want := range map[string]struct {
		label    string
		argument int
	}{
		"locals {\n  a = cidrhost(¦\n}":                     {"cidrhost(prefix, n)", 0},
		"locals {\n  a = cidrhost(\"10.0.0.0/8\", ¦)\n}":    {"cidrhost(prefix, n)", 1},
		"locals {\n  a = cidrhost(\"10.0.0.0/8, 机¦\n}":      {"cidrhost(prefix, n)", 0},
		"locals {\n  a = cidrhost(f(1, 2), [3, 4][¦\n}":     {"cidrhost(prefix, n)", 1},
		"locals {\n  a = cidrhost(1, 2, 3, ¦\n}":            {"cidrhost(prefix, n)", 1},
		"locals {\n  a = format(\"%d\", upper(¦\n}":         {"upper(text)", 0},
		"locals {\n  a = format(\"%d\", upper(1), 2, ¦)\n}": {"format(format, values…)", 1},
		"locals {\n  a = \"机房 ${join(\",\", ¦\n}":           {"join(separator, list…)", 1},
		"locals {\n  a = cidrhost¦(1)\n}":                   {},
		"locals {\n  a = cidrhost(1)¦\n}":                   {},
		"locals {\n  a = nope(¦\n}":                         {},
		"locals {\n  a = (1 + ¦\n}":                         {},
		"cidrhost(¦":                                        {},
		"locals {\n  a = cidrhost(1, # ¦\n}":                {},
	} {
		before, after, _ := strings.Cut(src, "¦")
		s, uri := editing(t, map[string]string{"f.hcl": before + after})
		var got *signatures
		p := newText([]byte(before + after)).position(len(before))
		if fault := ask(t, s, "signatureHelp", place(uri("f.hcl"), p.Line, p.Character), &got); fault != nil {
			t.Fatal(fault)
		}
		switch {
		case got == nil && want.label == "":
		case got == nil || got.Signatures[0].Label != want.label || got.ActiveParameter != want.argument || got.Signatures[0].Documentation.Value == "":
			t.Errorf("%q: %+v", src, got)
		}
	}
}
