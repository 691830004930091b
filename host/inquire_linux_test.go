package host

import (
	"os"
	"path/filepath"
	"testing"
)

// TestTheKernelInquiresByTheTable: a program that is not in the table is refused before it runs.
func TestTheKernelInquiresByTheTable(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "mark")
	if answer, err := (kernel{}).Inquire(t.Context(), "sh", "-c", "echo > "+mark); err == nil {
		t.Errorf("sh was run: %+v", answer)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("sh left a mark")
	}
}
