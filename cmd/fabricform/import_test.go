package main

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/cabling"
	"github.com/fabricform/fabricform/draft"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/resource"
)

// drafted is a host of a test: its NICs as "MTU ADDRESS…", which are eth0, eth1, … in this order.
func drafted(name string, nics ...string) draft.Host {
	h := draft.Host{Name: name, Asked: name, Model: &fabric.Host{}}
	for i, text := range nics {
		n := &fabric.NIC{Host: name, Name: fmt.Sprintf("rail%d", i), Netdev: fmt.Sprintf("eth%d", i), Up: true, AddressesSet: true, IPv6LinkLocal: "keep"}
		for j, word := range strings.Fields(text) {
			if j == 0 {
				_, _ = fmt.Sscan(word, &n.MTU)
				continue
			}
			n.Addresses = append(n.Addresses, netip.MustParsePrefix(word))
		}
		h.Model.NICs = append(h.Model.NICs, n)
	}
	return h
}

// ends are ports as "a0 b1": host a, eth0; host b, eth1.
func ends(text string) (out []cabling.End) {
	for _, word := range strings.Fields(text) {
		out = append(out, cabling.End{Host: word[:1], Netdevs: []string{"eth" + word[1:]}})
	}
	return out
}

// TestWhatNoLinkCanCarryStaysOnTheNICs: the files load and declare each NIC as it is on the host, whatever becomes of its link or network.
func TestWhatNoLinkCanCarryStaysOnTheNICs(t *testing.T) {
	for name, c := range map[string]struct {
		hosts    []draft.Host
		cables   []string
		segments []string
	}{
		"different MTUs with a subnet": {hosts: []draft.Host{drafted("a", "9000 10.1.0.1/30"), drafted("b", "1500 10.1.0.2/30")}, cables: []string{"a0 b0"}},
		"two cables in one subnet": {hosts: []draft.Host{drafted("a", "9000 10.1.0.1/24", "9000 10.1.0.3/24"), drafted("b", "9000 10.1.0.2/24", "9000 10.1.0.4/24")},
			cables: []string{"a0 b0", "a1 b1"}},
		"two cables with the same addresses": {hosts: []draft.Host{drafted("a", "9000 10.1.0.1/24", "9000 10.1.0.1/24"), drafted("b", "9000 10.1.0.2/24", "9000 10.1.0.2/24")},
			cables: []string{"a0 b0", "a1 b1"}},
		"different prefix lengths": {hosts: []draft.Host{drafted("a", "9000 10.1.0.1/24"), drafted("b", "9000 10.1.0.2/30")}, cables: []string{"a0 b0"}},
		"different subnets":        {hosts: []draft.Host{drafted("a", "9000 10.1.0.1/24"), drafted("b", "9000 10.2.0.1/24")}, cables: []string{"a0 b0"}},
		"one end without address":  {hosts: []draft.Host{drafted("a", "9000 10.1.0.1/24"), drafted("b", "9000")}, cables: []string{"a0 b0"}},
		"the same address twice":   {hosts: []draft.Host{drafted("a", "9000 10.1.0.1/24"), drafted("b", "9000 10.1.0.1/24")}, cables: []string{"a0 b0"}},
		"six cables, one of them odd": {hosts: []draft.Host{
			drafted("a", "9000 10.0.0.1/30", "9000 10.0.1.1/30", "9000 10.0.2.1/30", "9000 10.0.3.1/30", "9000 10.0.4.1/30", "9000 10.0.4.5/24"),
			drafted("b", "9000 10.0.0.2/30", "9000 10.0.1.2/30", "9000 10.0.2.2/30", "9000 10.0.3.2/30", "9000 10.0.4.2/30", "9000 10.0.4.6/24")},
			cables: []string{"a0 b0", "a1 b1", "a2 b2", "a3 b3", "a4 b4", "a5 b5"}},
		"a network with another MTU": {hosts: []draft.Host{drafted("a", "9000 10.1.0.1/24"), drafted("b", "9000 10.1.0.2/24"), drafted("c", "1500 10.1.0.3/24")},
			segments: []string{"a0 b0 c0"}},
		"a network with another subnet": {hosts: []draft.Host{drafted("a", "9000 10.1.0.1/24"), drafted("b", "9000 10.1.0.2/24"), drafted("c", "9000 10.2.0.3/24")},
			segments: []string{"a0 b0 c0"}},
		"a network with a host without address": {hosts: []draft.Host{drafted("a", "9000 10.1.0.1/24"), drafted("b", "9000 10.1.0.2/24"), drafted("c", "9000")},
			segments: []string{"a0 b0 c0"}},
		"two networks in one subnet": {hosts: []draft.Host{drafted("a", "9000 10.1.0.1/24", "9000 10.1.0.2/24"), drafted("b", "9000 10.1.0.3/24", "9000 10.1.0.4/24"), drafted("c", "9000 10.1.0.5/24", "9000 10.1.0.6/24")},
			segments: []string{"a0 b0 c0", "a1 b1 c1"}},
		"two NICs of a host in one network": {hosts: []draft.Host{drafted("a", "9000 10.1.0.1/24", "9000 10.1.0.2/24"), drafted("b", "9000 10.1.0.3/24", "9000 10.1.0.4/24")},
			segments: []string{"a0 a1 b0 b1"}},
	} {
		t.Run(name, func(t *testing.T) {
			in := draft.Input{Fabric: "k1", Hosts: c.hosts, Report: &cabling.Report{}}
			for _, text := range c.cables {
				e := ends(text)
				in.Report.Cables = append(in.Report.Cables, [2]cabling.End{e[0], e[1]})
			}
			for _, text := range c.segments {
				in.Report.Segments = append(in.Report.Segments, cabling.Segment{Ends: ends(text)})
			}
			f, text, left, err := draftFiles(filepath.Join(t.TempDir(), importedFile), in)
			if err != nil {
				t.Fatalf("%v\n%s", err, draft.Write(in))
			}
			t.Logf("left out: %v\n%s", left, text)
			if len(left) != strings.Count(string(text), "# Left out: ")+strings.Count(string(text), "addresses are left out (") || len(left) == 0 && len(f.Links) != len(c.cables) {
				t.Errorf("%d links of %d cables, left out: %v\n%s", len(f.Links), len(c.cables), left, text)
			}
		})
	}
}

