package lock

import (
	"errors"
	"path/filepath"
	"testing"
)

func TestLockIsExclusive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := Acquire(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Try(path); !errors.Is(err, ErrHeld) {
		t.Error(err)
	}
	unlock()
	again, err := Try(path)
	if err != nil {
		t.Fatal(err)
	}
	again()
}
