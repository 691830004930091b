package providers

import (
	"context"
	"encoding/binary"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2/hclwrite"

	"github.com/fabricform/fabricform/config"
	"github.com/fabricform/fabricform/draft"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/host/dcb"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/resource/kindtest"
)

// running is a host that somebody configured by hand.
type running struct {
	host.Reader
	links  []host.Link
	addrs  []host.Addr
	routes []host.Route
	rules  []host.Rule
	files  kindtest.Files

	sysctls map[string]string  // below /proc/sys
	classes map[string]traffic // of NICs with DCB, by name
	kept    int                // actions of the first plan that keep what is there over a reboot
}

// traffic is how a NIC sorts packets: DSCPs with their priorities, the priorities with PFC, and its shares. The rest is as mlx5's driver
// sets it up.
type traffic struct {
	dscps  map[int]int
	pfc    uint8
	shares map[int]int // by traffic class, which has the number of the priority; nil: an algorithm of the vendor
}

// DCB answers as net/dcb/dcbnl.c does.
func (h *running) DCB(_ context.Context, m []byte) ([]byte, error) {
	name, _, err := dcb.Find(m[4:], dcb.AttrName)
	c, has := h.classes[strings.TrimRight(string(name), "\x00")]
	if !has || err != nil {
		return nil, host.ErrUnsupported
	}
	out := []byte{0, m[1], 0, 0}
	if m[1] == dcb.CmdGetDCBX {
		return append(out, dcb.Attribute(dcb.AttrDCBX, []byte{dcb.DCBXHost | dcb.DCBXCEE | dcb.DCBXIEEE})...), nil
	}
	ets, pfc := make([]byte, dcb.SizeETS), make([]byte, dcb.SizePFC)
	ets[dcb.ETSCap], pfc[dcb.PFCCap], pfc[dcb.PFCMask] = dcb.Priorities, dcb.Priorities, c.pfc
	for i := range dcb.Priorities {
		ets[dcb.ETSTSA+i], ets[dcb.ETSShares+i], ets[dcb.ETSClasses+i] = dcb.TSAVendor, 100, uint8(i)
		if c.shares != nil {
			ets[dcb.ETSTSA+i], ets[dcb.ETSShares+i] = dcb.TSAETS, uint8(c.shares[i])
		}
	}
	var apps []byte
	for _, dscp := range slices.Sorted(maps.Keys(c.dscps)) {
		a := dcb.OfDSCP(dscp, c.dscps[dscp])
		apps = append(apps, dcb.Attribute(dcb.AppKind(a.Selector), binary.NativeEndian.AppendUint16([]byte{a.Selector, a.Priority}, a.Protocol))...)
	}
	return append(out, dcb.Attribute(dcb.AttrIEEE|dcb.Nested, slices.Concat(dcb.Attribute(dcb.IEEEETS, ets), dcb.Attribute(dcb.IEEEPFC, pfc),
		dcb.Attribute(dcb.IEEEApps|dcb.Nested, apps)))...), nil
}

// Pause says that a NIC with DCB has no pause frames, which exclude PFC.
func (h *running) Pause(_ context.Context, index int) ([]byte, error) {
	if _, has := h.classes[h.links[index-1].Name]; !has {
		return nil, host.ErrUnsupported
	}
	var out []byte
	for _, kind := range []uint16{3, 4} { // ETHTOOL_A_PAUSE_RX and _TX of include/uapi/linux/ethtool_netlink.h
		out = append(out, dcb.Attribute(kind, []byte{0})...)
	}
	return out, nil
}

