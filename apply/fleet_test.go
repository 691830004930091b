package apply

import (
	"context"
	"encoding/json"
	"io"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/transport"
)

// proven is a stream to a host.
type proven string

func (proven) HostKey() string           { return "the key" }
func (p proven) Dialled() netip.AddrPort { return netip.MustParseAddrPort(string(p)) }

// TestAHostDoesNotSayItsOwnKeyAndAddress: other hosts of its fabric trust the key at the address.
func TestAHostDoesNotSayItsOwnKeyAndAddress(t *testing.T) {
	for _, c := range []struct {
		stream  any
		key, at string
	}{{proven("10.0.0.2:2222"), "the key", "10.0.0.2"}, {proven("10.0.0.2:22"), "the key", "invalid IP"}, {"no SSH", "", "invalid IP"}} {
		foreign := netip.MustParseAddr("10.0.0.3")
		snap := &facts.Snapshot{Management: facts.Management{Server: foreign, Dialled: foreign, Port: 2222, HostKey: "of another host"}}
		identityBy(c.stream).set(snap)
		if m := snap.Management; m.HostKey != c.key || m.Dialled.String() != c.at || m.Server != foreign {
			t.Errorf("%v: %+v", c.stream, m)
		}
	}
}

// TestAnApplyAsksEachHostWhileOthersLogIn: a slow login costs its own host only.
func TestAnApplyAsksEachHostWhileOthersLogIn(t *testing.T) {
	y := newToys(t)
	o := y.options()
	o.Changing = true
	dial, asked := o.Dial, make(chan struct{})
	y.hosts["a"].on = func(method string) {
		if method == string(calls.Snapshot) {
			close(asked)
			y.hosts["a"].on = nil
		}
	}
	o.Dial = func(ctx context.Context, to transport.Target) (io.ReadWriteCloser, error) {
		if to.Name == "b" {
			select {
			case <-asked:
			case <-time.After(20 * time.Second):
				t.Error("host a was not read while host b logged in")
			}
		}
		return dial(ctx, to)
	}
	if r := y.runIn(t.Context(), Open(t.Context(), y.fabric, o), Options{}); r.Ending != Done || y.hosts["a"].value != "2" || y.hosts["b"].value != "2" {
		t.Errorf("%v: %+v", r.Ending, r)
	}
}

// TestAPlanKeepsNoFacts: with ten thousand hosts, they would fill memory.
func TestAPlanKeepsNoFacts(t *testing.T) {
	y := newToys(t)
	o := y.options()
	o.Glance = true
	s := Open(t.Context(), y.fabric, o)
	defer s.Close()
	p, inputs := s.propose(t.Context())
	if p.Changes() != 2 || len(p.Unreachable()) > 0 {
		t.Errorf("%d changes, unreachable: %v", p.Changes(), p.Unreachable())
	}
	for _, in := range inputs {
		if in.Snapshot != nil || s.known[in.Name].snapshot != nil {
			t.Errorf("the facts of host %s are kept", in.Name)
		}
	}
}

// TestAPlanIsTheSameHoweverItReads: with one look at each host, an answer is judged when its host is planned. If the plan cannot use
// it, the host's links are left out as those of any unreachable host.
func TestAPlanIsTheSameHoweverItReads(t *testing.T) {
	for name, breaks := range map[string]func(b *toyHost){
		"whole":        func(*toyHost) {},
		"unknown atom": func(b *toyHost) { b.atoms = map[resource.Atom]resource.Owned{"bogus x y": {Ours: "1"}} },
		"no answer":    func(b *toyHost) { b.mute = true },
		"no link":      func(b *toyHost) { b.empty = true },
	} {
		t.Run(name, func(t *testing.T) {
			var p *planner.Plan
			var plans [2]string
			for i := range plans {
				y := newToys(t)
				breaks(y.hosts["b"])
				o := y.options()
				o.Glance = i == 1
				s := Open(t.Context(), y.fabric, o)
				p = s.Propose(t.Context())
				s.Close()
				raw, err := json.Marshal(p)
				if err != nil {
					t.Fatal(err)
				}
				plans[i] = string(raw)
			}
			if d := cmp.Diff(plans[0], plans[1]); d != "" {
				t.Error(d)
			}
			if whole := name == "whole"; (len(p.Unreachable()) == 0) != whole || (len(p.LeftOut) == 0) != whole {
				t.Errorf("unreachable: %v; left out: %v", p.Unreachable(), p.LeftOut)
			}
		})
	}
}

// TestVersionsAreReadOnlyToCompareHosts: reading them asks the package manager of each host.
func TestVersionsAreReadOnlyToCompareHosts(t *testing.T) {
	y := newToys(t)
	o := y.options()
	o.Resources.Compared = func(h *fabric.Host) []resource.Resource {
		return []resource.Resource{{Addr: resource.Addr{Host: h.Name, Kind: "stack", Name: "versions"}}}
	}
	var asked []bool
	y.hosts["a"].on = func(method string) {
		if method == string(calls.Snapshot) {
			asked = append(asked, strings.Contains(y.hosts["a"].params, "versions"))
		}
	}
	s := Open(t.Context(), y.fabric, o)
	defer s.Close()
	s.Propose(t.Context())
	if _, err := s.Snapshot(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(asked, []bool{false, true}) {
		t.Errorf("the plan and the comparison asked for versions: %v", asked)
	}
}
