package providers

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/providers/netif"
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

// TestARecordNamesOnlyWhatThisBuildRestores: every form of an atom that a kind writes, and nothing else.
func TestARecordNamesOnlyWhatThisBuildRestores(t *testing.T) {
	check := func(a resource.Atom) error {
		snap, err := Kinds().Gather(t.Context(), still{links: []host.Link{{Index: 2, Name: "eth0"}}}, resource.Query{Atoms: []resource.Atom{a}})
		if err != nil {
			return err
		}
		return Kinds().CheckAnswer(snap, nil, resource.Record{Fabric: "f", Atoms: map[resource.Atom]resource.Owned{a: {Ours: "1"}}})
	}
	for _, a := range []resource.Atom{"nic eth0 mtu", "nic eth0 state", "nic eth0 sysctl ipv4.conf.arp_ignore", "nic gone address fd00::1/64", "sysctl net/ipv4/ip_forward",
		"route 254 10.0.0.0/8 0", "policy_route 100 0.0.0.0/0 0", "policy_route rule 1000 100 10.0.0.1/32 all", "rxe rxe0 netdev"} {
		if err := check(a); err != nil {
			t.Errorf("%q: %v", a, err)
		}
	}
	for _, a := range []resource.Atom{"", "nic", "nic eth0", "nic eth0 mtu 9", "nic eth0 speed", "nic eth0 address x", "nic eth0 sysctl", "sysctl", "sysctl a b", "route x", "route 254 x 0",
		"policy_route rule x 100 all all", "policy_route 100", "rxe", "bogus x y", "\x00"} {
		if err := check(a); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("its record of fabric \"f\" names %q", a)) {
			t.Errorf("%q: %v", a, err)
		}
	}
}

