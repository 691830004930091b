package apply

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

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
			y.hosts["a"].records = []resource.Record{{Fabric: raisedBy, Atoms: map[resource.Atom]resource.Owned{"toy r0 value": {}}}}
		}, nil, false, Failed, `host a has a fabric named "discover-ports"`},
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
				ending, err := Raise(ctx, s, ports, y.heard, func(context.Context) error {
					ran, up = true, y.values()
					return c.during(y, cancel)
				})
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
