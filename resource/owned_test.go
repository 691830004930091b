package resource

import "testing"

// A plan is done once only, but one that went back may be tried again.
func TestApplied(t *testing.T) {
	var r Record
	r.Enter(Entry{Plan: "back", Failed: "went back: the gate found a broken ping"})
	r.Enter(Entry{Plan: "half", Changes: 2, Failed: "no space left on device"})
	r.Enter(Entry{Plan: "done", Changes: 3})
	r.Enter(Entry{Plan: "nothing to do"})
	for plan, want := range map[string]bool{"back": false, "half": true, "done": true, "nothing to do": true, "never seen": false} {
		if e, got := r.Applied(plan); got != want || got && e.Plan != plan {
			t.Errorf("plan %q: applied %v, want %v (%+v)", plan, got, want, e)
		}
	}
}

func TestHistoryIsBounded(t *testing.T) {
	var r Record
	for n := range keptEntries + 7 {
		r.Enter(Entry{Changes: n})
	}
	if len(r.History) != keptEntries || r.History[0].Changes != 7 {
		t.Errorf("%d entries, the oldest %d", len(r.History), r.History[0].Changes)
	}
}