// TestADifferenceFromTheHostIsNamed: with the attribute, and what the files and the host have.
func TestADifferenceFromTheHostIsNamed(t *testing.T) {
	in := draft.Input{Hosts: []draft.Host{drafted("a", "9000 10.1.0.1/24")}}
	declared := drafted("a", "1500 10.1.0.1/24").Model
	declared.Name = "a"
	err := asImported(&fabric.Fabric{Hosts: []*fabric.Host{declared}}, in)
	if err == nil || !strings.Contains(err.Error(), "would declare mtu of NIC a.rail0 as 1500, and the host has 9000; please report this") {
		t.Error(err)
	}
	declared.NICs[0].MTU, declared.NICs[0].Addresses = 9000, nil
	err = asImported(&fabric.Fabric{Hosts: []*fabric.Host{declared}}, in)
	if err == nil || !strings.Contains(err.Error(), "would declare addresses of NIC a.rail0 as [], and the host has [10.1.0.1/24]") {
		t.Error(err)
	}
	declared.NICs[0].Addresses = in.Hosts[0].Model.NICs[0].Addresses
	if err = asImported(&fabric.Fabric{Hosts: []*fabric.Host{declared}}, in); err != nil {
		t.Error(err)
	}
}

// TestAHostIsNamedOnce among those where something must be removed, also if two of its NICs need it.
func TestAHostIsNamedOnce(t *testing.T) {
	var in draft.Input
	for _, name := range []string{"a", "b"} {
		h := draft.Host{Name: name}
		for _, nic := range []string{"rail0", "rail1"} {
			h.Remarks = append(h.Remarks, resource.Remark{NIC: nic, Before: true, Text: "remove x"})
		}
		in.Hosts = append(in.Hosts, h)
	}
	if got := toDo(in); !slices.Equal(got, []string{"a, b: remove x"}) {
		t.Error(got)
	}
}

