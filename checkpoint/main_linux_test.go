package checkpoint

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/providers"
	"github.com/fabricform/fabricform/resource/kindtest"
)

// TestMain makes the test's program stand in for the helper: what Arm and Rehearse start is this.
func TestMain(m *testing.M) {
	if len(os.Args) < 3 || os.Args[1] != "guard" && os.Args[1] != "child" {
		os.Exit(kindtest.OwnNetwork(m))
	}
	if err := child(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func child(what string, args []string) error {
	if what == "child" && args[0] == "race" {
		return race(args[1], args[2])
	}
	if what == "child" {
		return beatForEver(args[1], args[2], args[3])
	}
	h, err := host.Open()
	if err != nil {
		return err
	}
	return GuardMain(context.Background(), args, func(ctx context.Context, s *Backup) ([]string, error) {
		// A line for each restore: two guardians must not both do it.
		if log, err := os.OpenFile(filepath.Join(args[1], "restores"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
			_, _ = fmt.Fprintln(log, "restored")
			_ = log.Close()
		}
		return s.Restore(ctx, h, providers.Kinds())
	})
}

// race begins transactions until it has won so many. The winner alone may make the marker.
func race(dir, wins string) error {
	n, err := strconv.Atoi(wins)
	if err != nil {
		return err
	}
	s := NewStore(dir, Now)
	marker := filepath.Join(dir, "marker")
	for n > 0 {
		t, err := s.Begin(Request{Fabric: "f", Holder: Holder{Client: strconv.Itoa(os.Getpid())}})
		if held, ok := errAs[*HeldError](err); ok {
			if held.Holder.Client == "" || held.Remaining <= 0 || held.Remaining > DefaultLease {
				return fmt.Errorf("held by nobody: %w", held)
			}
			continue
		}
		if err != nil {
			return err
		}
		f, err := os.OpenFile(marker, os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return fmt.Errorf("two winners: %w", err)
		}
		_ = f.Close()
		if err := os.Remove(marker); err != nil {
			return err
		}
		if _, err := s.Revert(context.Background(), t.ID, Revert, "test", nil); err != nil {
			return err
		}
		n--
	}
	return nil
}

func beatForEver(dir, id, token string) error {
	for s := NewStore(dir, Now); ; {
		if _, err := s.Beat(id, token); err != nil {
			return err
		}
	}
}

// fakeClock is a clock that a test moves.
type fakeClock struct{ now Moment }

func (c *fakeClock) read() (Moment, error) { return c.now, nil }

func newFake(t *testing.T) (*Store, *fakeClock) {
	t.Helper()
	c := &fakeClock{Moment{Boot: "boot-1", Uptime: time.Hour, Wall: time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)}}
	return NewStore(filepath.Join(quick(t), "transactions"), c.read), c
}

// quick is a folder in memory, where syncing costs nothing; elsewhere where there is none.
func quick(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "checkpoint-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func must[T any](t *testing.T) func(T, error) T {
	t.Helper()
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
