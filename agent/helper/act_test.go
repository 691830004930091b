//go:build linux

package helper

import (
	"errors"
	"slices"
	"testing"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/resource"
)

func TestRecheckRefusesWhatMoved(t *testing.T) {
	plan := []resource.Change{{Attribute: "mtu", From: "1500", To: "9000"}}
	if _, err := recheck(calls.ActParams{Changes: plan}, plan); err != nil {
		t.Fatal(err)
	}
	moved := []resource.Change{{Attribute: "mtu", From: "2000", To: "9000"}}
	_, err := recheck(calls.ActParams{Changes: plan}, moved)
	var e *agent.Error
	if !errors.As(err, &e) || !e.Stale {
		t.Fatalf("got %v", err)
	}
	also, err := recheck(calls.ActParams{Changes: plan, Disturbed: true}, append(plan, resource.Change{Attribute: "route x", To: "y"}))
	if err != nil || len(also) != 1 {
		t.Fatalf("disturbed: %v, %v", also, err)
	}
}

// TestAKeyThatAnotherHostHasMadeIsUsed: a home that hosts share has one key, and each of them may be the one that makes it.
func TestAKeyThatAnotherHostHasMadeIsUsed(t *testing.T) {
	folder := resource.Change{Attribute: "ssh_folder", To: "exists", Stage: resource.StageKeys}
	key := resource.Change{Attribute: "key", To: "made in this apply", Stage: resource.StageKeys}
	mtu := resource.Change{Attribute: "mtu", From: "1500", To: "9000", Stage: resource.StageRuntime}
	plan := []resource.Change{folder, key, mtu}
	for _, c := range []struct {
		now, want []resource.Change
		stale     bool
	}{
		{plan, plan, false},
		{[]resource.Change{key, mtu}, []resource.Change{key, mtu}, false},
		{[]resource.Change{mtu}, []resource.Change{mtu}, false},
		{[]resource.Change{folder, key}, plan, true},
	} {
		got := needed(plan, c.now)
		if !slices.Equal(got, c.want) {
			t.Errorf("now %v: %v is needed", c.now, got)
		}
		if _, err := recheck(calls.ActParams{Changes: got}, c.now); (err != nil) != c.stale {
			t.Errorf("now %v: %v", c.now, err)
		}
	}
}