// TestWhatIsLeftOutIsNamedForPeople: a variable of NCCL by its name, with its host if others differ; of a NIC, its addresses.
func TestWhatIsLeftOutIsNamedForPeople(t *testing.T) {
	for key, want := range map[string]string{"link a-b-rail0": "link a-b-rail0", "nic gpu.one.rail0": "addresses of gpu.one.rail0", "env .NCCL_DEBUG": "NCCL_DEBUG", "env gpu.one.UCX_TLS": "UCX_TLS of host gpu.one"} {
		if got := leftOut(key); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestWhatExplainSaysOfNCCLIsAComment: notes, too, of what the files declare.
func TestWhatExplainSaysOfNCCLIsAComment(t *testing.T) {
	no := false
	f := &fabric.Fabric{Hosts: []*fabric.Host{{Name: "a"}}}
	in := draft.Input{Hosts: []draft.Host{{Name: "a", Asked: "a", Model: &fabric.Host{NCCL: fabric.NCCL{Write: &no, Env: map[string]string{"NCCL_IB_HCA": "mlx5", "NCCL_DEBUG": "WARN"}}}}}}
	deriveNCCL(f, &in, map[string]*facts.Snapshot{"a": {}})
	if len(in.NCCL) != 1 || !strings.HasPrefix(in.NCCL[0], "Prefix match: ") {
		t.Errorf("%q", in.NCCL)
	}
}

// TestAClassThatContradictsOthersIsLeftOut: NCCL has one class for all NICs of a process, and files with two would not load.
func TestAClassThatContradictsOthersIsLeftOut(t *testing.T) {
	yes := true
	class := func(dscp, priority int) *fabric.QoS {
		return &fabric.QoS{DSCP: &dscp, Priority: &priority, PFC: &yes, Trust: "dscp"}
	}
	in := draft.Input{Fabric: "f", Report: &cabling.Report{}}
	for i, name := range []string{"a", "b"} {
		h := draft.Host{Name: name, Asked: name, Model: &fabric.Host{}}
		for rail := range 2 {
			h.Model.NICs = append(h.Model.NICs, &fabric.NIC{Host: name, Name: fmt.Sprintf("rail%d", rail), Netdev: fmt.Sprintf("eth%d", rail), Up: true, Persist: true, IPv6LinkLocal: "keep",
				AddressesSet: true, Addresses: []netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("10.0.%d.%d/30", rail, i+1))}, QoS: class(26+14*rail, 3+2*rail)})
		}
		in.Hosts = append(in.Hosts, h)
	}
	for _, netdev := range []string{"eth0", "eth1"} {
		in.Report.Cables = append(in.Report.Cables, [2]cabling.End{{Host: "a", Netdevs: []string{netdev}}, {Host: "b", Netdevs: []string{netdev}}})
	}
	f, text, left, err := draftFiles("/nowhere/fabric.hcl", in)
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"a", "b"} {
		if q, other := f.Host(host).NIC("rail0").QoS, f.Host(host).NIC("rail1").QoS; q == nil || *q.DSCP != 26 || other != nil {
			t.Errorf("host %s: %+v, %+v in\n%s", host, q, other, text)
		}
	}
	if len(left) != 1 || !strings.HasPrefix(left[0], "qos lossless-2: Two classes for NCCL") || len(f.Links) != 2 || !strings.Contains(string(text), "# qos \"lossless-2\" {") {
		t.Errorf("%q, %d links in\n%s", left, len(f.Links), text)
	}
}