// TestAnUndoOfAnMTUPlansWhatComesBackWithIt: at an MTU of 1280 and more, the kernel gives IPv6 back with its default settings.
// The plan sets them, because the apply would otherwise find that its changes did not stay.
func TestAnUndoOfAnMTUPlansWhatComesBackWithIt(t *testing.T) {
	for _, c := range []struct {
		mtu, earlier string
		acts         []string
		problem      string
	}{
		{"1000", "1500", []string{"undo nic.rail0 mtu 1000 → 1500", "update nic.rail0 sysctl ipv6.conf.accept_ra 1 → 0"}, ""},
		{"1500", "1000", []string{"undo nic.rail0 mtu 1500 → 1000"}, "mtu 1000: IPv6 addresses are declared"},
	} {
		h := &fabric.Host{Name: "h"}
		h.NICs = []*fabric.NIC{{Host: "h", Name: "rail0", Netdev: "eth0", Up: true, Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/30")}, AddressesSet: true}}
		if c.problem != "" {
			h.NICs[0].Addresses = append(h.NICs[0].Addresses, netip.MustParsePrefix("fd00::1/64"))
		}
		f := &fabric.Fabric{Name: "f", Hosts: []*fabric.Host{h}}
		mtu, err := strconv.Atoi(c.mtu)
		if err != nil {
			t.Fatal(err)
		}
		snap := &facts.Snapshot{Links: []host.Link{{Index: 2, Name: "eth0", Kind: "veth", MTU: mtu, Up: true}}, Addrs: []host.Addr{{Index: 2, Prefix: netip.MustParsePrefix("10.0.0.1/30")}},
			Sysctls: map[string]string{"net/ipv6/conf/default/accept_ra": "1"}}
		wanted := slices.DeleteFunc(Desired(f, h), func(r resource.Resource) bool { return r.Addr.Kind != "nic" })
		plan := planner.Make("f", Kinds(), []planner.HostInput{{Name: "h", Snapshot: snap, Resources: wanted,
			Records: []resource.Record{{Fabric: "f", Atoms: map[resource.Atom]resource.Owned{"nic eth0 mtu": {Earlier: c.earlier, Ours: c.mtu}}}}}}).Hosts[0]
		var acts []string
		for _, a := range plan.Actions {
			for _, ch := range a.Changes {
				acts = append(acts, fmt.Sprintf("%s %s.%s %s %s → %s", a.Op, a.Resource.Addr.Kind, a.Resource.Addr.Name, ch.Attribute, ch.From, ch.To))
			}
		}
		if !slices.Equal(acts, c.acts) || (c.problem == "") != (len(plan.Problems) == 0) || c.problem != "" && !strings.HasPrefix(plan.Problems[0].Message, c.problem) {
			t.Errorf("%s: %q, want %q; problems %v", c.mtu, acts, c.acts, plan.Problems)
		}
	}
}

// TestAnUndoIsOneActionForEachBlock: the routes of a table belong to several, and a rule and its routes to one. Without the blocks, a route
// has the name of its destination, and a rule that of its table.
func TestAnUndoIsOneActionForEachBlock(t *testing.T) {
	spec := func(of any) json.RawMessage {
		raw, err := json.Marshal(of)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	route := func(to string) netif.MainRouteSpec {
		return netif.MainRouteSpec{Route: netif.RouteSpec{To: netip.MustParsePrefix(to)}}
	}
	policy := func(from string, table int) netif.PolicyRouteSpec {
		return netif.PolicyRouteSpec{From: netip.MustParsePrefix(from), Table: table, Priority: 1000, Routes: []netif.RouteSpec{{To: netip.MustParsePrefix("10.77.0.0/16")}}}
	}
	var declared []resource.Resource
	for _, d := range []struct {
		kind, name string
		spec       any
	}{
		{netif.KindRoute, "rail1", route("10.65.0.0/24")}, {netif.KindRoute, "rail2", route("10.66.0.0/24")},
		{netif.KindPolicyRoute, "rail1", policy("10.0.1.1/32", 101)}, {netif.KindPolicyRoute, "rail2", policy("10.0.2.1/32", 102)},
	} {
		declared = append(declared, resource.Resource{Addr: resource.Addr{Host: "a", Kind: d.kind, Name: d.name}, Spec: spec(d.spec)})
	}
	atoms := []resource.Atom{"route 254 10.65.0.0/24 0", "route 254 10.66.0.0/24 0", "policy_route 101 10.77.0.0/16 0", "policy_route 102 10.77.0.0/16 0",
		"policy_route rule 1000 101 10.0.1.1/32 all", "policy_route rule 1000 102 10.0.2.1/32 all"}
	owned := map[resource.Atom]resource.Owned{}
	snap := &facts.Snapshot{Management: facts.Management{Client: netip.MustParseAddr("192.0.2.9"), Server: netip.MustParseAddr("192.0.2.1")}}
	for i, to := range []string{"10.65.0.0/24", "10.66.0.0/24", "10.77.0.0/16", "10.77.0.0/16"} {
		snap.Routes = append(snap.Routes, host.Route{Table: []int{254, 254, 101, 102}[i], Dst: netip.MustParsePrefix(to), Via: netip.MustParseAddr("10.0.0.2")})
	}
	for i, from := range []string{"10.0.1.1/32", "10.0.2.1/32"} {
		snap.Rules = append(snap.Rules, host.Rule{Priority: 1000, Table: 101 + i, From: netip.MustParsePrefix(from)})
	}
	for _, a := range atoms {
		kind, _ := Kinds().Lookup(a.Kind())
		c, _, err := kind.Undo(snap, a, "")
		if err != nil || c.From == "" {
			t.Fatalf("%s: %+v, %v", a, c, err)
		}
		owned[a] = resource.Owned{Ours: c.From}
	}
	for name, c := range map[string]struct {
		declared []resource.Resource
		want     []string
	}{
		"declared, destroy": {declared, []string{"policy_route.rail1: policy_route 101 10.77.0.0/16 0, policy_route rule 1000 101 10.0.1.1/32 all",
			"policy_route.rail2: policy_route 102 10.77.0.0/16 0, policy_route rule 1000 102 10.0.2.1/32 all", "route.rail1: route 254 10.65.0.0/24 0", "route.rail2: route 254 10.66.0.0/24 0"}},
		"removed": {nil, []string{"policy_route.101: policy_route 101 10.77.0.0/16 0, policy_route rule 1000 101 10.0.1.1/32 all",
			"policy_route.102: policy_route 102 10.77.0.0/16 0, policy_route rule 1000 102 10.0.2.1/32 all", "route.10.65.0.0/24: route 254 10.65.0.0/24 0", "route.10.66.0.0/24: route 254 10.66.0.0/24 0"}},
	} {
		h := planner.Make("f", Kinds(), []planner.HostInput{{Name: "a", Snapshot: snap, Declared: c.declared, Records: []resource.Record{{Fabric: "f", Atoms: owned}}}}).Hosts[0]
		var got []string
		for _, a := range h.Actions {
			var of []string
			for _, ch := range a.Changes {
				of = append(of, string(ch.Atom))
			}
			got = append(got, a.Resource.Addr.Kind+"."+a.Resource.Addr.Name+": "+strings.Join(of, ", "))
		}
		if !slices.Equal(got, c.want) || len(h.Problems) > 0 {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, h.Problems, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
}
