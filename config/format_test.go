package config

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

func TestFormatKeepsComments(t *testing.T) {
	const src = "# first\nhost \"a\" { # on the line\n// other kind\naddress=\"x\" /* inside */\n\n\n    labels={a=1} # last\n}\n# end\n"
	got, d := Format([]byte(src), "f.hcl")
	if d.HasErrors() {
		t.Fatal(d)
	}
	for _, c := range []string{"# first", "# on the line", "// other kind", "/* inside */", "# last", "# end"} {
		if !bytes.Contains(got, []byte(c)) {
			t.Errorf("%q is lost:\n%s", c, got)
		}
	}
}

// seeds adds the cases of the diagnostics, without those that are slow on purpose.
func seeds(f *testing.F) {
	f.Helper()
	files, err := filepath.Glob("testdata/diagnostics/*.hcl")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		if strings.Contains(name, "bomb") {
			continue
		}
		src, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(src)
	}
}

// FuzzFormat: formatting changes white space only, and a second time nothing.
func FuzzFormat(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, src []byte) {
		once, d := Format(src, "f.hcl")
		if d.HasErrors() {
			return
		}
		if a, b := tokens(src), tokens(once); a != b {
			t.Fatalf("the text changed: %q became %q", a, b)
		}
		twice, d := Format(once, "f.hcl")
		if d.HasErrors() || !bytes.Equal(once, twice) {
			t.Fatalf("a second time it changes again: %q became %q", once, twice)
		}
	})
}

// tokens is the source without what a formatter may change.
func tokens(src []byte) string {
	list, _ := hclsyntax.LexConfig(src, "f.hcl", hcl.InitialPos)
	var out []string
	for _, t := range list {
		if text := strings.TrimSpace(string(t.Bytes)); text != "" {
			out = append(out, text)
		}
	}
	return strings.Join(out, "␣")
}
