package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"testing"

	"github.com/fabricform/fabricform/host/file"
)

// brokenDisk refuses writes from the n-th on, counted from 1; for so many of them. What it does not
// refuse is written for real.
type brokenDisk struct {
	n, times, count int
	err             error
}

func (d *brokenDisk) replace(path string, text []byte, perm fs.FileMode) error {
	d.count++
	if d.n > 0 && d.count >= d.n && d.count < d.n+d.times {
		return fmt.Errorf("write %s: %w", path, d.err)
	}
	return file.Replace(path, text, perm)
}

// wholeWay takes a transaction to its commit, and back where a step fails, as a client does. changed
// says whether the host may have been changed.
func wholeWay(t *testing.T, s *Store, restore RestoreFunc) (id string, changed bool, committed bool, err error) {
	t.Helper()
	tx, err := s.Begin(Request{Fabric: "lab", Holder: anna})
	if err != nil {
		return "", false, false, err
	}
	if s.Live(tx.ID, tx.Token) == nil {
		t.Error("a change without a backup would be allowed")
	}
	for _, step := range []func(string, string) (*Transaction, error){
		func(id, token string) (*Transaction, error) {
			return s.SaveBackup(id, token, &Backup{Version: backupVersion})
		},
		func(id, token string) (*Transaction, error) {
			live := s.Live(id, token)
			changed = live == nil
			return tx, live
		},
		s.Beat, prepareTo(s), s.Persist, commitTo(s),
	} {
		if _, err = step(tx.ID, tx.Token); err != nil {
			_, back := s.Revert(t.Context(), tx.ID, Revert, "a step failed", restore)
			return tx.ID, changed, false, errors.Join(err, back)
		}
	}
	return tx.ID, changed, true, nil
}

// TestEveryWriteMayFail breaks each write of a transaction, once and for good: nothing is changed
// without a way back, what was changed is brought back, and once the disk takes writes again the file
// says so. A commit that was answered is one.
func TestEveryWriteMayFail(t *testing.T) {
	whole := &brokenDisk{}
	s, _ := newFake(t)
	s.replace = whole.replace
	if _, _, committed, err := wholeWay(t, s, nothing); err != nil || !committed {
		t.Fatal(committed, err)
	}
	if whole.count != 8 { // the reserve, its begin; the backup, its hash; beat, prepare, persist, commit
		t.Fatalf("%d writes", whole.count)
	}
	for n := 1; n <= whole.count; n++ {
		for _, times := range []int{1, 1 << 20} {
			for _, cause := range []error{syscall.ENOSPC, syscall.EIO, syscall.EROFS} {
				t.Run(fmt.Sprintf("write %d, %d times, %v", n, times, cause), func(t *testing.T) { everyWrite(t, &brokenDisk{n: n, times: times, err: cause}) })
			}
		}
	}
}

func everyWrite(t *testing.T, disk *brokenDisk) {
	s, _ := newFake(t)
	s.replace = disk.replace
	restored := 0
	restore := func(context.Context, *Backup) ([]string, error) { restored++; return nil, nil }
	id, changed, committed, err := wholeWay(t, s, restore)
	if disk.count < disk.n {
		t.Fatal("the fault did not happen")
	}
	if committed {
		// Only where what was set aside for it took the write.
		if !errors.Is(disk.err, syscall.ENOSPC) || disk.times > 1 || disk.n != 8 {
			t.Fatal("committed, though a write was refused")
		}
		if got := must[*Transaction](t)(s.Read(id)); got.State != Committed {
			t.Errorf("%s, after a commit that was answered", got.State)
		}
		return
	}
	if !errors.Is(err, disk.err) {
		t.Errorf("not told: %v", err)
	}
	if changed && restored == 0 {
		t.Error("what was changed was not brought back")
	}
	s.replace = file.Replace // the disk takes writes again
	if id == "" {
		if _, err := os.Stat(s.reservePath()); err == nil && disk.times == 1 {
			t.Error("what was set aside stays behind")
		}
		if open, _, err := s.Pending(); open != nil || err != nil {
			t.Error(open, err)
		}
		return
	}
	if got := must[*Transaction](t)(s.Revert(t.Context(), id, Expire, "", restore)); got.State == Reverting || got.State == RevertFailed {
		t.Error(got.State)
	}
	if got := must[*Transaction](t)(s.Read(id)); got.State != Reverted {
		// Not yet run out: whoever asks again is answered.
		got = must[*Transaction](t)(s.Revert(t.Context(), id, Revert, "", restore))
		if got.State != Reverted {
			t.Error(got.State)
		}
	}
}

// TestTwoRace: in each race two come at the same moment, with locks of their own.
func TestTwoRace(t *testing.T) {
	t.Parallel()
	dir := quick(t)
	stores := [2]*Store{NewStore(dir, Now), NewStore(dir, Now)}
	firsts := [2]int{}
	for round := range atFullSize(1000) {
		start := make(chan struct{})
		got := make(chan int, 2)
		for j := range stores {
			i := (j + round) % 2 // the scheduler prefers the last that was started
			s := stores[i]
			go func() {
				<-start
				tx, err := s.Begin(Request{Fabric: "f", Holder: anna})
				if _, held := errAs[*HeldError](err); held {
					got <- -1
					return
				}
				if err != nil {
					t.Error(err)
					got <- -2
					return
				}
				_ = tx
				got <- i
			}()
		}
		close(start)
		a, b := <-got, <-got
		if min(a, b) != -1 || max(a, b) < 0 {
			t.Fatalf("the two of a race came to %d and %d: one must win", a, b)
		}
		firsts[max(a, b)]++
		open, _, err := stores[0].Pending()
		if err != nil || open == nil {
			t.Fatal(open, err)
		}
		must[*Transaction](t)(stores[0].Revert(t.Context(), open.ID, Revert, "test", nothing))
	}
	t.Logf("the first won %d, the second %d", firsts[0], firsts[1])
	if firsts[0] == 0 || firsts[1] == 0 {
		t.Error("one of them always won: they did not race")
	}
}
