package netif

import (
	"errors"
	"net/netip"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/resource/kindtest"
)

// deviceHost is a freshHost with three more veth pairs, g0 to g2, that are up with their peers. It skips the test if the kernel makes no bonds
// and VLANs: the tests of the labs run them in virtual machines.
func deviceHost(t *testing.T) host.Host {
	t.Helper()
	h := freshHost(t)
	for _, kind := range []string{KindBond, KindVLAN} {
		below, data := 0, []attr{{bondMode, []byte{1}}}
		if kind == KindVLAN {
			below, data = linkNamed(t, h, "ff0").Index, []attr{{vlanID, []byte{9, 0}}}
		}
		err := makeDevice(h, "try", kind, below, 0, data)
		if errors.Is(err, syscall.EOPNOTSUPP) {
			t.Skipf("the kernel of this machine has no %s devices; a lab of virtual machines runs this test (e2e)", kind)
		}
		must(t, err)
		must(t, removeDevice(t.Context(), h, linkNamed(t, h, "try")))
	}
	for _, name := range []string{"g0", "g1", "g2"} {
		must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: name + "x"}))
		must(t, h.SetUp(linkNamed(t, h, name).Index, true))
		must(t, h.SetUp(linkNamed(t, h, name+"x").Index, true))
	}
	return h
}

func linkNamed(t *testing.T, h host.Host, name string) host.Link {
	t.Helper()
	links, err := h.Links(t.Context())
	must(t, err)
	return linkOf(links, name)
}

// lacpState matches the states of LACP, which change by themselves, and a counter.
var lacpState = regexp.MustCompile(`(ad_(actor|partner)_oper_port_state(_str)?|link_failure_count) \S+`)

