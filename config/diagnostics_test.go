package config

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"
)

var update = flag.Bool("update", false, "rewrite expected files; read the diff")

// TestDiagnostics holds what a person reads: place, snippet, what is wrong, what to do. A new case
// is a new file.
func TestDiagnostics(t *testing.T) {
	files, err := filepath.Glob("testdata/diagnostics/*.hcl")
	if err != nil || len(files) < 8 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".hcl"), func(t *testing.T) {
			_, sources, diags := Load(file, Options{Version: "0.1.0"})
			var got bytes.Buffer
			if err := hcl.NewDiagnosticTextWriter(&got, sources, 100, false).WriteDiagnostics(diags); err != nil {
				t.Fatal(err)
			}
			golden := strings.TrimSuffix(file, ".hcl") + ".txt"
			if *update {
				if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), got.String()); d != "" {
				t.Fatal(d)
			}
			for _, d := range diags {
				if d.Subject == nil || d.Detail == "" {
					t.Errorf("%q has no place or does not say what to do", d.Summary)
				}
			}
		})
	}
}
