package planner

import (
	"strings"
	"testing"

	"github.com/fabricform/fabricform/resource"
)

// TestWhateverMovedSinceAPlanWasSavedIsNamed: an action that is new, gone or another one, and other facts below an
// equal one.
func TestWhateverMovedSinceAPlanWasSavedIsNamed(t *testing.T) {
	action := func(name, to, seen string) Action {
		return Action{Resource: resource.Resource{Addr: resource.Addr{Host: "a", Kind: "nic", Name: name}}, Op: Update, Seen: seen, Changes: []resource.Change{{Attribute: "mtu", From: "1500", To: to}}}
	}
	undo := action("rail0", "9000", "1")
	undo.Op = Undo
	forgets := action("rail0", "9000", "1")
	forgets.Forget = []resource.Atom{"nic eth0 mtu"}
	keep := Action{Resource: resource.Resource{Addr: resource.Addr{Host: "a", Kind: "route", Name: "rail0"}}, Op: Keep, Disturbed: true}
	leaves := Action{Resource: keep.Resource, Op: Undo, Forget: []resource.Atom{"route 254 10.0.0.0/8 0"}}
	saved := []Action{action("rail0", "9000", "1")}
	for name, c := range map[string]struct {
		now  []Action
		says string // "": nothing moved
	}{
		"the same":           {saved, ""},
		"a new action":       {append([]Action{action("rail1", "4200", "1")}, saved...), "nic.rail1: new difference: mtu 1500 → 4200"},
		"none any more":      {nil, "nic.rail0: no change is needed any more"},
		"another value":      {[]Action{action("rail0", "4200", "1")}, "nic.rail0: planned mtu 1500 → 9000; now it would be mtu 1500 → 4200"},
		"other facts":        {[]Action{action("rail0", "9000", "2")}, "nic.rail0: the facts behind the plan have changed"},
		"an undo of it":      {[]Action{undo}, "nic.rail0: no change is needed any more"},
		"a check more":       {append([]Action{keep}, saved...), ""},
		"a forgotten value":  {append([]Action{leaves}, saved...), "route.rail0: new difference: values leave the record, and stay as they are"},
		"it forgets another": {[]Action{forgets}, "nic.rail0: planned mtu 1500 → 9000"},
	} {
		moved := Moved(&Plan{Hosts: []HostPlan{{Name: "a", Actions: saved}}}, &Plan{Hosts: []HostPlan{{Name: "a", Actions: c.now}}})
		if got := strings.Join(moved["a"], "; "); (got == "") != (c.says == "") || !strings.HasPrefix(got, c.says) || len(moved) > 1 {
			t.Errorf("%s: %q, want %q", name, got, c.says)
		}
	}
	with := append([]Action{keep}, saved...)
	if moved := Moved(&Plan{Hosts: []HostPlan{{Name: "a", Actions: with}}}, &Plan{Hosts: []HostPlan{{Name: "a", Actions: saved}}}); len(moved) != 0 {
		t.Errorf("a check less: %v", moved)
	}
	// On a host on which nothing was planned, too.
	if moved := Moved(&Plan{Hosts: []HostPlan{{Name: "a"}}}, &Plan{Hosts: []HostPlan{{Name: "a", Actions: saved}}}); len(moved["a"]) != 1 {
		t.Errorf("nothing was planned: %v", moved)
	}
	for says, now := range map[string][]HostPlan{"no longer part of the fabric": nil, "unreachable now": {{Name: "a", Unreachable: "refused"}}} {
		if moved := Moved(&Plan{Hosts: []HostPlan{{Name: "a", Actions: saved}}}, &Plan{Hosts: now}); !strings.Contains(strings.Join(moved["a"], ""), says) {
			t.Errorf("%s: %v", says, moved)
		}
	}
}