// picture is what ip(8) shows of all links, addresses and routes, without counters, indexes and what changes by itself.
func picture(t *testing.T) string {
	t.Helper()
	var out []string
	for _, args := range [][]string{{"-d", "link"}, {"addr"}, {"route", "show", "table", "all"}, {"-6", "route", "show", "table", "all"}} {
		text, err := exec.Command("ip", args...).Output()
		must(t, err)
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, "valid_lft") {
				continue
			}
			fields := slices.DeleteFunc(strings.Fields(lacpState.ReplaceAllString(line, "")), func(f string) bool {
				return strings.HasSuffix(f, ":") && strings.Trim(f, "0123456789:") == "" || strings.Contains(f, "@if") || strings.HasPrefix(f, "nexthop")
			})
			out = append(out, strings.Join(fields, " "))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

func members3(names ...string) (out []facts.Selector) {
	for _, n := range names {
		out = append(out, facts.Selector{Netdev: n})
	}
	return out
}

func lacp(names ...string) DeviceSpec {
	one := 1
	return DeviceSpec{Name: "b0", MTU: 4200, Bond: &BondSpec{Members: members3(names...), Mode: "802.3ad", LACPRate: "fast", XmitHash: "layer3+4",
		MIIMon: 100, MinLinks: &one}}
}

// TestKernelMakesBondsAndVLANs: each kind conforms, and the next plan after a change is empty.
func TestKernelMakesBondsAndVLANs(t *testing.T) {
	h := deviceHost(t)
	must(t, h.AddAddr(host.Addr{Index: linkNamed(t, h, "g0").Index, Prefix: netip.MustParsePrefix("10.9.0.1/24")}))
	before := ""
	equal := func() bool {
		now := settled(t)
		if now != before {
			t.Log(diffLines(before, now))
		}
		return now == before
	}
	before = settled(t)
	kindtest.Conform(t, kindtest.Case{Kinds: Kinds(), Kind: KindBond, Host: h, Spec: lacp("g0", "g1"), Equal: equal})
	before = settled(t)
	storage := DeviceSpec{Name: "storage", MTU: 1400, VLAN: &VLANSpec{On: facts.Selector{Netdev: "g2"}, ID: 200, PriorityMap: map[int]int{4: 3}}}
	kindtest.Conform(t, kindtest.Case{Kinds: Kinds(), Kind: KindVLAN, Host: h, Spec: storage, Equal: equal})

	converge(t, h, KindBond, lacp("g0", "g1"))
	on := storage
	on.VLAN = &VLANSpec{On: facts.Selector{Netdev: "b0"}, ID: 200, PriorityMap: map[int]int{4: 3}}
	converge(t, h, KindVLAN, on)
	if l := linkNamed(t, h, "b0"); l.MTU != 4200 || len(members(linksOf(t, h), l.Index)) != 2 || l.Bond.LACPRate != "fast" {
		t.Errorf("%+v", l)
	}
	if l := linkNamed(t, h, "g0"); l.MTU != 4200 || !l.Up {
		t.Errorf("%+v", l)
	}

	// Changes: a member less and another more, an option that needs the bond down, another mode, another map, another ID, and another parent.
	must(t, h.SetUp(linkNamed(t, h, "b0").Index, true))
	changed := lacp("g2", "g1")
	changed.Bond.LACPRate, changed.Bond.XmitHash = "slow", "layer2+3"
	converge(t, h, KindBond, changed)
	changed.Bond.Mode, changed.Bond.LACPRate, changed.Bond.MinLinks = "active-backup", "", nil
	converge(t, h, KindBond, changed)
	on.VLAN.PriorityMap = map[int]int{5: 5}
	converge(t, h, KindVLAN, on)
	must(t, h.SetUp(linkNamed(t, h, "storage").Index, true))
	for _, p := range []string{"10.8.0.1/24", "fd08::1/64"} {
		must(t, h.AddAddr(host.Addr{Index: linkNamed(t, h, "storage").Index, Prefix: netip.MustParsePrefix(p)}))
	}
	sysctls := map[string]string{"net/ipv4/conf/storage/arp_ignore": "2", "net/ipv6/conf/storage/addr_gen_mode": "1", "net/ipv6/neigh/storage/gc_stale_time": "90"}
	for key, value := range sysctls {
		must(t, h.SetSysctl(key, value))
	}
	on.VLAN.ID = 201
	converge(t, h, KindVLAN, on)
	on.VLAN.On.Netdev = "g0"
	converge(t, h, KindVLAN, on)
	for key, value := range sysctls {
		if now, err := h.Sysctl(t.Context(), key); err != nil || now != value {
			t.Errorf("%s of a VLAN that was made again is %q instead of %q (%v)", key, now, value, err)
		}
	}
	if now := settled(t); !strings.Contains(now, "10.8.0.1/24") || !strings.Contains(now, "fd08::1/64") {
		t.Errorf("a VLAN that was made again lost its addresses: %s", now)
	}
	if b, v := linkNamed(t, h, "b0"), linkNamed(t, h, "storage"); !b.Up || !v.Up || b.Bond.Mode != "active-backup" || v.VLAN.Egress[5] != 5 || len(v.VLAN.Egress) != 1 {
		t.Errorf("%+v, %+v", b, v)
	}
}

func linksOf(t *testing.T, h host.Host) []host.Link {
	t.Helper()
	links, err := h.Links(t.Context())
	must(t, err)
	return links
}

// settled is the picture once it does not change any more.
func settled(t *testing.T) string {
	t.Helper()
	was := picture(t)
	for range 100 {
		must(t, exec.Command("sleep", "0.1").Run())
		now := picture(t)
		if now == was && !strings.Contains(now, "tentative") {
			return now
		}
		was = now
	}
	t.Fatal("the host does not come to rest")
	return ""
}

func diffLines(a, b string) string {
	var out []string
	la, lb := strings.Split(a, "\n"), strings.Split(b, "\n")
	for _, l := range la {
		if !slices.Contains(lb, l) {
			out = append(out, "- "+l)
		}
	}
	for _, l := range lb {
		if !slices.Contains(la, l) {
			out = append(out, "+ "+l)
		}
	}
	return strings.Join(out, "\n")
}

// TestKernelRestoresARemovedBond: after a destroy that is reverted, a bond with members, a VLAN of ours and one of somebody else, their addresses
// and routes are as before.
func TestKernelRestoresARemovedBond(t *testing.T) {
	h := deviceHost(t)
	converge(t, h, KindBond, lacp("g0", "g1"))
	on := DeviceSpec{Name: "storage", VLAN: &VLANSpec{On: facts.Selector{Netdev: "b0"}, ID: 200, PriorityMap: map[int]int{4: 3}}}
	converge(t, h, KindVLAN, on)
	run(t, `
		link add link b0 name theirs type vlan id 7
		link set b0 up
		link set storage up
		link set theirs up
		addr add 10.9.0.1/24 dev b0
		addr add 10.8.0.1/24 dev storage
		addr add fd07::1/64 dev theirs
		route add 10.7.0.0/16 via 10.9.0.2
		route add default via 10.8.0.2 table 77
		rule add from 10.8.0.1 lookup 77 priority 77
	`)
	before := settled(t)
	atoms := []resource.Atom{"bond b0 device", "bond b0 member g0", "bond b0 member g1", "vlan storage device", "nic b0 mtu", "nic storage state"}
	part, err := restorer{}.Save(t.Context(), h, atoms)
	must(t, err)
	snap, err := resource.Gather(t.Context(), h, nic{})
	must(t, err)
	must(t, vlan{}.ApplyUndo(t.Context(), h, snap, "vlan storage device", ""))
	must(t, bond{}.ApplyUndo(t.Context(), h, snap, "bond b0 device", ""))
	if l := linkNamed(t, h, "g0"); !l.Up || l.Master != 0 || l.MTU != 1500 {
		t.Errorf("a released member: %+v", l)
	}
	now, err := restorer{}.Again(t.Context(), h, part)
	must(t, err)
	if _, err := (restorer{}).Items(now); err != nil {
		t.Error(err)
	}
	if left, err := (restorer{}).Restore(t.Context(), h, part); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
	if now := settled(t); now != before {
		t.Error(diffLines(before, now))
	}
}

// TestKernelRestoresAMemberWithItsAddresses: a bond over a NIC with addresses and routes that is reverted gives all of them back.
func TestKernelRestoresAMemberWithItsAddresses(t *testing.T) {
	h := deviceHost(t)
	run(t, `
		addr add 10.9.0.1/24 dev g0
		addr add fd09::1/64 dev g0
		route add 10.7.0.0/16 via 10.9.0.2
		-6 route add fd08::/64 via fd09::2
		neigh add 10.9.0.3 lladdr 02:00:00:00:00:09 dev g0 nud permanent
	`)
	before := settled(t)
	want := lacp("g0", "g1")
	d, kind, raw := plan(t, h, KindBond, want)
	var atoms []resource.Atom
	for _, c := range d.Changes {
		if c.Atom != "" {
			atoms = append(atoms, c.Atom)
		}
	}
	part, err := restorer{}.Save(t.Context(), h, append(atoms, "nic b0 address 10.9.0.1/24", "nic g0 address 10.9.0.1/24"))
	must(t, err)
	must(t, kind.Apply(t.Context(), h, raw, d.Changes))
	must(t, h.AddAddr(host.Addr{Index: linkNamed(t, h, "b0").Index, Prefix: netip.MustParsePrefix("10.9.0.1/24")}))
	if left, err := (restorer{}).Restore(t.Context(), h, part); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
	if now := settled(t); now != before {
		t.Error(diffLines(before, now))
	}
}