// randomModels is hosts on switches or, if there are two, with direct cables. They have rails, and many a bond, VLANs, and rules. One NIC
// may differ from the others, and one host may have no bond.
func randomModels(r *rand.Rand) draft.Input {
	sometimes := func(of int) bool { return r.IntN(of) == 0 }
	in := draft.Input{Fabric: "random", Report: &cabling.Report{}}
	hosts, rails := 1+r.IntN(6), 1+r.IntN(5)
	bonded, tagged, cabled, rules, dual := rails > 1 && !sometimes(3), sometimes(2), hosts == 2 && sometimes(2), sometimes(2), sometimes(3)
	odd, how := r.IntN(hosts+2), r.IntN(5)
	name := []string{"gpu%02d", "n%d", "node-%d.x", "%d"}[r.IntN(4)]
	ports := make([][]cabling.End, rails)
	for i := range hosts {
		h := draft.Host{Name: fmt.Sprintf(name, i+1), Asked: fmt.Sprintf(name, i+1), Model: &fabric.Host{}}
		bonded := bonded && (i != odd || how != 4)
		add := func(name, netdev string, net, mtu int) *fabric.NIC {
			n := &fabric.NIC{Name: name, Netdev: netdev, Host: h.Name, Up: true, IPv6LinkLocal: "keep", MTU: mtu, Persist: true}
			if net >= 0 {
				n.Addresses, n.AddressesSet = []netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("10.%d.0.%d/24", net, i+1))}, true
				if dual {
					n.Addresses = append(n.Addresses, netip.MustParsePrefix(fmt.Sprintf("fd00:%d::%d/64", net, i+1)))
				}
			}
			h.Model.NICs = append(h.Model.NICs, n)
			return n
		}
		for k := range rails {
			member, net := bonded && k < 2, 50+k
			if member {
				net = -1
			}
			n := add(fmt.Sprintf("rail%d", k), fmt.Sprintf("eth%d", k+1), net, 9000)
			if i == odd && k == rails-1 && !member {
				switch how {
				case 0:
					n.MTU = 1500
				case 1:
					n.Addresses, n.AddressesSet = nil, false
				case 2:
					n.Sysctl = map[string]string{"ipv4.conf.rp_filter": "2"}
				case 3:
					h.Remarks = append(h.Remarks, resource.Remark{NIC: n.Name, Text: "odd"})
				}
			}
			if rules && len(n.Addresses) > 0 {
				from, to := n.Addresses[r.IntN(len(n.Addresses))].Addr(), "10.200.0.0/16"
				if from.Is6() {
					to = "fd00:200::/64"
				}
				h.Model.Policy = append(h.Model.Policy, &fabric.PolicyRoute{Name: n.Name, Host: h.Name, NIC: fabric.NICRef{NIC: n.Name}, Table: 100 + k, Priority: 10100 + k,
					From: netip.PrefixFrom(from, from.BitLen()), Routes: []fabric.Route{{To: netip.MustParsePrefix(to)}}})
			}
			ports[k] = append(ports[k], cabling.End{Host: h.Asked, Netdevs: []string{n.Netdev}})
		}
		below := "rail0"
		if bonded {
			below = "bond0"
			add(below, below, 40, 9000).Bond = &fabric.Bond{NICs: []fabric.NICRef{{NIC: "rail0"}, {NIC: "rail1"}}, Mode: "802.3ad", MIIMon: 100}
		}
		if tagged {
			add("vlan200", below+".200", 41, 0).VLAN = &fabric.VLAN{On: fabric.NICRef{NIC: below}, ID: 200}
			h.Model.Routes = append(h.Model.Routes, &fabric.MainRoute{Name: "vlan200", Host: h.Name, NIC: fabric.NICRef{NIC: "vlan200"},
				Route: fabric.Route{To: netip.MustParsePrefix("10.77.0.0/16"), Via: netip.MustParseAddr("10.41.0.254")}})
		}
		in.Hosts = append(in.Hosts, h)
	}
	slices.SortFunc(in.Hosts, func(a, b draft.Host) int { return strings.Compare(a.Name, b.Name) })
	for k, all := range ports {
		switch {
		case cabled:
			in.Report.Cables = append(in.Report.Cables, [2]cabling.End{all[0], all[1]})
		case hosts > 1:
			in.Report.Segments = append(in.Report.Segments, cabling.Segment{Ends: all})
		}
		if bonded && k == 1 && !cabled && hosts > 1 { // both cables of a bond lead to one switch
			in.Report.Segments = []cabling.Segment{{Ends: slices.Concat(ports[0], all)}}
		}
	}
	return in
}

