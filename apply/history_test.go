package apply

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/resource"
)

// TestHistoryJoinsTheHostsOfEachRun: the first runs of a plan that was applied twice belong together, and those of another fabric
// are left out.
func TestHistoryJoinsTheHostsOfEachRun(t *testing.T) {
	entry := func(minute int, command, failed string) resource.HistoryEntry {
		return resource.HistoryEntry{Time: time.Unix(int64(60*minute), 0), Command: command, Plan: "p", Changes: 2, Adopted: minute, Failed: failed}
	}
	s := &Session{Fabric: &fabric.Fabric{Name: "f"}, known: map[string]*state{
		"a": {records: []resource.Record{
			{Fabric: "f", History: []resource.HistoryEntry{entry(1, "apply", ""), entry(3, "rollback", ""), entry(5, "apply", "")}},
			{Fabric: "other", History: []resource.HistoryEntry{entry(0, "apply", "")}}}},
		"b": {records: []resource.Record{{Fabric: "f", History: []resource.HistoryEntry{entry(2, "apply", ""), entry(6, "apply", "no space")}}}},
	}}
	var got [][]any
	for _, a := range s.History() {
		got = append(got, []any{a.Time.Unix() / 60, a.Command, a.Hosts, a.Total, a.Adopted, a.Failed})
	}
	want := [][]any{{int64(1), "apply", []string{"a", "b"}, 4, 3, ""}, {int64(3), "rollback", []string{"a"}, 2, 3, ""},
		{int64(5), "apply", []string{"a", "b"}, 4, 11, "b: no space"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
