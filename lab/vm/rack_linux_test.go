package vm

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestARackEndsWhenItIsTold(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir) // the rack goes there, and the test comes back
	if err := os.WriteFile(filepath.Join(dir, buildFile), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- RackMain(ctx, []string{dir}) }()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(dir, controlSocket)); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the rack does not come up")
		}
	}
	end()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}