func (h *running) Links(context.Context) ([]host.Link, error)   { return h.links, nil }
func (h *running) Addrs(context.Context) ([]host.Addr, error)   { return h.addrs, nil }
func (h *running) Routes(context.Context) ([]host.Route, error) { return h.routes, nil }
func (h *running) Rules(context.Context) ([]host.Rule, error)   { return h.rules, nil }
func (*running) Dump(context.Context, uint16) ([][]byte, error) { return nil, nil } // routes have nothing that a host.Route does not hold
func (h *running) ReadFile(ctx context.Context, path string) ([]byte, error) {
	return h.files.ReadFile(ctx, path)
}
func (h *running) ReadDir(ctx context.Context, path string) ([]string, error) {
	return h.files.ReadDir(ctx, path)
}
func (*running) Readlink(context.Context, string) (string, error) { return "", fs.ErrNotExist }
func (h *running) Sysctl(_ context.Context, path string) (string, error) {
	if value, has := h.sysctls[path]; has {
		return value, nil
	}
	return "", fs.ErrNotExist
}
func (*running) Records(context.Context) (map[string][]byte, error) { return nil, nil }
func (*running) Stat(_ context.Context, path string) (host.FileStat, error) {
	if slices.Contains([]string{"/run/systemd/system", "/", "/usr", "/usr/local", "/usr/local/lib"}, path) {
		return host.FileStat{Mode: fs.ModeDir | 0o755}, nil
	}
	return host.FileStat{}, fs.ErrNotExist
}

func (*running) Inquire(context.Context, string, ...string) (host.Answer, error) {
	return host.Answer{}, host.ErrNoProgram
}

// add adds a device with its addresses, and returns its index.
func (h *running) add(l host.Link, addresses ...string) int {
	l.Index = len(h.links) + 1
	if l.MAC == "" {
		l.MAC = fmt.Sprintf("02:00:00:00:00:%02x", l.Index)
	}
	h.links = append(h.links, l)
	for _, a := range addresses {
		h.addrs = append(h.addrs, host.Addr{Index: l.Index, Prefix: netip.MustParsePrefix(a)})
	}
	return l.Index
}

// InLab keeps the files for a reboot, also where the test itself runs in a namespace.
func (*running) InLab() bool { return false }

// imported imports the host, loads the files, and fails unless its plan is empty. With persist, the plan may keep what is there over a reboot.
func (h *running) imported(t *testing.T, persist bool) (text string, d *resource.Draft) {
	t.Helper()
	snap, err := Kinds().Gather(t.Context(), h, resource.Query{Connection: facts.Connection{None: true}})
	if err != nil {
		t.Fatal(err)
	}
	d = &resource.Draft{Snapshot: snap, Persist: persist}
	if err = Kinds().Import(t.Context(), h, d); err != nil {
		t.Fatal(err)
	}
	raw := draft.Write(draft.Input{Fabric: "imported", Hosts: []draft.Host{{Name: "a", Asked: "a", Model: d.Host, Remarks: d.Remarks}}})
	text = string(raw)
	const path = "/nowhere/fabric.hcl"
	f, _, diags := config.Load(path, config.Options{Overlay: map[string][]byte{path: raw}})
	if diags.HasErrors() {
		t.Fatalf("%v in\n%s", diags, text)
	}
	if formatted := string(hclwrite.Format(raw)); formatted != text {
		t.Errorf("fmt would change it to\n%s", formatted)
	}
	want := Desired(f, f.Hosts[0])
	now, err := Kinds().Gather(t.Context(), h, resource.Query{Connection: facts.Connection{None: true}, Resources: want})
	if err != nil {
		t.Fatal(err)
	}
	p := planner.Make(f.Name, Kinds(), []planner.HostInput{{Name: "a", Snapshot: now, Resources: want}})
	for _, x := range p.Hosts[0].Actions {
		if persist && slices.Contains([]string{"persist", "program"}, x.Resource.Addr.Kind) {
			h.kept++
			continue
		}
		t.Errorf("the plan has %s: %+v", x.Resource.Addr, x.Changes)
	}
	for _, problem := range p.Hosts[0].Problems {
		t.Errorf("the plan has the problem %+v", problem)
	}
	if t.Failed() {
		t.Fatal(text)
	}
	return text, d
}

