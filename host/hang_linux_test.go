package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestAReadThatHangsEndsWithItsContext: a pipe that nobody writes stands for a dead file server.
func TestAReadThatHangsEndsWithItsContext(t *testing.T) {
	dir := t.TempDir()
	pipe, file := filepath.Join(dir, "pipe"), filepath.Join(dir, "file")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.WriteFile(file, []byte("text"), 0o600)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := (kernel{}).ReadFile(ctx, pipe); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	// A host that goes back after its time still reads what does not hang.
	if raw, err := (kernel{}).ReadFile(ctx, file); err != nil || string(raw) != "text" {
		t.Errorf("%q, %v", raw, err)
	}
	w, err := os.OpenFile(pipe, os.O_WRONLY, 0) // the reader that was left behind ends
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
}
