package checkpoint

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fabricform/fabricform/host/file"
)

func errAs[E error](err error) (E, bool) {
	var e E
	ok := errors.As(err, &e)
	return e, ok
}

var anna = Holder{User: "anna@laptop", From: "10.0.0.5", Client: "run-1"}

func begun(t *testing.T, s *Store) *Transaction {
	t.Helper()
	return must[*Transaction](t)(s.Begin(Request{Fabric: "lab", Plan: "p1", Holder: anna}))
}

func nothing(context.Context, *Backup) ([]string, error) { return nil, nil }

func TestSecondIsToldWhoHoldsTheHost(t *testing.T) {
	s, clock := newFake(t)
	first := begun(t, s)
	clock.now.Uptime += 20 * time.Second
	_, err := s.Begin(Request{Fabric: "other"})
	want := "another transaction is open: " + first.ID + ` of fabric "lab" by anna@laptop from 10.0.0.5, since 2026-11-21T08:00:00Z, armed; 40s left`
	if err == nil || err.Error() != want {
		t.Errorf("%v, wanted %s", err, want)
	}
	if strings.Contains(err.Error(), first.Token) {
		t.Error("the token is told to others")
	}
}

func TestWholeWayToCommit(t *testing.T) {
	s, clock := newFake(t)
	tx := begun(t, s)
	if s.Live(tx.ID, tx.Token) == nil {
		t.Error("a change without a backup would be allowed")
	}
	must[*Transaction](t)(s.SaveBackup(tx.ID, tx.Token, &Backup{Version: backupVersion}))
	if _, err := s.SaveBackup(tx.ID, tx.Token, &Backup{Version: backupVersion}); err == nil {
		t.Error("a second backup would be of a changed host")
	}
	if err := s.Live(tx.ID, tx.Token); err != nil {
		t.Error(err)
	}
	if _, err := s.Commit(tx.ID, tx.Token, nil); err == nil || errors.Is(err, ErrTooLate) {
		t.Errorf("committed without being prepared: %v", err)
	}
	for _, step := range []func(string, string) (*Transaction, error){s.Beat, prepareTo(s), s.Persist, s.Beat, commitTo(s)} {
		clock.now.Uptime += 50 * time.Second
		clock.now.Wall = clock.now.Wall.AddDate(-7, 0, 0)
		tx = must[*Transaction](t)(step(tx.ID, tx.Token))
	}
	if tx.State != Committed {
		t.Error(tx.State)
	}
	if open, _, err := s.Pending(); open != nil || err != nil {
		t.Error(open, err)
	}
	// Taken back later, from the kept backup; but not once another came after it.
	calls := 0
	undone := must[*Transaction](t)(s.Revert(t.Context(), tx.ID, RollBack, "a check failed", func(context.Context, *Backup) ([]string, error) { calls++; return nil, nil }))
	if undone.State != Reverted || calls != 1 {
		t.Error(undone.State, calls)
	}
}

func TestUndoIsForTheLastOneOnly(t *testing.T) {
	s, _ := newFake(t)
	var ids []string
	for range 2 {
		tx := begun(t, s)
		for _, step := range []func(string, string) (*Transaction, error){prepareTo(s), s.Persist, commitTo(s)} {
			must[*Transaction](t)(step(tx.ID, tx.Token))
		}
		ids = append(ids, tx.ID)
	}
	if _, err := s.Revert(t.Context(), ids[0], RollBack, "", nothing); err == nil {
		t.Error("an older one was taken back under a newer one")
	}
	must[*Transaction](t)(s.Revert(t.Context(), ids[1], RollBack, "", nothing))
}