// somehow makes a class of traffic that a block can say, and what of it the block has: its priority, its DSCP, and whether PFC is on.
func somehow(r *rand.Rand) (c traffic, says string) {
	p := 1 + r.IntN(7)
	dscp := p<<3 + r.IntN(8)
	shares := func() map[int]int {
		if r.IntN(2) == 0 {
			return nil
		}
		return map[int]int{0: 40, p: 60}
	}
	switch r.IntN(3) {
	case 0:
		return traffic{dscps: map[int]int{dscp: p}, pfc: 1 << p, shares: shares()}, fmt.Sprintf("%d %d true", p, dscp)
	case 1:
		return traffic{pfc: 1 << p, shares: shares()}, fmt.Sprintf("%d none true", p) // by the PCP
	}
	return traffic{dscps: map[int]int{dscp: p}}, fmt.Sprintf("%d %d false", p, dscp)
}

// says is what a class says as somehow returns it.
func says(q *fabric.QoS) string {
	if q == nil {
		return ""
	}
	dscp := "none"
	if q.DSCP != nil {
		dscp = fmt.Sprint(*q.DSCP)
	}
	return fmt.Sprintf("%d %s %v", *q.Priority, dscp, q.PFC != nil && *q.PFC)
}

// TestHandMadeHostsPlanEmpty: 200 hosts with random bonds, VLANs, classes of traffic and limits of locked memory, which files can declare, are
// imported as they are; every second one with -persist, whose plan has nothing but files.
func TestHandMadeHostsPlanEmpty(t *testing.T) {
	kept := 0
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 22))
		pick := func(of ...string) string { return of[r.IntN(len(of))] }
		mtu := func() int { return []int{1500, 4200, 9000}[r.IntN(3)] }
		h := &running{files: kindtest.Files{"/sys/fs/cgroup/system.slice/systemd-networkd.service/pids.max": "", "/proc/self/exe": "ELF"}, classes: map[string]traffic{}}
		h.add(host.Link{Name: "lo", Loopback: true, Up: true, MTU: 65536})
		bonds, vlans := 0, 0
		class, said := somehow(r)
		sorted := map[string]string{} // what is said of the class of each NIC
		memlock, persist := pick("", "unlimited", "1048576"), r.IntN(2) == 0
		if memlock != "" {
			h.files["/etc/security/limits.d/hand.conf"] = "* - memlock " + strings.Replace(memlock, "1048576", "1024", 1) + "\n"
		}
		for group := range 1 + r.IntN(3) {
			of, low, sorts := 0, mtu(), r.IntN(2) == 0
			if r.IntN(2) == 0 {
				mode := pick("balance-rr", "active-backup", "balance-xor", "broadcast", "802.3ad", "balance-tlb", "balance-alb")
				bonds++
				of = h.add(host.Link{Name: pick("bond", "b.", "rail") + fmt.Sprint(group), Kind: "bond", Up: true, MTU: low, Bond: &host.Bond{Mode: mode,
					LACPRate: pick("slow", "fast"), XmitHash: pick("layer2", "layer3+4", "vlan+srcmac"), MIIMon: 1 + r.IntN(200), MinLinks: r.IntN(2)}})
			}
			carrier := of
			for i := range 1 + r.IntN(3) {
				at := h.add(host.Link{Name: fmt.Sprintf("eth%d%d", group, i), PCI: fmt.Sprintf("0000:%02x:00.0", r.IntN(250)), Master: of, Up: true, MTU: low, Driver: "mlx5_core"})
				if carrier == 0 {
					carrier = at
				}
				sorted[h.links[at-1].Name] = ""
				if sorts {
					h.classes[h.links[at-1].Name], sorted[h.links[at-1].Name] = class, said
				}
			}
			if of != 0 {
				sorted[h.links[of-1].Name] = sorted[fmt.Sprintf("eth%d0", group)]
			}
			if r.IntN(2) == 0 {
				h.addrs = append(h.addrs, host.Addr{Index: carrier, Prefix: netip.MustParsePrefix(fmt.Sprintf("10.%d.0.1/24", group))})
			}
			for i := range r.IntN(3) {
				vlans++
				v := host.Link{Name: fmt.Sprintf("%s.%d", h.links[carrier-1].Name, 100+i), Kind: "vlan", Parent: carrier, Up: r.IntN(4) > 0, MTU: min(low, mtu()),
					VLAN: &host.VLAN{ID: 100 + i, Protocol: "802.1q", Egress: map[int]int{r.IntN(8): r.IntN(8)}}}
				subnet := fmt.Sprintf("10.%d.%d", group, 10+i)
				at := h.add(v, subnet+".1/24")
				sorted[v.Name] = sorted[h.links[carrier-1].Name]
				if v.Up && r.IntN(2) == 0 {
					table := 100 + 10*group + i
					h.routes = append(h.routes, host.Route{Table: table, Dst: netip.MustParsePrefix("10.200.0.0/16"), Via: netip.MustParseAddr(subnet + ".254"), OutIndex: at, Protocol: 4, Type: 1},
						host.Route{Table: 254, Dst: netip.MustParsePrefix(fmt.Sprintf("10.%d.0.0/16", 100+10*group+i)), Via: netip.MustParseAddr(subnet + ".254"), OutIndex: at, Protocol: 3, Type: 1})
					h.rules = append(h.rules, host.Rule{Family: 2, Priority: 10000 + table, Table: table, From: netip.MustParsePrefix(subnet + ".1/32")})
				}
			}
		}
		text, d := h.imported(t, persist)
		kept += h.kept
		if got := strings.Count(text, "\n  bond "); got != bonds {
			t.Fatalf("seed %d: %d bonds, want %d; %+v in\n%s", seed, got, bonds, d.Remarks, text)
		}
		if got := strings.Count(text, "\n  vlan "); got != vlans {
			t.Fatalf("seed %d: %d VLANs, want %d; %+v in\n%s", seed, got, vlans, d.Remarks, text)
		}
		for _, l := range h.links { // a new VLAN would have the MTU of what carries it
			if n := d.NIC(l.Index); l.Kind == "vlan" && l.MTU != h.links[l.Parent-1].MTU && n.MTU != l.MTU {
				t.Fatalf("seed %d: the MTU of %s is %d, want %d", seed, l.Name, n.MTU, l.MTU)
			}
		}
		for _, n := range d.Host.NICs {
			if got := says(n.QoS); got != sorted[n.Netdev] || n.Persist != persist {
				t.Fatalf("seed %d: the class of %s is %q, want %q; it is persistent: %v, want %v; %+v in\n%s", seed, n.Netdev, got, sorted[n.Netdev], n.Persist, persist, d.Remarks, text)
			}
		}
		if declared := strings.Contains(text, `memlock  = "`+memlock) || strings.Contains(text, `memlock = "`+memlock); memlock != "" && (d.Host.Memlock == memlock) != persist || declared != (memlock != "") {
			t.Fatalf("seed %d: memlock is %q, of the host it is %q, persistent: %v, in\n%s", seed, d.Host.Memlock, memlock, persist, text)
		}
		if len(d.Host.Policy) != len(h.rules) || len(d.Host.Routes) != len(h.rules) {
			t.Fatalf("seed %d: %d of %d rules, and %d routes in\n%s", seed, len(d.Host.Policy), len(h.rules), len(d.Host.Routes), text)
		}
	}
	if kept < 100 {
		t.Errorf("with -persist, only %d actions keep something", kept)
	}
}

