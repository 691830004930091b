package validators

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/probe"
)

// lacpBond is a working LACP bond of two members on host a.
func lacpBond() bond {
	b := bond{began: time.Now(), side: side{host: "a", nic: "b0", spec: &fabric.NIC{Name: "b0", Host: "a", Netdev: "b0", Bond: &fabric.Bond{Mode: lacpMode}},
		link: &host.Link{Index: 9, Name: "b0", Kind: "bond", MAC: "02:00:00:00:00:0a", LACP: &host.LACP{Aggregator: 1, Partner: "02:00:00:00:00:0b"},
			Bond: &host.Bond{Mode: lacpMode, XmitHash: "layer3+4"}}}, before: ports{}}
	for i, name := range []string{"p0", "p1"} {
		b.members = append(b.members, side{host: "a", nic: name, spec: &fabric.NIC{Name: name, Host: "a"},
			link: &host.Link{Index: 2 + i, Name: "eth" + name[1:], Master: 9, Up: true, Carrier: true, Member: &host.Member{Works: true, Active: true, Aggregator: 1}}})
		b.before[b.members[i].ref()] = probe.Counters{TxPackets: 100}
	}
	return b
}

func sentBy(b bond, sent ...uint64) ports {
	out := ports{}
	for i, m := range b.members {
		out[m.ref()] = probe.Counters{TxPackets: 100 + sent[i]}
	}
	return out
}

// TestMembersOfABondAreJudged: each state in which a bond does not use a member is named.
func TestMembersOfABondAreJudged(t *testing.T) {
	for want, change := range map[string]func(b *bond, m *side){
		"":                          func(*bond, *side) {},
		"p1 has no carrier":         func(_ *bond, m *side) { m.link.Carrier = false },
		"p1 is down":                func(_ *bond, m *side) { m.link.Up = false },
		"p1 is not a member":        func(_ *bond, m *side) { m.link.Master = 0 },
		"p1 matches no device":      func(_ *bond, m *side) { m.link = nil },
		"p1 does not work":          func(_ *bond, m *side) { m.link.Member.Works = false },
		"p1 does not report":        func(_ *bond, m *side) { m.link.Member = nil },
		"p1 is in another LACP agg": func(_ *bond, m *side) { m.link.Member.Aggregator = 2 },
	} {
		b := lacpBond()
		change(&b, &b.members[1])
		got := b.working()
		verdict, working := Fail, 1.0
		if want == "" {
			verdict, working = Pass, 2
		}
		if got.Verdict != verdict || !strings.HasPrefix(got.Cause, want) || got.Values[0].Value != working || got.Values[0].OutOf != 2 {
			t.Errorf("%q: %+v", want, got)
		}
	}
}