// TestFilesOfRandomModelsDeclareThem: the files declare the NICs, routes and rules as they are, and folded blocks say the same as single ones.
func TestFilesOfRandomModelsDeclareThem(t *testing.T) {
	short := 0
	for seed := range uint64(300) {
		in := randomModels(rand.New(rand.NewPCG(seed, 7)))
		f, text, left, err := draftFiles("/nowhere/fabric.hcl", in)
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, draft.Write(in))
		}
		for _, h := range in.Hosts {
			got := f.Host(h.Name)
			if len(got.Policy) != len(h.Model.Policy) || len(got.Routes) != len(h.Model.Routes) {
				t.Fatalf("seed %d: host %s has %d rules and %d routes, want %d and %d in\n%s", seed, h.Name, len(got.Policy), len(got.Routes), len(h.Model.Policy), len(h.Model.Routes), text)
			}
			for _, want := range h.Model.Routes {
				if !slices.ContainsFunc(got.Routes, func(m *fabric.MainRoute) bool {
					return m.NIC.NIC == want.NIC.NIC && m.To == want.To && m.Via == want.Via
				}) {
					t.Fatalf("seed %d: host %s lacks the route %+v in\n%s", seed, h.Name, want, text)
				}
			}
			for _, want := range h.Model.NICs {
				n := got.NIC(want.Name)
				if !maps.Equal(n.Sysctl, want.Sysctl) || (n.Bond == nil) != (want.Bond == nil) || (n.VLAN == nil) != (want.VLAN == nil) ||
					n.Bond != nil && (n.Bond.Mode != want.Bond.Mode || len(n.Bond.NICs) != 2) || n.VLAN != nil && (n.VLAN.ID != want.VLAN.ID || n.VLAN.On.NIC != want.VLAN.On.NIC) {
					t.Fatalf("seed %d: %+v, want %+v in\n%s", seed, n, want, text)
				}
			}
			for _, want := range h.Model.Policy {
				if !slices.ContainsFunc(got.Policy, func(p *fabric.PolicyRoute) bool {
					return p.NIC.NIC == want.NIC.NIC && p.From == want.From && p.Table == want.Table && p.Priority == want.Priority && len(p.Routes) == 1 && p.Routes[0].To == want.Routes[0].To
				}) {
					t.Fatalf("seed %d: host %s lacks the rule %+v in\n%s", seed, h.Name, want, text)
				}
			}
		}
		in.Left, in.Flat = map[string]string{}, true
		if _, flat, without, err := validDraft("/nowhere/fabric.hcl", &in); err != nil || len(without)+len(in.Left) != len(left) {
			t.Fatalf("seed %d: %v, %v", seed, err, without)
		} else if in.Flat = false; bytes.Equal(text, flat) && !bytes.Equal(draft.Write(in), flat) {
			t.Errorf("seed %d: folded blocks do not say the same:\n%s\nand single ones:\n%s", seed, draft.Write(in), text)
		} else if bytes.Count(text, []byte("\n")) < bytes.Count(flat, []byte("\n")) {
			short++
		}
	}
	if short < 100 {
		t.Errorf("only %d files were folded", short)
	}
}

