package resource

import "testing"

// A plan is done once only, but one that was rolled back may be tried again.
func TestApplied(t *testing.T) {
	r := Record{History: []HistoryEntry{
		{Plan: "back", Failed: "went back: the gate found a broken ping"}, // as earlier builds wrote it
		{Plan: "half", Changes: 2, Failed: "no space left on device"},
		{Plan: "done", Changes: 3},
		{Plan: "nothing to do"},
		{Plan: "rolled back", Changes: 3}, {Plan: "rolled back", Command: RollbackCommand, Changes: 3},
		{Plan: "not confirmed", Changes: 3}, {Plan: "not confirmed", Command: RevertCommand, Changes: 3},
		{Plan: "half back", Changes: 3}, {Plan: "half back", Command: RollbackCommand, Failed: "mtu of eth0 is 9000"},
		{Plan: "again", Changes: 3}, {Plan: "again", Command: RollbackCommand}, {Plan: "again", Changes: 3},
		{Plan: "failed", Command: RevertCommand, Changes: 3},
	}}
	for plan, want := range map[string]bool{"back": false, "half": true, "done": true, "nothing to do": true, "never seen": false,
		"rolled back": false, "not confirmed": false, "half back": true, "again": true, "failed": false} {
		if e, got := r.Applied(plan); got != want || got && (e.Plan != plan || e.Reverts()) {
			t.Errorf("plan %q: applied %v, want %v (%+v)", plan, got, want, e)
		}
	}
}