// TestLACPsPartnerIsTheDeclaredOne: at a direct link, another system is a failure; through a switch it is not.
func TestLACPsPartnerIsTheDeclaredOne(t *testing.T) {
	peer := lacpBond()
	peer.host, peer.link.MAC = "z", "02:00:00:00:00:0b"
	other := lacpBond()
	other.host, other.link.MAC = "z", "02:00:00:00:00:0c"
	for name, c := range map[string]struct {
		peer    *bond
		partner string
		want    Verdict
		says    string
	}{
		"the peer":          {&peer, "02:00:00:00:00:0b", Pass, ""},
		"a switch":          {nil, "02:00:00:00:00:0d", Pass, ""},
		"another system":    {&other, "02:00:00:00:00:0b", Fail, "the partner is not z.b0"},
		"nobody":            {&peer, "", Fail, "no system answers by LACP"},
		"nobody, by switch": {nil, "", Fail, "no system answers by LACP"},
	} {
		b := lacpBond()
		b.link.LACP.Partner = c.partner
		if got := b.partner(c.peer); got.Verdict != c.want || !strings.Contains(got.Cause, c.says) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	peer.link.LACP.System = "02:00:00:00:00:99"
	b := lacpBond()
	if got := b.partner(&peer); got.Verdict != Fail || got.Wanted != "02:00:00:00:00:99" {
		t.Errorf("a system that has another ID than its bond's MAC: %+v", got)
	}
	b.link.LACP.Partner = "02:00:00:00:00:99"
	if got := b.partner(&peer); got.Verdict != Pass {
		t.Errorf("a system that has another ID than its bond's MAC: %+v", got)
	}
	b = lacpBond()
	b.link.LACP = nil
	if got := b.partner(&peer); got.Verdict != Fail || !got.Unmeasured {
		t.Errorf("a host that does not report: %+v", got)
	}
}

// TestMembersThatCarryNothingAreNamed: with its reason, and only if something was sent at all.
func TestMembersThatCarryNothingAreNamed(t *testing.T) {
	for name, c := range map[string]struct {
		mode, hash string
		sent       []uint64
		want       Verdict
		says, cure string
	}{
		"both":                           {lacpMode, "layer3+4", []uint64{5000, 60}, Pass, "", ""},
		"one, and the other LACP alone":  {lacpMode, "layer3+4", []uint64{5000, 4}, Warn, "p1 sent nothing that the kernel counts: this run had few connections", ""},
		"one, by the hash of two MACs":   {lacpMode, "layer2", []uint64{0, 5000}, Warn, `p0 sent nothing that the kernel counts: the hash "layer2"`, "layer3+4"},
		"a mode without a hash":          {"balance-rr", "layer2", []uint64{0, 5000}, Warn, "p0 sent nothing that the kernel counts: this run", ""},
		"nothing was sent":               {lacpMode, "layer3+4", []uint64{40, 2}, Skip, "run the check tcp", ""},
		"a mode in which one member can": {"active-backup", "layer2", []uint64{0, 5000}, Skip, "one member carries everything", ""},
	} {
		b := lacpBond()
		b.spec.Bond.Mode, b.link.Bond.XmitHash = c.mode, c.hash
		got := b.load(sentBy(b, c.sent...), nil)
		if got.Verdict != c.want || !strings.Contains(got.Cause, c.says) || !strings.Contains(got.Cure, c.cure) || len(got.Counters) != 2 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestAMissingVLANIsToldFromADeadCable by the counters of the VLAN and of the port below it.
func TestAMissingVLANIsToldFromADeadCable(t *testing.T) {
	vlan := func(name string, id int) side {
		return side{host: name, nic: "v", spec: &fabric.NIC{Name: "v", Host: name, VLAN: &fabric.VLAN{ID: id}}, link: &host.Link{VLAN: &host.VLAN{ID: id}},
			under: []fabric.NICRef{{Host: name, NIC: "p0"}}}
	}
	a, z := vlan("a", 200), vlan("z", 200)
	port := fabric.NICRef{Host: "z", NIC: "p0"}
	for name, c := range map[string]struct {
		sent, inside, arrived, earlier uint64
		lacp                           int // members, for 3 seconds
		want                           string
	}{
		"it arrives":                {3, 3, 3, 10, 0, ""},
		"nothing was sent":          {0, 0, 0, 10, 0, ""},
		"without the tag":           {3, 0, 3, 10, 0, "packets reach z.p0, but not in VLAN 200"},
		"without the tag, and LACP": {13, 0, 53, 10, 2, "packets reach z.p0, but not in VLAN 200"},
		"the switch has no VLAN":    {3, 0, 2, 10, 0, "nothing of VLAN 200 reaches z.p0, while other packets do: a switch between does not carry this VLAN"},
		"only LACP may arrive":      {13, 0, 52, 10, 2, "nothing of VLAN 200 reaches z.p0, while other packets do: a switch between does not carry this VLAN, or takes the tag away"},
		"nothing arrives now":       {3, 0, 0, 10, 2, "nothing reaches z.p0 now, and it has received packets before: the cable is dead in that direction, or a switch between does not carry VLAN 200"},
		"nothing has ever arrived":  {3, 0, 0, 0, 0, "z.p0 has never received a packet"},
	} {
		before := ports{port: {RxPackets: c.earlier}}
		after := ports{a.ref(): {TxPackets: c.sent}, z.ref(): {RxPackets: c.inside}, port: {RxPackets: c.earlier + c.arrived}}
		z := z
		z.lacp = c.lacp
		if got := astray(before, after, a, z, 3*time.Second); !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := astray(ports{port: {RxPackets: 1}}, ports{a.ref(): {TxPackets: 3}, port: {RxPackets: 4}}, a, vlan("z", 201), 0); got != "a.v sends in VLAN 200, and z.v is VLAN 201" {
		t.Errorf("two IDs: %q", got)
	}
	if got := astray(ports{port: {RxPackets: 1}}, ports{a.ref(): {TxPackets: 3}, port: {RxPackets: 2}}, a, vlan("z", 201), 0); !strings.HasPrefix(got, "nothing of VLAN 201 reaches z.p0") {
		t.Errorf("two IDs, of which nothing arrives: %q", got)
	}
}

// TestOwnMembersAreNotAnotherPort: what a bond received, its members received; they are no evidence of swapped cables.
func TestOwnMembersAreNotAnotherPort(t *testing.T) {
	z := side{host: "z", nic: "b0", under: []fabric.NICRef{{Host: "z", NIC: "p0"}}}
	after := ports{{Host: "z", NIC: "p0"}: {RxPackets: 50}}
	if got := elsewhere(ports{}, after, z, minimum{packets: 10}); got != "" {
		t.Errorf("a member of the bond: %q", got)
	}
	z.under = nil
	if got := elsewhere(ports{}, after, z, minimum{packets: 10}); !strings.Contains(got, "they arrived at z.p0") {
		t.Errorf("another port: %q", got)
	}
}

// vlanOnBond is the fabric of two cables whose first NICs are VLANs on a bond of one member.
func vlanOnBond() (*wires, *fabric.Fabric) {
	w, f := newWires(), two()
	for _, h := range f.Hosts {
		ref := func(nic string) fabric.NICRef { return fabric.NICRef{Host: h.Name, NIC: nic} }
		h.NICs[0].VLAN = &fabric.VLAN{On: ref("b0"), ID: 200}
		h.NICs = append(h.NICs, &fabric.NIC{Name: "b0", Host: h.Name, Netdev: "b0", Bond: &fabric.Bond{Mode: lacpMode, NICs: []fabric.NICRef{ref("p0")}}},
			&fabric.NIC{Name: "p0", Host: h.Name, Netdev: "p0"})
		s := w.snaps[h.Name]
		s.Links[0].VLAN = &host.VLAN{ID: 200}
		s.Links = append(s.Links,
			host.Link{Index: 9, Name: "b0", Up: true, Carrier: true, MAC: "mac of " + h.Name, LACP: &host.LACP{Aggregator: 1, Partner: "mac of " + peer(h.Name)},
				Bond: &host.Bond{Mode: lacpMode, XmitHash: "layer3+4"}},
			host.Link{Index: 10, Name: "p0", Up: true, Carrier: true, Master: 9, Member: &host.Member{Works: true, Aggregator: 1}})
		for _, n := range []string{"b0", "p0"} {
			w.counters[h.Name+n] = &probe.Counters{RxPackets: 7}
		}
	}
	return w, f
}

// TestABondBelowAVLANIsChecked, once for each host, though only the VLAN stands in a link.
func TestABondBelowAVLANIsChecked(t *testing.T) {
	w, f := vlanOnBond()
	got := map[Item]int{}
	for _, r := range measure(t, f, w, Options{}) {
		if r.Check != CheckBond {
			continue
		}
		got[r.Item]++
		if want := map[Item]Verdict{BondMembers: Pass, LACPPartner: Pass, MemberLoad: Skip}[r.Item]; r.Verdict != want || r.Subject.NIC != "b0" {
			t.Errorf("%+v", r)
		}
	}
	if got[BondMembers] != 2 || got[LACPPartner] != 2 || got[MemberLoad] != 2 {
		t.Errorf("results: %v", got)
	}
}

// TestALostVLANIsNamedByThePing: the packets arrive at the bond below. Beside LACP, which sends packets of its own, they may be those.
func TestALostVLANIsNamedByThePing(t *testing.T) {
	for mode, want := range map[string]string{"balance-xor": "packets reach b.b0, but not in VLAN 200", lacpMode: "does not carry this VLAN, or takes the tag away"} {
		w, f := vlanOnBond()
		for _, h := range f.Hosts {
			h.NICs[len(h.NICs)-2].Bond.Mode = mode
		}
		w.answers = false
		w.carries = func(from, netdev string) (string, string, string) {
			if netdev == "eth0" {
				return netdev, peer(from), "b0"
			}
			return netdev, peer(from), netdev
		}
		if got := failed(measure(t, f, w, Options{Only: []Check{CheckPing}})); !strings.Contains(got, want) {
			t.Errorf("%s: %s", mode, got)
		}
	}
}

// TestBondsAreWatchedOnce, those of tested paths alone, unless the check is not asked for. At a direct link, the other end's bond is the partner.
func TestBondsAreWatchedOnce(t *testing.T) {
	w, f := vlanOnBond()
	h := f.Hosts[0]
	h.NICs[1].VLAN = &fabric.VLAN{On: h.NICs[0].VLAN.On, ID: 201} // a second path over the same bond
	results := func(o Options) (n map[string]int, out []Result) {
		n = map[string]int{}
		for _, r := range measure(t, f, w, o) {
			if r.Check == CheckBond {
				n[r.Host+" "+string(r.Item)]++
				out = append(out, r)
			}
		}
		return n, out
	}
	if n, _ := results(Options{}); len(n) != 6 || n["a members"] != 1 || n["a lacp_partner"] != 1 {
		t.Errorf("each bond has each item once: %v", n)
	}
	if n, _ := results(Options{Only: []Check{CheckPing}}); len(n) != 0 {
		t.Errorf("the check is not asked for: %v", n)
	}
	w.snaps["b"].Links[len(w.snaps["b"].Links)-2].MAC = "another"
	if _, out := results(Options{}); !slices.ContainsFunc(out, func(r Result) bool {
		return r.Item == LACPPartner && r.Host == "a" && r.Verdict == Fail && r.Wanted == "another"
	}) {
		t.Errorf("the partner of a direct link is another system: %+v", out)
	}
	for _, l := range f.Links { // the same through a switch: who answers there is not known
		f.Networks = append(f.Networks, &fabric.Network{Name: l.Name, Members: l.Endpoints, Validate: l.Validate})
	}
	links := f.Links
	f.Links = nil
	if _, out := results(Options{}); len(out) != 6 || slices.ContainsFunc(out, func(r Result) bool { return r.Verdict == Fail }) {
		t.Errorf("a switch is the partner: %+v", out)
	}
	f.Links, f.Networks = links, nil
	for _, h := range f.Hosts {
		h.NICs[2].Bond.Mode = "active-backup"
	}
	if n, _ := results(Options{}); len(n) != 4 || n["a lacp_partner"] != 0 {
		t.Errorf("a bond without LACP has no partner: %v", n)
	}
	reads := 0
	on(w.fake, probe.ReadCounters, func(ctx context.Context, h, netdev string) (probe.Counters, error) {
		if reads++; netdev == "p0" && reads <= 2 { // before anything is sent
			return probe.Counters{}, errors.New("no such counters")
		}
		return w.readCounters(ctx, h, netdev)
	})
	if _, out := results(Options{}); !slices.ContainsFunc(out, func(r Result) bool {
		return r.Item == MemberLoad && r.Verdict == Warn && r.Unmeasured && strings.Contains(r.Cause, "no such counters")
	}) {
		t.Errorf("counters that could not be read before: %+v", out)
	}
}
