//go:build linux

package checkpoint

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var states = []State{Armed, Prepared, Persisting, Committed, Reverting, Reverted, RevertFailed, Released}

var events = []Event{Beat, Prepare, Persist, Commit, Revert, Expire, RollBack, RevertDone, RevertStuck, Reboot, Release}

// wantedTable is every state against every event; "-" is refused, "late" is refused as too late.
const wantedTable = `
               beat        prepare   persist     commit     revert     expire         undo       revert-done  revert-stuck   reboot         release
armed          armed       prepared  -           -          reverting  reverting      -          -            -              reverted       -
prepared       prepared    -         persisting  -          reverting  reverting      -          -            -              reverted       -
persisting     persisting  -         -           committed  reverting  reverting      -          -            -              persisting     -
committed      -           -         -           -          -          committed      reverting  -            -              committed      -
reverting      late        late      late        late       reverting  reverting      reverting  reverted     revert_failed  reverting      -
reverted       late        late      late        late       reverted   reverted       reverted   -            -              reverted       -
revert_failed  late        late      late        late       reverting  revert_failed  reverting  -            -              revert_failed  released
released       late        late      late        late       -          released       -          -            -              released       -
`

func TestEveryEventInEveryState(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(wantedTable), "\n")
	var got []string
	for _, s := range states {
		row := []string{string(s)}
		for _, e := range events {
			next, err := Next(s, e)
			switch {
			case errors.Is(err, ErrTooLate):
				row = append(row, "late")
			case err != nil:
				row = append(row, "-")
			default:
				row = append(row, string(next))
			}
			if err != nil && next != s {
				t.Errorf("%s in %s was refused and led to %s", e, s, next)
			}
		}
		got = append(got, strings.Join(row, " "))
	}
	var want []string
	for _, l := range lines[1:] {
		want = append(want, strings.Join(strings.Fields(l), " "))
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if len(transitions) != len(states) || strings.Join(strings.Fields(lines[0]), " ") != strings.Trim(fmt.Sprint(events), "[]") {
		t.Error("the table lacks a state or an event")
	}
}

// From every open state there is a way to an end that nobody's help is needed for, but for the one
// that is there for a person.
func TestNoStateIsATrap(t *testing.T) {
	for _, s := range states {
		if !s.Open() || s == RevertFailed {
			continue
		}
		reached := map[State]bool{s: true}
		for range states {
			for r := range reached {
				for _, e := range []Event{Expire, RevertDone} {
					if next, err := Next(r, e); err == nil {
						reached[next] = true
					}
				}
			}
		}
		if !reached[Reverted] {
			t.Errorf("%s never ends by itself", s)
		}
	}
}

func at(s State, uptime, deadline time.Duration) *Transaction {
	return &Transaction{Version: 1, ID: "000001-00000000", State: s, Boot: "b", Lease: time.Minute, Deadline: deadline, Token: "t"}
}

func TestLeaseIsAsLongAfterTheLastBeatAndNoLonger(t *testing.T) {
	tx := at(Armed, 0, 100*time.Second)
	for _, c := range []struct{ now, left time.Duration }{{40 * time.Second, 60 * time.Second}, {99 * time.Second, time.Second}, {100 * time.Second, 0}, {time.Hour, 0},
		{39 * time.Second, 0}} { // further ahead than a lease can be: not believed
		if got := tx.Remaining(Moment{Boot: "b", Uptime: c.now}); got != c.left {
			t.Errorf("at %s %s are left, wanted %s", c.now, got, c.left)
		}
	}
	if got := tx.Remaining(Moment{Boot: "another", Uptime: 50 * time.Second}); got != 0 {
		t.Errorf("%s left in another boot", got)
	}
	for _, e := range []Event{Beat, Prepare} {
		next, err := tx.after(e, Moment{Boot: "b", Uptime: 70 * time.Second})
		if err != nil || next.Deadline != 130*time.Second || tx.Deadline != 100*time.Second {
			t.Errorf("after %s at 70 s: %+v, %v", e, next, err)
		}
	}
	// A beat that comes at the deadline is too late, whether or not a guardian has begun.
	if _, err := tx.after(Beat, Moment{Boot: "b", Uptime: 100 * time.Second}); !errors.Is(err, ErrTooLate) {
		t.Error(err)
	}
	if next, err := tx.after(Revert, Moment{Boot: "b", Uptime: time.Hour}); err != nil || next.State != Reverting {
		t.Error(next, err)
	}
}

func TestWallClockDecidesNothing(t *testing.T) {
	tx := at(Armed, 0, 100*time.Second)
	for _, years := range []int{-10, 0, 10} {
		now := Moment{Boot: "b", Uptime: 50 * time.Second, Wall: time.Now().AddDate(years, 0, 0)}
		if v, left := judge(tx, now); v != Wait || left != 50*time.Second {
			t.Errorf("%d years: %v %s", years, v, left)
		}
	}
}

func TestGuardianJudges(t *testing.T) {
	early, late := Moment{Boot: "b", Uptime: 50 * time.Second}, Moment{Boot: "b", Uptime: 101 * time.Second}
	for _, s := range states {
		want := GoBack
		if !s.Open() || s == RevertFailed {
			want = Leave
		}
		if v, _ := judge(at(s, 0, 100*time.Second), late); v != want {
			t.Errorf("%s after the deadline: %v", s, v)
		}
		if want == GoBack {
			want = Wait
		}
		if v, _ := judge(at(s, 0, 100*time.Second), early); v != want {
			t.Errorf("%s before the deadline: %v", s, v)
		}
		if v, _ := judge(at(s, 0, 100*time.Second), Moment{Boot: "c", Uptime: time.Hour}); v != Leave {
			t.Errorf("%s in another boot: %v", s, v)
		}
	}
	rolled := at(Persisting, 0, 0)
	rolled.Rebooted = true
	if v, _ := judge(rolled, late); v != Leave {
		t.Errorf("what was proven before a reset: %v", v)
	}
}

func FuzzTransactionFileIsNotBelieved(f *testing.F) {
	f.Add([]byte(`{"version":1,"id":"000001-00000000","state":"armed","boot":"b","lease_ns":60000000000,"deadline_ns":1,"helper":{"process":{"pid":-1}}}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		tx, err := decodeTransaction("000001-00000000", raw)
		if err != nil {
			return
		}
		now := Moment{Boot: tx.Boot, Uptime: time.Hour}
		if left := tx.Remaining(now); left < 0 || left > tx.Lease {
			t.Errorf("%s left of %s", left, tx.Lease)
		}
		judge(tx, now)
		for _, e := range events {
			if next, err := tx.after(e, now); err == nil && e != Reboot {
				if err := next.check(tx.ID); err != nil {
					t.Errorf("after %s: %v", e, err)
				}
			}
		}
		_ = newHeldError(tx, now).Error()
	})
}

func FuzzBackupFileIsNotBelieved(f *testing.F) {
	f.Add([]byte(`{"version":1,"parts":[{"room":"netif","data":{}}],"files":[{"path":"/etc/x","absent":true}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := decodeBackup(raw)
		if err == nil && len(s.Parts) > 0 {
			if _, err := (&Backup{Parts: s.Parts}).Restore(t.Context(), nil, nil); err == nil {
				t.Error("a part that nobody knows was restored")
			}
		}
	})
}