// TestNoAnswerOfAHostPanics: whatever passes the check of an answer becomes files, or an error.
func TestNoAnswerOfAHostPanics(t *testing.T) {
	const many = 400
	files := 0
	for seed := range uint64(many) {
		r := rand.New(rand.NewPCG(seed, 11))
		odd := func(of ...string) string { return of[r.IntN(len(of))] }
		prefix := func() (p netip.Prefix) {
			if r.IntN(8) > 0 {
				p = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(r.IntN(3)), 0, byte(r.IntN(4))}), r.IntN(33))
			}
			return p
		}
		names := []string{"rail0", "rail1", "rail2", "bond0", "bond1", "v", "w"}
		name := func() string { return odd(names...) }
		in := draft.Input{Fabric: "f", Report: &cabling.Report{}}
		for _, host := range []string{"a", "b"} {
			m := &fabric.Host{Memlock: odd("", "unlimited", "x\"${y}"), NetworkManager: odd("", "netplan", "\n}"), Sysctl: map[string]string{odd("vm.swappiness", "a\"b", "net.ipv4.ip_forward"): odd("1", "${x}")}}
			if r.IntN(2) > 0 {
				m.NCCL = fabric.NCCL{Env: map[string]string{odd("NCCL_DEBUG", "NCCL_IB_TC", "a b", "X\"=${y}"): odd("INFO", "-1", "\n}"), odd("NCCL_IB_HCA", ""): odd("mlx5_0", "")}}
			}
			taken := r.Perm(len(names))
			for i := range r.IntN(6) {
				n := &fabric.NIC{Name: names[taken[i]], Host: host, Netdev: []string{"eth0", "eth1", "eth2", "eth3", "bond0", "bond1", "eth0.5"}[taken[len(taken)-1-i]], Up: r.IntN(4) > 0, MTU: []int{0, 9000, -1, 70000}[r.IntN(4)], IPv6LinkLocal: odd("", "keep", "x"), Persist: r.IntN(2) > 0}
				for range r.IntN(3) {
					n.Addresses, n.AddressesSet = append(n.Addresses, prefix()), true
				}
				if r.IntN(4) == 0 {
					number, yes := r.IntN(80)-1, r.IntN(2) > 0
					n.QoS = &fabric.QoS{DSCP: &number, Priority: &number, PFC: &yes, Trust: odd("", "dscp", "x\""), ETS: map[int]int{r.IntN(9): r.IntN(120)}, Buffer: map[int]int{r.IntN(9): -1}, RDMACM: &yes}
				}
				switch r.IntN(4) {
				case 0:
					n.Bond = &fabric.Bond{Mode: odd("802.3ad", "active-backup", "\"x", ""), MIIMon: r.IntN(3) * 100, LACPRate: odd("", "fast", "x")}
					for range r.IntN(3) {
						n.Bond.NICs = append(n.Bond.NICs, fabric.NICRef{NIC: name()})
					}
				case 1:
					n.VLAN = &fabric.VLAN{On: fabric.NICRef{NIC: name()}, ID: r.IntN(5000), PriorityMap: map[int]int{r.IntN(9): r.IntN(9)}}
				}
				m.NICs = append(m.NICs, n)
			}
			for range min(len(m.NICs), r.IntN(3)) {
				m.Routes = append(m.Routes, &fabric.MainRoute{Name: name(), Host: host, NIC: fabric.NICRef{NIC: odd("", m.NICs[0].Name)}, Route: fabric.Route{To: prefix(), Via: prefix().Addr(), Src: prefix().Addr(), Metric: r.IntN(3) - 1}})
				m.Policy = append(m.Policy, &fabric.PolicyRoute{Name: name(), Host: host, NIC: fabric.NICRef{NIC: odd("", m.NICs[0].Name)}, From: prefix(), To: prefix(), Table: r.IntN(300), Priority: r.IntN(40000) - 1, Routes: []fabric.Route{{To: prefix()}}})
				m.RXE = append(m.RXE, &fabric.RXE{Name: odd("rxe0", "rxe1"), NIC: fabric.NICRef{NIC: odd("", m.NICs[0].Name)}})
			}
			if (calls.ImportResult{Host: m}).Check() != nil {
				continue
			}
			in.Hosts = append(in.Hosts, draft.Host{Name: host, Asked: host, Model: m, Remarks: []resource.Remark{{NIC: name(), Left: r.IntN(2) > 0, Text: odd("x", "\n}\nhost \"c\" {}")}}})
		}
		at := func() cabling.End {
			return cabling.End{Host: odd("a", "b", "c"), Netdevs: []string{odd("eth0", "eth1", "eth2", "eth3", "bond0"), odd("eth1", "gone")}[:1+r.IntN(2)]}
		}
		for range r.IntN(4) {
			in.Report.Cables = append(in.Report.Cables, [2]cabling.End{at(), at()})
			in.Report.Segments = append(in.Report.Segments, cabling.Segment{Ends: []cabling.End{at(), at(), at()}})
		}
		if f, text, _, err := draftFiles("/nowhere/fabric.hcl", in); err == nil {
			files++
			if f.Host("c") != nil {
				t.Fatalf("seed %d: a remark became a block in\n%s", seed, text)
			}
		}
	}
	if files < many/20 {
		t.Errorf("only %d of %d answers became files", files, many)
	}
}
