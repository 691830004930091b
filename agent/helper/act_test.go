//go:build linux

package helper

import (
	"errors"
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