func TestTooLate(t *testing.T) {
	s, clock := newFake(t)
	tx := begun(t, s)
	clock.now.Uptime += DefaultLease
	for _, step := range []func(string, string) (*Transaction, error){s.Beat, prepareTo(s), s.Persist, commitTo(s)} {
		if _, err := step(tx.ID, tx.Token); !errors.Is(err, ErrTooLate) {
			t.Errorf("after the lease: %v", err)
		}
	}
	// While somebody reverts, a commit is too late even if the disk could not be told.
	tx2 := must[*Transaction](t)(s.Revert(t.Context(), tx.ID, Expire, "expired", func(context.Context, *Backup) ([]string, error) { return nil, nil }))
	if tx2.State != Reverted {
		t.Fatal(tx2.State)
	}
	third := begun(t, s)
	must[*Transaction](t)(s.SaveBackup(third.ID, third.Token, &Backup{Version: backupVersion}))
	must[*Transaction](t)(s.Prepare(third.ID, third.Token, nil))
	must[*Transaction](t)(s.Persist(third.ID, third.Token))
	_, err := s.Revert(t.Context(), third.ID, Revert, "asked", func(context.Context, *Backup) ([]string, error) {
		if _, err := s.Commit(third.ID, third.Token, nil); !errors.Is(err, ErrTooLate) {
			t.Errorf("committed while reverting: %v", err)
		}
		return nil, nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestAHeartbeatMeanwhileIsNoEnd: somebody looks at a transaction, and while it looks, the lease is renewed. That is the sign of a client
// that lives; a guardian that took it for the end of the lease would kill the helper in the middle of an apply.
func TestAHeartbeatMeanwhileIsNoEnd(t *testing.T) {
	s, clock := newFake(t)
	tx := begun(t, s)
	must[*Transaction](t)(s.SaveBackup(tx.ID, tx.Token, &Backup{Version: backupVersion}))
	beats := func() {
		clock.now.Uptime += time.Second
		must[*Transaction](t)(s.Beat(tx.ID, tx.Token))
	}
	// Its clock is read once, and a heartbeat comes just after.
	looker := NewStore(s.dir, func() (Moment, error) {
		now := clock.now
		beats()
		return now, nil
	})
	if err := looker.Live(tx.ID, tx.Token); err != nil {
		t.Errorf("the helper may not act: %v", err)
	}
	var held *HeldError
	if err := looker.Ends(tx.ID, "another's"); !errors.As(err, &held) {
		t.Errorf("another client may end it: %v", err)
	}
	if open, left, err := looker.Pending(); open == nil || left == 0 || err != nil {
		t.Errorf("its lease seems to have expired: %v, %v", left, err)
	}
	if over, now, err := looker.readNow(tx.ID); err != nil || expired(over, now) {
		t.Errorf("a guardian reverts it: %v", err)
	}
	if over, err := (Guardian{Store: looker}).Expired(); over != nil || err != nil {
		t.Errorf("a plan reverts it: %v, %v", over, err)
	}
}

func TestTakeOver(t *testing.T) {
	s, _ := newFake(t)
	tx := begun(t, s)
	if _, err := s.TakeOver(tx.ID, "guess", anna, nil); !errors.Is(err, ErrNotYours) {
		t.Error(err)
	}
	mine := must[*Transaction](t)(s.TakeOver(tx.ID, tx.Token, Holder{User: "ben@desk"}, nil))
	for _, step := range []func(string, string) (*Transaction, error){s.Beat, prepareTo(s), commitTo(s)} {
		for _, token := range []string{tx.Token, ""} {
			if _, err := step(tx.ID, token); !errors.Is(err, ErrNotYours) {
				t.Errorf("the earlier client went on: %v", err)
			}
		}
	}
	if got := must[*Transaction](t)(s.Beat(tx.ID, mine.Token)); got.Holder.User != "ben@desk" {
		t.Error(got.Holder)
	}
}

func TestRevertThatFailsKeepsTheHostForAPerson(t *testing.T) {
	s, _ := newFake(t)
	tx := begun(t, s)
	must[*Transaction](t)(s.SaveBackup(tx.ID, tx.Token, &Backup{Version: backupVersion}))
	stuck, err := s.Revert(t.Context(), tx.ID, Revert, "asked", func(context.Context, *Backup) ([]string, error) {
		return []string{"mtu of ff0 is 1500, was 9000"}, errors.New("set mtu of ff0: no")
	})
	if err == nil || stuck.State != RevertFailed || len(stuck.Unrestored) != 2 {
		t.Fatalf("%+v, %v", stuck, err)
	}
	if _, ok := errAs[*HeldError](second(s)); !ok {
		t.Error("the next transaction would run over it")
	}
	again := must[*Transaction](t)(s.Revert(t.Context(), tx.ID, Expire, "", func(context.Context, *Backup) ([]string, error) { t.Error("a timer tried again"); return nil, nil }))
	if again.State != RevertFailed {
		t.Error(again.State)
	}
	must[*Transaction](t)(s.Release(tx.ID, anna))
	if err := second(s); err != nil {
		t.Error(err)
	}
}

func second(s *Store) error {
	_, err := s.Begin(Request{Fabric: "second"})
	return err
}

func TestRebootSettles(t *testing.T) {
	for _, c := range []struct {
		steps int
		want  State
	}{{0, Reverted}, {1, Reverted}, {2, Committed}} {
		s, clock := newFake(t)
		tx := begun(t, s)
		for _, step := range []func(string, string) (*Transaction, error){prepareTo(s), s.Persist}[:c.steps] {
			must[*Transaction](t)(step(tx.ID, tx.Token))
		}
		clock.now.Boot, clock.now.Uptime = "boot-2", 5*time.Second
		finished := 0
		if open := must[*Transaction](t)(s.FinishInterrupted(func(*Transaction) (*Backup, error) { finished++; return nil, nil })); open != nil {
			t.Errorf("still open: %+v", open)
		}
		if got := must[*Transaction](t)(s.Read(tx.ID)); got.State != c.want || finished != c.steps/2 {
			t.Errorf("after %d steps and a reboot: %s, %d times rolled forward", c.steps, got.State, finished)
		}
	}
}

func TestOldTransactionsArePruned(t *testing.T) {
	s, _ := newFake(t)
	for range 12 {
		tx := begun(t, s)
		must[*Transaction](t)(s.SaveBackup(tx.ID, tx.Token, &Backup{Version: backupVersion}))
		must[*Transaction](t)(s.Revert(t.Context(), tx.ID, Revert, "", nothing))
	}
	all := must[[]*Transaction](t)(s.List())
	backups := must[[]string](t)(filepath.Glob(filepath.Join(s.dir, "*.snapshot")))
	if len(all) != maxFinished+1 || len(backups) != maxFinished+1 || counter(all[maxFinished].ID) != 12 {
		t.Errorf("%d transactions and %d backups", len(all), len(backups))
	}
}

func TestBackupThatIsNotTheKeptOneIsRefused(t *testing.T) {
	s, _ := newFake(t)
	tx := begun(t, s)
	must[*Transaction](t)(s.SaveBackup(tx.ID, tx.Token, &Backup{Version: backupVersion}))
	if err := os.WriteFile(filepath.Join(s.dir, backupName(tx.ID)), []byte(`{"version":1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	stuck, err := s.Revert(t.Context(), tx.ID, Revert, "", func(context.Context, *Backup) ([]string, error) { t.Error("restored"); return nil, nil })
	if err == nil || stuck.State != RevertFailed {
		t.Error(stuck, err)
	}
}

// TestANamedPipeInTheWayNeverBlocks: a plain read of it waits for a writer for ever.
func TestANamedPipeInTheWayNeverBlocks(t *testing.T) {
	s, _ := newFake(t)
	tx := begun(t, s)
	for _, name := range []string{tx.ID + ".json", "lock", "revert.lock", "zzz" + historySuffix} {
		path := filepath.Join(s.dir, name)
		_ = os.Remove(path)
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ended := make(chan error)
	go func() {
		_, err := s.Revert(t.Context(), tx.ID, Revert, "test", nothing)
		ended <- err
		_, err = s.Histories()
		ended <- err
	}()
	for range 2 {
		select {
		case err := <-ended:
			if !errors.Is(err, file.ErrPipe) {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Fatal("it waits for a writer")
		}
	}
}

func TestOneOfAThousandWins(t *testing.T) {
	s, _ := newFake(t)
	for range 3 {
		var wins []*Transaction
		var mu sync.Mutex
		var all sync.WaitGroup
		start := make(chan struct{})
		for range 1000 {
			all.Go(func() {
				<-start
				tx, err := s.Begin(Request{Fabric: "f"})
				if _, held := errAs[*HeldError](err); err != nil && !held {
					t.Error(err)
				}
				if err == nil {
					mu.Lock()
					wins = append(wins, tx)
					mu.Unlock()
				}
			})
		}
		close(start)
		all.Wait()
		if len(wins) != 1 {
			t.Fatalf("%d winners", len(wins))
		}
		must[*Transaction](t)(s.Revert(t.Context(), wins[0].ID, Revert, "", nothing))
	}
}

// A guardian that wakes at the deadline may come after a beat: the lease decides, not the guardian.
func TestExpiryOfARenewedLeaseTakesNothingBack(t *testing.T) {
	s, clock := newFake(t)
	tx := begun(t, s)
	must[*Transaction](t)(s.SaveBackup(tx.ID, tx.Token, &Backup{Version: backupVersion}))
	clock.now.Uptime += DefaultLease - time.Second
	must[*Transaction](t)(s.Beat(tx.ID, tx.Token))
	clock.now.Uptime += 2 * time.Second
	restored := func(context.Context, *Backup) ([]string, error) {
		t.Error("it was taken back")
		return nil, nil
	}
	if got := must[*Transaction](t)(s.Revert(t.Context(), tx.ID, Expire, "nobody renewed", restored)); got.State != Armed {
		t.Errorf("it is %s", got.State)
	}
}

// prepareTo is Prepare of a host whose state is not stored.
func prepareTo(s *Store) func(id, token string) (*Transaction, error) {
	return func(id, token string) (*Transaction, error) { return s.Prepare(id, token, nil) }
}

// commitTo is Commit of a host whose state is not stored.
func commitTo(s *Store) func(id, token string) (*Transaction, error) {
	return func(id, token string) (*Transaction, error) { return s.Commit(id, token, nil) }
}
