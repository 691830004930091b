package draft

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/cabling"
	"github.com/fabricform/fabricform/fabric"
)

func of[T any](v T) *T { return &v }

// bonded is hosts with two NICs in a bond, a VLAN on it, and a Soft-RoCE device and a rule on top. The second host has its cables crossed.
func bonded(hosts int, cabled bool) Input {
	in := Input{Fabric: "bonded", Report: &cabling.Report{}}
	var all []cabling.End
	for i := range hosts {
		name := fmt.Sprintf("n%02d", i+1)
		bond := nicOf("bond0", "bond0", 9000, fmt.Sprintf("10.40.0.%d/24", i+1))
		bond.Bond = &fabric.Bond{NICs: []fabric.NICRef{{NIC: "rail0"}, {NIC: "rail1"}}, Mode: "802.3ad", LACPRate: "fast", XmitHash: "layer3+4", MIIMon: 50, MinLinks: of(1)}
		vlan := nicOf("vlan200", "bond0.200", 1500, fmt.Sprintf("10.2.0.%d/24", i+1))
		vlan.VLAN = &fabric.VLAN{On: fabric.NICRef{NIC: "bond0"}, ID: 200, PriorityMap: map[int]int{4: 3, 5: 5}}
		q := &fabric.QoS{DSCP: of(40), Priority: of(5), PFC: of(true), Trust: "dscp", ETS: map[int]int{5: 60, 0: 40}}
		h := Host{Name: name, Asked: name, Address: fmt.Sprintf("10.0.0.%d", 100+i), Model: &fabric.Host{Memlock: "unlimited", NetworkManager: "netplan",
			NICs: []*fabric.NIC{nicOf("rail0", "eth1", 9000), nicOf("rail1", "eth2", 9000), bond, vlan},
			RXE:  []*fabric.RXE{{Name: "rxe0", NIC: fabric.NICRef{NIC: "bond0"}, Persist: true}},
			Policy: []*fabric.PolicyRoute{{Name: "vlan200", NIC: fabric.NICRef{NIC: "vlan200"}, Table: 200, Priority: 10200, From: netip.PrefixFrom(vlan.Addresses[0].Addr(), 32),
				Routes: []fabric.Route{{To: netip.MustParsePrefix("10.3.0.0/16"), Via: netip.MustParseAddr("10.2.0.254")}}}}}}
		for _, n := range h.Model.NICs {
			own := *q
			n.QoS = &own
		}
		in.Hosts = append(in.Hosts, h)
		all = append(all, end(name, "eth1"), end(name, "eth2"))
	}
	if cabled {
		in.Report.Cables = [][2]cabling.End{{all[0], all[3]}, {all[1], all[2]}}
	} else {
		in.Report.Segments = []cabling.Segment{{Ends: all}}
	}
	return in
}

// declares fails unless the text declares the bonds, VLANs and classes of the input.
func declares(t *testing.T, in Input, text []byte) *fabric.Fabric {
	t.Helper()
	f := load(t, text)
	for _, h := range in.Hosts {
		got := f.Host(h.Name)
		for _, n := range h.Model.NICs {
			g := got.NIC(n.Name)
			if g == nil || g.Kind() != n.Kind() || g.Netdev != n.Netdev || g.MTU != n.MTU || !slices.Equal(g.Addresses, n.Addresses) {
				t.Fatalf("%s: want %+v, got %+v in\n%s", h.Name, n, g, text)
			}
			if n.QoS != nil && !slices.EqualFunc(classBlock(n.QoS).attrs, classBlock(g.QoS).attrs, func(x, y attr) bool { return x == y }) {
				t.Errorf("%s: class %+v", g.Ref(), g.QoS)
			}
			if b := n.Bond; b != nil && (g.Bond.Mode != b.Mode || g.Bond.LACPRate != b.LACPRate || g.Bond.XmitHash != b.XmitHash || g.Bond.MIIMon != b.MIIMon ||
				(g.Bond.MinLinks == nil) != (b.MinLinks == nil) || len(g.Bond.NICs) != len(b.NICs)) {
				t.Errorf("%s: bond %+v, want %+v", g.Ref(), g.Bond, b)
			}
			if v := n.VLAN; v != nil && (g.VLAN.ID != v.ID || g.VLAN.On.NIC != v.On.NIC || fmt.Sprint(g.VLAN.PriorityMap) != fmt.Sprint(v.PriorityMap)) {
				t.Errorf("%s: VLAN %+v, want %+v", g.Ref(), g.VLAN, v)
			}
		}
		if got.Memlock != h.Model.Memlock || got.NetworkManager != h.Model.NetworkManager || len(got.RXE) != len(h.Model.RXE) || got.RXE[0].NIC != (fabric.NICRef{Host: h.Name, NIC: "bond0"}) ||
			len(got.Policy) != 1 || got.Policy[0].NIC.NIC != "vlan200" || got.Policy[0].From != h.Model.Policy[0].From {
			t.Errorf("host %s: %+v", h.Name, got)
		}
	}
	return f
}

