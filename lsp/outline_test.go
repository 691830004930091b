package lsp

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// shape writes an outline down: blocks with their names, attributes with their values.
func shape(f *file, b *body) string {
	var out []string
	for _, a := range b.attrs {
		out = append(out, fmt.Sprintf("%s=%s", a.name, strings.TrimSpace(f.source(a.value))))
	}
	for _, k := range b.blocks {
		out = append(out, fmt.Sprintf("%s %s{%s}", k.typ, k.label, shape(f, k.body)))
	}
	return strings.Join(out, "; ")
}

// TestOutline: what stands before and after a mistake keeps its place.
func TestOutline(t *testing.T) {
	for src, want := range map[string]string{
		"host \"a\" {\n  mtu = 1 # x\n  nic b {\n  }\n}\nnccl {}":   `host a{mtu=1 # x; nic b{}}; nccl {}`,
		"host \"a\" {\n  nic \"r\" {\n    mtu =\n  }\n}":            `host a{nic r{mtu=}}`,
		"link \"l\" {\n  endpoints = [host.a.\n  mtu = 1\n}\nssh {": `link l{endpoints=[host.a.; mtu=1}; ssh {}`,
		"a = f(1,\nhost \"b\" {\n  c = 1\n}":                        `a=f(1,; host b{c=1}`,
		"a = {\n  b = 1\n  c = [\n    2]\n}\nd = 1":                 "a={\n  b = 1\n  c = [\n    2]\n}; d=1",
		"a = \"open\nb = 1\nc = \"also ${d.\ne = \"x\"":             `a="open; b=1; c="also ${d.; e="x"`,
		"x {\n  a = \"${b.\"\n  c = 1\n}\ny {\n  d = 1\n}":          `x {a="${b."; c=1}; y {d=1}`,
		"x {\n  a = \"${b.\n}\ny {\n  d = \"${e}\"\n}":              `x {a="${b.}; y {d="${e}"}`,
		"a = \"${ f(\n  1\n) }\"\nb = 1":                            "a=\"${ f(\n  1\n) }\"; b=1",
		"a = <<EOT\n b = ${c}\nEOT\nd = 1":                          "a=<<EOT\n b = ${c}\nEOT; d=1",
		"x {\n  a = [1}\n}\nb = 2":                                  `b=2; x {a=[1}`,
		"}}}\nho\nhost \"a\"\nb = 1":                                `b=1`,
		"a = 1\r\nb = 2\r\n":                                        `a=1; b=2`,
		"host \"a":                                                  ``,
	} {
		f := newFile("", "", []byte(src))
		if got := shape(f, f.root); got != want {
			t.Errorf("%q:\n got %q\nwant %q", src, got, want)
		}
	}
}

// TestOutlineIsLinear: hostile text costs no more than long text: eight times the text takes some eight times the
// processor's time, not 64 times. Other programs make a measurement longer, never shorter: the best of many is taken.
func TestOutlineIsLinear(t *testing.T) {
	n := 12_500
	if os.Getenv("FABRICFORM_LONG") != "" {
		n = 50_000
	}
	for name, text := range map[string]func(n int) string{
		"blocks":   func(n int) string { return strings.Repeat("a {\n", n) },
		"brackets": func(n int) string { return "a = " + strings.Repeat("(", n) + strings.Repeat("]", n) },
		"quotes":   func(n int) string { return strings.Repeat("a = \"\n", n) },
		"interps":  func(n int) string { return "a = " + strings.Repeat("\"${", n) },
	} {
		measure := func(n int) time.Duration {
			src := text(n)
			runtime.GC() // what this one finds to collect is its own
			began := processorTime(t)
			f := newFile("", "", []byte(src))
			complete([]*file{f}, f, len(src), true)
			help([]*file{f}, f, len(src)/2)
			return processorTime(t) - began
		}
		small, large := time.Hour, time.Hour
		for try := 0; try < 25 && (try == 0 || large > 24*small); try++ {
			small, large = min(small, measure(n)), min(large, measure(8*n))
		}
		t.Logf("%s: %s and %s", name, small, large)
		if large > 24*small {
			t.Errorf("%s: %s for %d, %s for %d", name, small, n, large, 8*n)
		}
	}
}

// processorTime is what this process used so far: how long a busy machine lets it wait is no part of it.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
