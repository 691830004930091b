package planner

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// onMgmt is a host that the operator reaches at 10.0.0.2 on mgmt0, where 10.0.0.3 stands too.
func onMgmt() *facts.Snapshot {
	return &facts.Snapshot{
		Links: []host.Link{{Index: 1, Name: "mgmt0"}, {Index: 2, Name: "rail0"}},
		Addrs: []host.Addr{{Index: 1, Prefix: netip.MustParsePrefix("10.0.0.2/24")}, {Index: 1, Prefix: netip.MustParsePrefix("10.0.0.3/24")},
			{Index: 1, Prefix: netip.MustParsePrefix("fe80::2/64")}},
		Management: facts.Management{Client: netip.MustParseAddr("10.0.0.1"), Server: netip.MustParseAddr("10.0.0.2"), Devices: []string{"mgmt0"}},
	}
}

func address(from, to string) resource.Change {
	return resource.Change{Attribute: "address", From: from, To: to, Address: netip.MustParsePrefix(from + to).Addr(), Atom: resource.NewAtom("k", "mgmt0", "address "+from+to)}
}

// lines are a host's actions, one line each.
func lines(h HostPlan) string {
	var out []string
	for _, a := range h.Actions {
		var parts []string
		for _, c := range a.Changes {
			parts = append(parts, fmt.Sprintf("%s %s>%s", c.Attribute, c.From, c.To))
		}
		line := strings.TrimSpace(fmt.Sprintf("%s %s %s", a.Op, a.Resource.Addr.Name, strings.Join(parts, ", ")))
		if len(a.Later) > 0 {
			line += fmt.Sprintf(" (%d later)", len(a.Later))
		}
		if a.Late {
			line += " (late)"
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

// joins makes a NIC a member of a bond, which takes the NIC down on the way.
func joins(nic string) resource.Change {
	return resource.Change{Attribute: "member", To: nic, Downs: nic, Atom: resource.NewAtom("k", "b0", "member "+nic)}
}

func TestTheOperatorsPathIsMigratedNewFirst(t *testing.T) {
	const touches = "it carries your SSH connection"
	down := resource.Change{Attribute: "state", From: "up", To: "down", Downs: "mgmt0", Atom: resource.NewAtom("k", "mgmt0", "state")}
	for name, c := range map[string]struct {
		in   []resource.Resource
		want string
		via  string
	}{
		"the address moves": {
			in: []resource.Resource{res("mgmt", script{Exists: true, Touches: touches, Changes: []resource.Change{mtu[0], address("", "10.0.0.9/24"), address("10.0.0.2/24", "")}}),
				res("rail", script{Exists: true, Changes: mtu}), res("route", script{Exists: true}, "mgmt")},
			want: "update mgmt mtu 1500>9000, address >10.0.0.9/24 (1 later)\nupdate rail mtu 1500>9000\nkeep route\nreconnect 10.0.0.9\nupdate mgmt address 10.0.0.2/24> (late)\nkeep route (late)",
			via:  "10.0.0.9",
		},
		"it moves to another NIC": {
			in: []resource.Resource{res("mgmt", script{Exists: true, Touches: touches, Changes: []resource.Change{down}}),
				res("rail", script{Exists: true, Touches: "it would take the answers to you", Changes: []resource.Change{address("", "10.0.0.8/24")}})},
			want: "update rail address >10.0.0.8/24\nreconnect 10.0.0.8\nupdate mgmt state up>down (late)",
			via:  "10.0.0.8",
		},
		"the new one stands already": {
			in:   []resource.Resource{res("mgmt", script{Exists: true, Touches: touches, Changes: []resource.Change{address("10.0.0.2/24", "")}})},
			want: "reconnect 10.0.0.3\nupdate mgmt address 10.0.0.2/24> (late)",
			via:  "10.0.0.3",
		},
		"only another address goes": {
			in:   []resource.Resource{res("mgmt", script{Exists: true, Touches: touches, Changes: []resource.Change{address("10.0.0.3/24", "")}})},
			want: "reconnect 10.0.0.2\nupdate mgmt address 10.0.0.3/24> (late)",
		},
		"only the MTU changes": {
			in:   []resource.Resource{res("mgmt", script{Exists: true, Touches: touches, Changes: mtu})},
			want: "update mgmt mtu 1500>9000\nreconnect 10.0.0.2",
		},
		"a bond gets its NIC last": {
			in: []resource.Resource{res("mgmt", script{Exists: true, Touches: touches, Changes: []resource.Change{address("10.0.0.2/24", ""), address("10.0.0.3/24", "")}}),
				res("bond", script{Touches: touches, Changes: []resource.Change{{Attribute: "device", To: "bond"}, joins("mgmt0"), joins("rail0")}}, "mgmt"),
				res("b0", script{Changes: []resource.Change{address("", "10.7.0.2/24")}}, "bond")},
			want: "create bond device >bond, member >rail0 (1 later)\ncreate b0 address >10.7.0.2/24\nreconnect 10.7.0.2\n" +
				"update mgmt address 10.0.0.2/24>, address 10.0.0.3/24> (late)\nupdate bond member >mgmt0 (late)\nkeep bond (late)\nkeep b0 (late)",
			via: "10.7.0.2",
		},
		"a VLAN on its NIC gets the address": {
			in: []resource.Resource{res("mgmt", script{Exists: true, Touches: touches, Changes: []resource.Change{address("10.0.0.2/24", ""), address("10.0.0.3/24", "")}}),
				res("rail", script{Exists: true, Changes: []resource.Change{address("", "10.8.0.2/24")}}),
				res("vlan", script{Changes: []resource.Change{{Attribute: "device", To: "vlan"}}}, "mgmt"),
				res("v0", script{Changes: []resource.Change{address("", "10.7.0.2/24")}}, "vlan")},
			want: "update rail address >10.8.0.2/24\ncreate vlan device >vlan\ncreate v0 address >10.7.0.2/24\nreconnect 10.7.0.2\n" +
				"update mgmt address 10.0.0.2/24>, address 10.0.0.3/24> (late)\nkeep vlan (late)",
			via: "10.7.0.2",
		},
		"nothing touches it": {in: []resource.Resource{res("rail", script{Exists: true, Changes: mtu})}, want: "update rail mtu 1500>9000"},
	} {
		t.Run(name, func(t *testing.T) {
			h := Make("f", kinds(), []HostInput{{Name: "h", Snapshot: onMgmt(), Management: true, Resources: c.in}}).Hosts[0]
			if d := cmp.Diff(c.want, lines(h)); d != "" || len(h.Problems) > 0 {
				t.Errorf("%s %v", d, h.Problems)
			}
			if got := h.MovesTo(); got.IsValid() != (c.via != "") || got.IsValid() && got.String() != c.via {
				t.Errorf("reached at %s, wanted %q", got, c.via)
			}
		})
	}
}

func TestAPathIsNotMovedToNowhere(t *testing.T) {
	snap := onMgmt()
	gone := res("mgmt", script{Exists: true, Touches: "it carries your SSH connection", Changes: []resource.Change{address("10.0.0.2/24", ""), address("10.0.0.3/24", ""), address("", "fd00::1/64")}})
	h := Make("f", kinds(), []HostInput{{Name: "h", Snapshot: snap, Management: true, Resources: []resource.Resource{gone}}}).Hosts[0]
	if len(h.Problems) != 1 || !strings.Contains(h.Problems[0].Message, "no other declared address of the host can replace 10.0.0.2") {
		t.Errorf("%v", h.Problems)
	}
}

// TestAnUnknownPathIsFencedAsAWhole: any change may be one of the path. If it is allowed, removals still wait for a new
// connection, and the plan says what it does not know.
func TestAnUnknownPathIsFencedAsAWhole(t *testing.T) {
	snap := onMgmt()
	snap.Management = facts.Management{Unknown: "the login passed no SSH_CONNECTION"}
	in := HostInput{Name: "h", Address: "h.example", Snapshot: snap, Resources: []resource.Resource{
		res("mgmt", script{Exists: true, Touches: "it may cut it", Changes: []resource.Change{mtu[0], address("10.0.0.2/24", ""), address("", "10.0.0.9/24")}})}}
	h := Make("f", kinds(), []HostInput{in}).Hosts[0]
	if len(h.Problems) != 1 || len(h.Actions) != 0 || !strings.Contains(h.Problems[0].Message, "it may cut it; -allow=management ") {
		t.Errorf("%v %v", h.Actions, h.Problems)
	}
	in.Management = true
	in.Resources = append(in.Resources, res("bond", script{Touches: "it may cut it", Changes: []resource.Change{joins("rail0")}}))
	h = Make("f", kinds(), []HostInput{in}).Hosts[0]
	want := "update mgmt mtu 1500>9000, address >10.0.0.9/24 (1 later)\nreconnect h.example\nupdate mgmt address 10.0.0.2/24> (late)\nupdate bond member >rail0 (late)"
	if d := cmp.Diff(want, lines(h)); d != "" || len(h.Problems) > 0 || !h.Moves() || h.MovesTo().IsValid() {
		t.Errorf("%s %v", d, h.Problems)
	}
}

func TestASavedPlanThatMigratesIsComparedHalfByHalf(t *testing.T) {
	in := func(mtu string) *Plan {
		changes := []resource.Change{{Attribute: "mtu", From: mtu, To: "9000"}, address("", "10.0.0.9/24"), address("10.0.0.2/24", "")}
		return Make("f", kinds(), []HostInput{{Name: "h", Snapshot: onMgmt(), Management: true, Resources: []resource.Resource{
			res("mgmt", script{Exists: true, Touches: "it carries your SSH connection", Changes: changes})}}})
	}
	if moved := Moved(in("1500"), in("1500")); len(moved) != 0 {
		t.Errorf("%v", moved)
	}
	if moved := Moved(in("1500"), in("1400"))["h"]; len(moved) != 1 || !slices.ContainsFunc(moved, func(s string) bool { return strings.Contains(s, "mtu 1400") }) {
		t.Errorf("%v", moved)
	}
}
