package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/checkpoint"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/resource"
)

// TestRaisedPortsAreAlwaysSetDown: whatever happens while they are up, every host that was changed reverts, and none commits.
func TestRaisedPortsAreAlwaysSetDown(t *testing.T) {
	ports := map[string][]string{"a": {"eth0"}, "b": {"eth0"}}
	for name, c := range map[string]struct {
		before func(y *toys, cancel func())
		during func(y *toys, cancel func()) error
		runs   bool
		ending Ending
		says   string
	}{
		"a search":            {nil, func(*toys, func()) error { return nil }, true, Done, ""},
		"a search that fails": {nil, func(*toys, func()) error { return errors.New("no answer") }, true, Failed, "no answer"},
		"an interrupt": {nil, func(_ *toys, cancel func()) error {
			cancel()
			return errors.New("interrupted")
		}, true, Failed, "interrupted"},
		"a port that cannot be set up": {func(y *toys, _ func()) { y.hosts["b"].fails["act"] = errors.New("no such device") }, nil, false, Failed, "host b: no such device"},
		"another transaction":          {func(y *toys, _ func()) { y.hosts["b"].held = true }, nil, false, Held, "nothing was changed"},
		"a fabric of that name": {func(y *toys, _ func()) {
			y.hosts["a"].records = []resource.Record{{Fabric: RaisedBy, Atoms: map[resource.Atom]resource.Owned{"toy r0 value": {}}}}
		}, nil, false, Failed, `host a has a fabric named "discover-ports"`},
		"another search": {func(y *toys, _ func()) {
			y.hosts["a"].records = []resource.Record{{Fabric: RaisedBy, Atoms: map[resource.Atom]resource.Owned{"toy r0 value": {}}}}
			y.hosts["a"].tx = calls.TxInfo{TxRef: calls.TxRef{ID: "1"}, Fabric: RaisedBy, State: checkpoint.Armed}
		}, nil, false, Held, "another transaction is open: host a: "},
		"a host that cannot revert": {nil, func(y *toys, _ func()) error {
			y.hosts["b"].mu.Lock()
			defer y.hosts["b"].mu.Unlock()
			y.hosts["b"].fails["tx.revert"] = errors.New("disk full")
			return nil
		}, true, OutcomeUnknown, "not every port could be set down again"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y := newToys(t)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				s := Open(ctx, y.fabric, y.options())
				defer s.Close()
				y.hosts["a"].tells, y.hosts["b"].tells = true, true
				if c.before != nil {
					c.before(y, cancel)
				}
				ran, up := false, ""
				r, ending, err := PlanRaise(ctx, s, ports)
				if err == nil {
					_, ending, err = Raise(ctx, s, r, y.heard, func(context.Context) error {
						ran, up = true, y.values()
						return c.during(y, cancel)
					})
				}
				if ran != c.runs || ending != c.ending || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
					t.Errorf("ran %v, ending %v, %v", ran, ending, err)
				}
				if ran && up != "22" {
					t.Errorf("while it ran, the hosts had %q", up)
				}
				if got := y.values(); c.ending != OutcomeUnknown && got != "11" {
					t.Errorf("it left %q", got)
				}
				for host, h := range y.hosts {
					if slices.Contains(h.asked, "tx.commit") || slices.Contains(h.asked, "tx.persist") {
						t.Errorf("host %s was asked %v", host, h.asked)
					}
				}
			})
		})
	}
}

// TestAPortThatCannotBeSetUpIsLeftAlone: it does not stop the search on other ports and hosts, and the reason is known before anything is set up.
func TestAPortThatCannotBeSetUpIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newToys(t)
		o := y.options()
		o.Resources.Desired = func(_ *fabric.Fabric, h *fabric.Host) (out []resource.Resource) {
			for _, n := range h.NICs {
				kind := map[bool]string{true: "unknown", false: "toy"}[n.Netdev == "held"]
				out = append(out, resource.Resource{Addr: resource.Addr{Host: h.Name, Kind: kind, Name: n.Name}, Spec: json.RawMessage(`"2"`)})
			}
			return out
		}
		s := Open(t.Context(), y.fabric, o)
		defer s.Close()
		r, ending, err := PlanRaise(t.Context(), s, map[string][]string{"a": {"held", "eth0"}, "b": {"eth0", "held"}})
		if err != nil || ending != Done {
			t.Fatal(ending, err)
		}
		if got := fmt.Sprint(r.Ports); got != "map[a:[eth0] b:[eth0]]" {
			t.Errorf("sets up %s", got)
		}
		for _, host := range []string{"a", "b"} {
			if why := r.LeftAlone[host]["held"]; len(r.LeftAlone[host]) != 1 || !strings.Contains(why, "cannot apply it") {
				t.Errorf("host %s: left alone %v", host, r.LeftAlone[host])
			}
		}
		up := ""
		y.hosts["a"].tells, y.hosts["b"].tells = true, true
		if _, _, err := Raise(t.Context(), s, r, y.heard, func(context.Context) error { up = y.values(); return nil }); err != nil || up != "22" || y.values() != "11" {
			t.Errorf("while it ran, the hosts had %q; afterwards %q; %v", up, y.values(), err)
		}
	})
}

// TestASearchNamesTheChangesOfOthers: what somebody else set on a port while it was up is undone with it, or stays, and both are said.
func TestASearchNamesTheChangesOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newToys(t)
		kept, overwritten := []resource.Change{{Attribute: "address", To: "10.0.0.7/24"}}, []resource.Change{{Attribute: "mtu", From: "3000", To: "1500"}}
		y.hosts["b"].found = calls.TxInfo{Kept: kept, Overwritten: overwritten}
		s := Open(t.Context(), y.fabric, y.options())
		defer s.Close()
		y.hosts["a"].tells, y.hosts["b"].tells = true, true
		r, _, err := PlanRaise(t.Context(), s, map[string][]string{"a": {"eth0"}, "b": {"eth0"}})
		if err != nil {
			t.Fatal(err)
		}
		others, ending, err := Raise(t.Context(), s, r, y.heard, func(context.Context) error { return nil })
		if err != nil || ending != Done {
			t.Fatal(ending, err)
		}
		if len(others) != 1 || others[0].Host != "b" || !slices.Equal(others[0].Kept, kept) || !slices.Equal(others[0].Overwritten, overwritten) {
			t.Errorf("%+v", others)
		}
	})
}