// TestDevicesThatNoBlockMakesAreComments with the reason, and their parts stay NICs with an empty plan.
func TestDevicesThatNoBlockMakesAreComments(t *testing.T) {
	lacp := host.Bond{Mode: "802.3ad", LACPRate: "slow", XmitHash: "layer2", MIIMon: 100}
	bond := func(change func(b *host.Bond)) *host.Bond {
		b := lacp
		if change != nil {
			change(&b)
		}
		return &b
	}
	for name, c := range map[string]struct {
		make func(h *running) // beside eth0, whose index is 1, and eth1
		says string
	}{
		"no check of carriers": {func(h *running) {
			h.links[0].Master = h.add(host.Link{Name: "bond0", Kind: "bond", Up: true, MTU: 1500, Bond: bond(func(b *host.Bond) { b.MIIMon = 0 })})
		}, "bond0 is a bond that is not imported: its miimon is 0, and that of a bond block is from 1 to 10000: to import it, set it before, `ip link set bond0 type bond miimon 100`. If it has an arp_interval, that ends its checks by ARP"},
		"no members": {func(h *running) { h.add(host.Link{Name: "bond0", Kind: "bond", MTU: 1500, Bond: bond(nil)}) }, "it has no members"},
		"a mode of a newer kernel": {func(h *running) {
			h.links[0].Master = h.add(host.Link{Name: "bond0", Kind: "bond", Up: true, MTU: 1500, Bond: bond(func(b *host.Bond) { b.Mode = "7" })})
		}, `there is no mode "7" in a bond block`},
		"a member that is down": {func(h *running) {
			h.links[0].Up, h.links[0].MTU = false, 9000
			h.links[0].Master = h.add(host.Link{Name: "bond0", Kind: "bond", Up: true, MTU: 9000, Bond: bond(nil)})
		}, "its member eth0 is down"},
		"a member with an address": {func(h *running) {
			h.addrs = append(h.addrs, host.Addr{Index: 1, Prefix: netip.MustParsePrefix("10.0.0.1/24")})
			h.links[0].Master = h.add(host.Link{Name: "bond0", Kind: "bond", Up: true, MTU: 1500, Bond: bond(nil)})
		}, "its member eth0 has addresses of its own"},
		"a member with another MTU": {func(h *running) {
			h.links[0].Master = h.add(host.Link{Name: "bond0", Kind: "bond", Up: true, MTU: 9000, Bond: bond(nil)})
		}, "its MTU is 9000, and that of its member eth0 is 1500"},
		"a member that is a bridge": {func(h *running) {
			at := h.add(host.Link{Name: "bond0", Kind: "bond", Up: true, MTU: 1500, Bond: bond(nil)})
			h.add(host.Link{Name: "br0", Kind: "bridge", Up: true, MTU: 1500, Master: at})
		}, "its member br0 is not imported"},
		"more links than members": {func(h *running) {
			h.links[0].Master = h.add(host.Link{Name: "bond0", Kind: "bond", Up: true, MTU: 1500, Bond: bond(func(b *host.Bond) { b.MinLinks = 2 })})
		}, "its min_links is 2, but its number of members is 1"},
		"a service VLAN": {func(h *running) {
			h.add(host.Link{Name: "eth0.7", Kind: "vlan", Parent: 1, Up: true, MTU: 1500, VLAN: &host.VLAN{ID: 7, Protocol: "802.1ad"}})
		}, "eth0.7 is a vlan that is not imported: its protocol is 802.1ad, and that of a vlan block is 802.1q"},
		"a VLAN on a VLAN": {func(h *running) {
			at := h.add(host.Link{Name: "eth0.7", Kind: "vlan", Parent: 1, Up: true, MTU: 1500, VLAN: &host.VLAN{ID: 7, Protocol: "802.1q"}})
			h.add(host.Link{Name: "q", Kind: "vlan", Parent: at, Up: true, MTU: 1500, VLAN: &host.VLAN{ID: 8, Protocol: "802.1q"}})
		}, "q is a vlan that is not imported: eth0.7, which carries it, is a VLAN itself"},
		"a VLAN on a bridge": {func(h *running) {
			at := h.add(host.Link{Name: "br0", Kind: "bridge", Up: true, MTU: 1500})
			h.add(host.Link{Name: "v", Kind: "vlan", Parent: at, Up: true, MTU: 1500, VLAN: &host.VLAN{ID: 8, Protocol: "802.1q"}})
		}, "br0, which carries it, is not imported"},
		"a VLAN on a member": {func(h *running) {
			h.links[0].Master = h.add(host.Link{Name: "bond0", Kind: "bond", Up: true, MTU: 1500, Bond: bond(nil)})
			h.add(host.Link{Name: "v", Kind: "vlan", Parent: 1, Up: true, MTU: 1500, VLAN: &host.VLAN{ID: 8, Protocol: "802.1q"}})
		}, "bond0 is a bond that is not imported: its member eth0 carries VLAN v"},
		"a priority above 7": {func(h *running) {
			h.add(host.Link{Name: "v", Kind: "vlan", Parent: 1, Up: true, MTU: 1500, VLAN: &host.VLAN{ID: 8, Protocol: "802.1q", Egress: map[int]int{9: 1, 3: 4}}})
		}, "priority map 3:4 9:1: that of a vlan block has only the kernel's priorities from 0 to 7"},
		"a map of received packets": {func(h *running) {
			h.add(host.Link{Name: "v", Kind: "vlan", Parent: 1, Up: true, MTU: 1500, VLAN: &host.VLAN{ID: 8, Protocol: "802.1q"}})
			h.files = map[string]string{"/proc/net/vlan/v": "v  VID: 8\nDevice: eth0\nINGRESS priority mappings: 0:0  1:0  2:0  3:5  4:0  5:0  6:0 7:0\n EGRESS priority mappings: \n"}
		}, "v: ingress map 3:5: a vlan block has only the map of sent packets"},
		"an option that no block has": {func(h *running) {
			h.links[0].Master = h.add(host.Link{Name: "bond0", Kind: "bond", Up: true, MTU: 1500, Bond: bond(func(b *host.Bond) { b.Mode = "active-backup" })})
			h.files = map[string]string{"/sys/class/net/bond0/bonding/primary": "eth0\n", "/sys/class/net/bond0/bonding/ad_select": "stable 0\n"}
		}, "bond0: primary = eth0: a bond block does not have this option"},
	} {
		t.Run(name, func(t *testing.T) {
			h := &running{}
			h.add(host.Link{Name: "eth0", PCI: "0000:01:00.0", Up: true, MTU: 1500})
			h.add(host.Link{Name: "eth1", PCI: "0000:02:00.0", Up: true, MTU: 1500})
			c.make(h)
			if text, _ := h.imported(t, false); !strings.Contains(text, c.says) || strings.Count(text, "not imported")+strings.Count(text, "bond block does")+strings.Count(text, "vlan block has") == 0 {
				t.Errorf("%q is not in\n%s", c.says, text)
			}
		})
	}
}

