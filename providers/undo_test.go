package providers

import (
	"context"
	"io/fs"
	"net/netip"
	"testing"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
)

// TestAnUndoSaysWhatItCosts: giving back the MTU or the state of a real NIC takes its link down, as the
// change forward does; a software device keeps its link when its MTU changes.
func TestAnUndoSaysWhatItCosts(t *testing.T) {
	for name, c := range map[string]struct {
		driver string // of a software device; "": a real NIC
		atom   resource.Atom
		owned  resource.Owned
		want   resource.Disruption
		ends   bool // connections through it
	}{
		"a real NIC's MTU":     {"", "nic eth0 mtu", resource.Owned{Earlier: "1500", Ours: "9000"}, resource.LinkFlap, false},
		"a veth's MTU":         {"veth", "nic eth0 mtu", resource.Owned{Earlier: "1500", Ours: "9000"}, resource.Live, false},
		"a real NIC goes down": {"", "nic eth0 state", resource.Owned{Earlier: "down", Ours: "up"}, resource.LinkFlap, true},
		"a veth goes down":     {"veth", "nic eth0 state", resource.Owned{Earlier: "down", Ours: "up"}, resource.LinkFlap, true},
		"an address":           {"", "nic eth0 address 10.0.0.1/24", resource.Owned{Ours: "10.0.0.1/24"}, resource.Live, true},
	} {
		t.Run(name, func(t *testing.T) {
			snap, err := Kinds().Gather(t.Context(), still{links: []host.Link{{Index: 2, Name: "eth0", Kind: c.driver, MTU: 9000, Up: true}},
				addrs: []host.Addr{{Index: 2, Prefix: netip.MustParsePrefix("10.0.0.1/24")}}}, resource.Query{Atoms: []resource.Atom{c.atom}})
			if err != nil {
				t.Fatal(err)
			}
			plan := func(m facts.Management, allowed bool) planner.HostPlan {
				snap.Management = m
				return planner.Make("f", Kinds(), []planner.HostInput{{Name: "h", Snapshot: snap, Management: allowed,
					Records: []resource.Record{{Fabric: "f", Atoms: map[resource.Atom]resource.Owned{c.atom: c.owned}}}}}).Hosts[0]
			}
			h := plan(facts.Management{}, false)
			if len(h.Actions) != 1 || len(h.Actions[0].Changes) != 1 || h.Worst() != c.want || h.Actions[0].Changes[0].Removes() != c.ends {
				t.Errorf("%+v %v", h.Actions, h.Problems)
			}
			path := facts.Management{Client: netip.MustParseAddr("10.0.0.9"), Server: netip.MustParseAddr("10.0.0.1"), Devices: []string{"eth0"}}
			if h := plan(path, false); len(h.Problems) != 1 {
				t.Errorf("the operator's own path is given back: %+v", h.Actions)
			}
			if h := plan(facts.Management{Unknown: "the login passed none"}, false); len(h.Problems) != 1 {
				t.Errorf("what may be the operator's own path is given back: %+v", h.Actions)
			}
			if h := plan(facts.Management{Unknown: "the login passed none"}, true); len(h.Problems) != 0 || !h.Moves() {
				t.Errorf("%+v %v", h.Actions, h.Problems)
			}
			if h := plan(path, true); (len(h.Problems) == 1) != c.ends { // no other address of the host is declared
				t.Errorf("%+v %v", h.Actions, h.Problems)
			}
		})
	}
}

// TestWhatIsReadForAnAtomIsEnoughToGiveItBack: where a host is not in the files any more, and in the helper's
// last look, nothing is wanted of a kind and its atoms are all that there is to read for.
func TestWhatIsReadForAnAtomIsEnoughToGiveItBack(t *testing.T) {
	for _, kind := range Kinds() {
		if kind.Undo == nil {
			continue
		}
		t.Run(kind.Name, func(t *testing.T) {
			for _, rest := range []string{"it value", "file /etc/systemd/network/05-fabricform-it.network", "folder /etc/netplan", "eth0 charge"} {
				a := resource.NewAtom(kind.Name, rest)
				snap, err := resource.Kinds{kind}.Gather(t.Context(), still{}, resource.Query{Atoms: []resource.Atom{a}})
				if err != nil {
					t.Fatal(err)
				}
				if _, _, err := kind.Undo(snap, a, ""); err != nil {
					t.Errorf("%s: %v", a, err)
				}
			}
		})
	}
}

// still is a host with some links and addresses, and nothing else.
type still struct {
	host.Reader
	links []host.Link
	addrs []host.Addr
}

func (s still) Links(_ context.Context) ([]host.Link, error)    { return s.links, nil }
func (s still) Addrs(_ context.Context) ([]host.Addr, error)    { return s.addrs, nil }
func (still) Routes(_ context.Context) ([]host.Route, error)    { return nil, nil }
func (still) Rules(_ context.Context) ([]host.Rule, error)      { return nil, nil }
func (still) Sysctl(context.Context, string) (string, error)    { return "", fs.ErrNotExist }
func (still) ReadFile(context.Context, string) ([]byte, error)  { return nil, fs.ErrNotExist }
func (still) ReadDir(context.Context, string) ([]string, error) { return nil, fs.ErrNotExist }
func (still) Readlink(context.Context, string) (string, error)  { return "", fs.ErrNotExist }
func (still) Dump(context.Context, uint16) ([][]byte, error)    { return nil, nil }
