package host

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fabricform/fabricform/host/file"
)

// TestAReadThatHangsEndsWithItsContext: the read stands for one from a dead file server.
func TestAReadThatHangsEndsWithItsContext(t *testing.T) {
	never := make(chan struct{})
	defer close(never)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	hang := func(string) ([]byte, error) { <-never; return nil, nil }
	if _, err := within(ctx, "/home/anna/x", hang); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	// A host that goes back after its time still reads what does not hang.
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if raw, err := (kernel{}).ReadFile(ctx, path); err != nil || string(raw) != "text" {
		t.Errorf("%q, %v", raw, err)
	}
}

// TestANamedPipeInTheWayIsAnErrorAtOnce: nobody writes to it, so a plain read waits for ever.
func TestANamedPipeInTheWayIsAnErrorAtOnce(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pair.json")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 2)
	go func() {
		_, err := (kernel{}).ReadFile(t.Context(), pipe)
		ended <- err
		_, err = records(dir)
		ended <- err
	}()
	for _, check := range []func(error) bool{
		func(err error) bool { return errors.Is(err, file.ErrPipe) },
		func(err error) bool {
			return err != nil && strings.Contains(err.Error(), pipe+" is not a regular file")
		},
	} {
		select {
		case err := <-ended:
			if !check(err) {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Fatal("it waits for a writer")
		}
	}
}

// TestFilesOfTheKernelAreReadWhole compares with the ordinary way, for files of no size, of many pages, and binary ones.
func TestFilesOfTheKernelAreReadWhole(t *testing.T) {
	paths := []string{"/proc/self/mounts", "/proc/sys/kernel/ostype", "/proc/kallsyms", "/proc/devices", "/sys/class/net/lo/address"}
	more, err := filepath.Glob("/sys/bus/pci/devices/*/config")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(paths, more...) {
		want, err := os.ReadFile(path)
		if err != nil {
			t.Logf("left out: %v", err)
			continue
		}
		if got, err := (kernel{}).ReadFile(t.Context(), path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, want %d: %v", path, len(got), len(want), err)
		}
	}
	if _, err := (kernel{}).ReadFile(t.Context(), "/sys/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("/sys/none: %v", err)
	}
	if _, err := (kernel{}).ReadFile(t.Context(), "/sys/class"); err == nil {
		t.Error("a folder was read")
	}
}