// TestMembersOfABondHaveNoIPv6: what a network manager sets for a NIC before it becomes a member is no setting of the bond.
func TestMembersOfABondHaveNoIPv6(t *testing.T) {
	h := &running{sysctls: map[string]string{"net/ipv6/conf/default/addr_gen_mode": "0"}}
	at := h.add(host.Link{Name: "bond0", Kind: "bond", Up: true, MTU: 1500, Bond: &host.Bond{Mode: "802.3ad", LACPRate: "slow", XmitHash: "layer2", MIIMon: 100}})
	h.add(host.Link{Name: "eth0", PCI: "0000:01:00.0", Up: true, MTU: 1500, Master: at})
	h.add(host.Link{Name: "eth1", PCI: "0000:02:00.0", Up: true, MTU: 1500})
	for _, netdev := range []string{"bond0", "eth0", "eth1"} {
		h.sysctls["net/ipv6/conf/"+netdev+"/addr_gen_mode"] = "1"
	}
	h.sysctls["net/ipv4/conf/eth1/promote_secondaries"], h.sysctls["net/ipv4/conf/default/promote_secondaries"] = "1", "0" // by systemd-networkd
	h.sysctls["net/ipv4/conf/eth1/arp_ignore"], h.sysctls["net/ipv4/conf/default/arp_ignore"] = "1", "0"
	h.files = map[string]string{"/proc/sys/net/ipv4/conf/eth1/promote_secondaries": "", "/proc/sys/net/ipv4/conf/eth1/arp_ignore": ""}
	_, d := h.imported(t, false)
	if s := d.Host.NICs[1].Sysctl; len(s) != 1 || s["ipv4.conf.arp_ignore"] != "1" {
		t.Errorf("sysctls of eth1: %v", s)
	}
	var modes []string
	for _, n := range d.Host.NICs {
		modes = append(modes, n.Netdev+" "+n.IPv6LinkLocal)
	}
	if got := strings.Join(modes, ", "); got != "eth0 keep, eth1 none, bond0 none" {
		t.Error(got)
	}
}