// TestBondsThatAreCabledAreOneLink, whose members are in the order of the cables, and so are the VLANs on them.
func TestBondsThatAreCabledAreOneLink(t *testing.T) {
	in := bonded(2, true)
	text := Write(in)
	f := declares(t, in, text)
	if len(f.Links) != 2 || f.Links[0].Name != "n01-n02-bond0" || f.Links[1].Name != "n01-n02-vlan200" || len(f.Classes) != 1 || f.Classes[0].Name != "lossless" {
		t.Fatalf("links %v, classes %v in\n%s", f.Links, f.Classes, text)
	}
	if a, b := f.Host("n01").NIC("bond0").Bond.NICs, f.Host("n02").NIC("bond0").Bond.NICs; a[0].NIC != "rail0" || b[0].NIC != "rail1" || b[1].NIC != "rail0" {
		t.Errorf("the members are %v and %v", a, b)
	}
	uneven := bonded(2, true) // another ID, and a third member
	b := uneven.Hosts[1].Model
	b.NICs[3].VLAN.ID = 201
	if f := load(t, Write(uneven)); len(f.Links) != 1 {
		t.Errorf("%d links of VLANs with different IDs", len(f.Links))
	}
	b.NICs[2].Bond.NICs = append(b.NICs[2].Bond.NICs, fabric.NICRef{NIC: "rail2"})
	b.NICs = append(b.NICs, nicOf("rail2", "eth3", 9000))
	if text := string(Write(uneven)); len(load(t, []byte(text)).Links) != 0 || !strings.Contains(text, "to more than one other bond") {
		t.Errorf("bonds of different size:\n%s", text)
	}
	uneven = bonded(2, true) // a third member of the first one, with the two cables of the second one
	a := uneven.Hosts[0].Model
	a.NICs[2].Bond.NICs = append(a.NICs[2].Bond.NICs, fabric.NICRef{NIC: "rail2"})
	a.NICs = append(a.NICs, nicOf("rail2", "eth3", 9000))
	if text := string(Write(uneven)); len(load(t, []byte(text)).Links) != 0 || !strings.Contains(text, "to more than one other bond") {
		t.Errorf("a member without a cable:\n%s", text)
	}
	in.Report.Cables = in.Report.Cables[:1]
	text = Write(in)
	if f := declares(t, in, text); len(f.Links) != 0 || !strings.Contains(string(text), "members of a bond are cabled to more than one other bond, or to no bond") {
		t.Errorf("half of the cables:\n%s", text)
	}
}

// TestSixteenHostsWithBondsAreAPage: one host block, a network of the bonds, and one of the VLANs, which is a guess.
func TestSixteenHostsWithBondsAreAPage(t *testing.T) {
	in := bonded(16, false)
	text := Write(in)
	f := declares(t, in, text)
	if len(f.Networks) != 2 || len(f.Networks[0].Members) != 16 || f.Networks[0].Members[0].NIC != "bond0" || !strings.Contains(string(text), "# guessed from the addresses") {
		t.Errorf("%s", text)
	}
	if n := strings.Count(string(text), "\n"); n >= 70 {
		t.Errorf("%d lines:\n%s", n, text)
	}
	in.Hosts[3].Model.NICs[3].Addresses[0], in.Hosts[3].Model.Policy = netip.MustParsePrefix("10.99.0.1/24"), nil
	text = Write(in)
	if f := load(t, text); len(f.Networks) != 2 || len(f.Networks[1].Members) != 15 || !strings.Contains(string(text), "# in no network: no NIC that it is connected with declares the same MTU and subnets (n01.vlan200, n02.vlan200 and 13 more)") {
		t.Errorf("one VLAN is in another subnet:\n%s", text)
	}
}

// TestAHostMayHaveThousandsOfVLANs: each is compared with the one of its ID at the other end, and not with all. One host's answer must not hold up
// the import of all.
func TestAHostMayHaveThousandsOfVLANs(t *testing.T) {
	const most = 4094
	in := Input{Fabric: "f", Report: &cabling.Report{Cables: [][2]cabling.End{{end("a", "eth0"), end("b", "eth0")}}}}
	for i, name := range []string{"a", "b"} {
		h := Host{Name: name, Asked: name, Model: &fabric.Host{NICs: []*fabric.NIC{nicOf("rail0", "eth0", 0)}}}
		for id := 1 + i; id <= most; id++ { // b lacks the first one
			v := nicOf(fmt.Sprintf("v%d", id), fmt.Sprintf("eth0.%d", id), 0)
			v.VLAN = &fabric.VLAN{On: fabric.NICRef{NIC: "rail0"}, ID: id}
			h.Model.NICs = append(h.Model.NICs, v)
		}
		in.Hosts = append(in.Hosts, h)
	}
	if n := strings.Count(string(Write(in)), "\nlink "); n != most {
		t.Errorf("%d links, want those of %d VLANs and of the cable", n, most-1)
	}
}
