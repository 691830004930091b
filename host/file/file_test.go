package file

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReplacedFileIsWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for _, text := range []string{"one", "2"} {
		if err := Replace(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Fatalf("%q, %v", got, err)
		}
	}
	if err := Replace(filepath.Join(path, "below-a-file"), nil, 0o600); err == nil {
		t.Error("written below a file")
	}
	missing := filepath.Join(path+".d", "report.md")
	if err := Replace(missing, nil, 0o600); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("the error names another file than %s: %v", missing, err)
	}
}
