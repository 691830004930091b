package draft

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/cabling"
	"github.com/fabricform/fabricform/config"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/resource"
)

// load loads a text as files are loaded.
func load(t *testing.T, text []byte) *fabric.Fabric {
	t.Helper()
	f, _, diags := config.Load("/nowhere/fabric.hcl", config.Options{Overlay: map[string][]byte{"/nowhere/fabric.hcl": text}})
	if diags.HasErrors() {
		t.Fatalf("%v in\n%s", diags, text)
	}
	return f
}

func nicOf(name, netdev string, mtu int, addresses ...string) *fabric.NIC {
	n := &fabric.NIC{Name: name, Netdev: netdev, Up: true, Persist: true, MTU: mtu, IPv6LinkLocal: "keep"}
	for _, a := range addresses {
		n.Addresses, n.AddressesSet = append(n.Addresses, netip.MustParsePrefix(a)), true
	}
	return n
}

func end(host, netdev string) cabling.End { return cabling.End{Host: host, Netdevs: []string{netdev}} }

// cluster is a rail-optimised cluster, as language.md has it: one subnet and one table for each rail.
func cluster(hosts, rails int) Input {
	in := Input{Fabric: "cluster", Report: &cabling.Report{Segments: make([]cabling.Segment, rails)}}
	for i := range hosts {
		name := fmt.Sprintf("gpu%02d", i+1)
		h := Host{Name: name, Asked: name, Address: fmt.Sprintf("10.0.0.%d", 100+i), User: "root", Model: &fabric.Host{}}
		for r := range rails {
			n := nicOf(fmt.Sprintf("rail%d", r), fmt.Sprintf("eth%d", r), 9000, fmt.Sprintf("10.10.%d.%d/24", r, i+1))
			h.Model.NICs = append(h.Model.NICs, n)
			h.Model.Policy = append(h.Model.Policy, &fabric.PolicyRoute{Name: n.Name, NIC: fabric.NICRef{NIC: n.Name}, Table: 100 + r, Priority: 10100 + r,
				From:   netip.PrefixFrom(n.Addresses[0].Addr(), 32),
				Routes: []fabric.Route{{To: netip.MustParsePrefix("10.10.0.0/16"), Via: netip.MustParseAddr(fmt.Sprintf("10.10.%d.254", r))}}})
			in.Report.Segments[r].Ends = append(in.Report.Segments[r].Ends, end(name, n.Netdev))
		}
		h.Remarks = []resource.Remark{{Left: true, Text: "mgmt0 carries your connection: it is never imported"}}
		in.Hosts = append(in.Hosts, h)
	}
	return in
}

// TestSixteenHostsWithEightRailsAreAPage: under 60 lines, and they declare what the hosts have.
func TestSixteenHostsWithEightRailsAreAPage(t *testing.T) {
	in := cluster(16, 8)
	text := Write(in)
	if n := strings.Count(string(text), "\n"); n >= 60 {
		t.Errorf("%d lines:\n%s", n, text)
	}
	f := load(t, text)
	if len(f.Hosts) != 16 || len(f.Networks) != 8 {
		t.Fatalf("%d hosts, %d networks", len(f.Hosts), len(f.Networks))
	}
	for _, h := range in.Hosts {
		got := f.Host(h.Name)
		if got.Address != h.Address || got.SSH.User != "root" {
			t.Errorf("host %s is at %s@%s", h.Name, got.SSH.User, got.Address)
		}
		for i, n := range h.Model.NICs {
			g := got.NICs[i]
			if g.Name != n.Name || g.Netdev != n.Netdev || g.MTU != n.MTU || len(g.Addresses) != 1 || g.Addresses[0] != n.Addresses[0] {
				t.Errorf("%s is %+v", n.Name, g)
			}
			p := got.Policy[i]
			if want := h.Model.Policy[i]; p.From != want.From || p.Table != want.Table || p.Priority != want.Priority || p.Routes[0].Via != want.Routes[0].Via {
				t.Errorf("policy route of %s is %+v", n.Name, p)
			}
		}
	}
}

// TestAPairIsWrittenAsAPersonWould: the whole file.
func TestAPairIsWrittenAsAPersonWould(t *testing.T) {
	in := Input{Fabric: "pair", Report: &cabling.Report{Cables: [][2]cabling.End{{end("10.0.0.11", "ens19f0np0"), end("10.0.0.12", "ens19f0np0")}}}}
	for i, name := range []string{"a", "b"} {
		h := Host{Name: name, Asked: fmt.Sprintf("10.0.0.1%d", i+1), Address: fmt.Sprintf("10.0.0.1%d", i+1), User: name, Model: &fabric.Host{
			NICs: []*fabric.NIC{nicOf("rail0", "ens19f0np0", 9000, fmt.Sprintf("192.168.88.%d/30", i+1)), nicOf("rail1", "ens19f1np1", 0, "10.1.1.1/24")},
			RXE:  []*fabric.RXE{{Name: "rxe0", NIC: fabric.NICRef{NIC: "rail0"}, Persist: true}},
		}}
		h.Model.NICs[0].Persist = false
		h.Model.NICs[1].Addresses[0] = netip.MustParsePrefix(fmt.Sprintf("10.1.%d.1/24", i))
		h.Remarks = []resource.Remark{{NIC: "rail0", Text: "not persistent here: /etc/netplan/99-hand.yaml configures it"}, {NIC: "rail1", Left: true, Text: "route\n}: odd"}}
		in.Hosts = append(in.Hosts, h)
	}
	const want = `# Imported from running hosts. NICs are named by their order on the PCI bus.
fabric "pair" {}

locals {
  hosts = {
    a = { address = "10.0.0.11", user = "a", addresses = ["10.1.0.1/24"] }
    b = { address = "10.0.0.12", user = "b", addresses = ["10.1.1.1/24"] }
  }
}

host "node" {
  for_each = local.hosts
  address  = each.value.address
  ssh {
    user = self.value.user
  }
  # not persistent here: /etc/netplan/99-hand.yaml configures it
  nic "rail0" {
    netdev  = "ens19f0np0"
    persist = false
  }
  nic "rail1" {
    netdev    = "ens19f1np1"
    addresses = self.value.addresses
  }
  rxe "rxe0" {
    nic = nic.rail0
  }
}

link "a-b-rail0" {
  endpoints = [host.node["a"].nic.rail0, host.node["b"].nic.rail0]
  subnet    = "192.168.88.0/30"
  mtu       = 9000
}

# On the hosts, but not in these files:
# - a, b: rail1: route }: odd
`
	got := Write(in)
	if string(got) != want {
		t.Errorf("%s", got)
	}
	load(t, got)
}

// TestALinkHasTheNamesOfItsHosts in their order, whatever ssh calls them.
func TestALinkHasTheNamesOfItsHosts(t *testing.T) {
	in := Input{Fabric: "pair", Report: &cabling.Report{Cables: [][2]cabling.End{{end("10.0.0.5", "eth1"), end("gpu-a", "eth1")}}}}
	for i, asked := range []string{"gpu-a", "10.0.0.5"} {
		name := string(rune('a' + i))
		in.Hosts = append(in.Hosts, Host{Name: name, Asked: asked, Model: &fabric.Host{NICs: []*fabric.NIC{nicOf("rail0", "eth1", 9000, fmt.Sprintf("10.1.0.%d/30", i+1))}}})
	}
	if f := load(t, Write(in)); len(f.Links) != 1 || f.Links[0].Name != "a-b-rail0" || f.Links[0].Endpoints[0].Host != "a" {
		t.Errorf("%+v", f.Links)
	}
}

// spark is a host with the two functions of one port, whose subnets are crossed between hosts.
func spark(i int, subnets ...int) Host {
	h := Host{Name: fmt.Sprintf("spark%d", i), Asked: fmt.Sprintf("spark%d", i), Model: &fabric.Host{}}
	for j, netdev := range []string{"enp1s0f0np0", "enP2p1s0f0np0"} {
		if j < len(subnets) {
			h.Model.NICs = append(h.Model.NICs, nicOf(fmt.Sprintf("rail%d", j), netdev, 9000, fmt.Sprintf("192.168.%d.%d/31", subnets[j], 10+i)))
		}
	}
	return h
}

// TestFunctionsOfOnePortAreLinksOfOneGroup: two, paired by their subnets; a network for each behind a switch; and one link if only one
// function was imported.
func TestFunctionsOfOnePortAreLinksOfOneGroup(t *testing.T) {
	port := func(i int) cabling.End {
		return cabling.End{Host: fmt.Sprintf("spark%d", i), Netdevs: []string{"enp1s0f0np0", "enP2p1s0f0np0"}}
	}
	in := Input{Fabric: "sparks", Hosts: []Host{spark(0, 100, 101), spark(1, 101, 100)}, Report: &cabling.Report{Cables: [][2]cabling.End{{port(0), port(1)}}}}
	text := Write(in)
	f := load(t, text)
	got := ""
	for _, l := range f.Links {
		got += fmt.Sprintf("%s %v %v %s %d; ", l.Name, l.Endpoints, l.Subnet, l.PortGroup, l.MTU)
	}
	if want := "spark0-spark1-rail0 [spark0.rail0 spark1.rail1] [192.168.100.10/31] spark0-spark1-port 9000; spark0-spark1-rail1 [spark0.rail1 spark1.rail0] [192.168.101.10/31] spark0-spark1-port 9000; "; got != want {
		t.Errorf("%s\nwant %s in\n%s", got, want, text)
	}
	in.Hosts[1] = spark(1, 100)
	text = Write(in)
	if f := load(t, text); len(f.Links) != 1 || f.Links[0].PortGroup != "" || !strings.Contains(string(text), "the other end of spark0.rail1 is not imported") {
		t.Errorf("one function:\n%s", text)
	}
	in.Hosts, in.Report = []Host{spark(0, 100, 101), spark(1, 100, 101)}, &cabling.Report{Segments: []cabling.Segment{{Ends: []cabling.End{port(0), port(1)}}}}
	if f := load(t, Write(in)); len(f.Networks) != 2 || f.Networks[1].Name != "rail1" || len(f.Networks[1].Members) != 2 || f.Networks[1].Members[0].NIC != "rail1" {
		t.Errorf("behind a switch:\n%s", Write(in))
	}
}

func commentOut(src string, line int, why string) (text, key string) {
	got, key := CommentOut([]byte(src), line, why)
	return string(got), key
}

// TestABlockThatIsWrongIsCommentedOut: the innermost one, with its reason on one line.
func TestABlockThatIsWrongIsCommentedOut(t *testing.T) {
	const text = "host \"a\" {\n  nic \"x\" {\n    netdev = \"x\"\n  }\n  route \"r\" {\n    to = \"10.0.0.0/8\"\n  }\n}\n\nlink \"l\" {\n}\n"
	if got, key := commentOut(text, 6, "a\nb"); key != "" || !strings.Contains(got, "  # Left out: a b\n  # route \"r\" {\n  #   to = \"10.0.0.0/8\"\n  # }\n}\n") {
		t.Error(got)
	}
	if got, key := commentOut(text, 10, "why"); key != "link l" || !strings.HasSuffix(got, "# Left out: why\n# link \"l\" {\n# }\n") {
		t.Error(got)
	}
	const cabled = "host \"a\" {\n  nic \"x\" {\n  }\n}\nlink \"l\" {\n  endpoints = [host.a.nic.x, host.b.nic.x]\n}\nlink \"m\" {\n  endpoints = [host.a.nic.x-y, host.aa.nic.x]\n}\n"
	if got, key := commentOut(cabled, 2, "why"); key != "link l" || !strings.Contains(got, "}\n# Left out: why\n# link \"l\" {\n#   endpoints") || !strings.Contains(got, "\nlink \"m\"") {
		t.Error(got)
	}
	for line, want := range map[int]string{1: "", 3: "nic a.x", 9: "", 99: ""} { // a host and its NICs stay
		if got, key := commentOut(text, line, "why"); got != "" || key != want {
			t.Errorf("line %d: %s, %s", line, key, got)
		}
	}
}

// TestTextOfHostsIsNoHCL: what a host says is a value or a comment, never an expression.
func TestTextOfHostsIsNoHCL(t *testing.T) {
	evil := "${file(\"/etc/passwd\")}\"\n}\n%{ for"
	n := nicOf("rail0", "eth0", 0)
	n.Sysctl = map[string]string{"ipv4.conf.arp_ignore": evil}
	in := Input{Fabric: "evil", Hosts: []Host{{Name: "a", Asked: "a", Model: &fabric.Host{NICs: []*fabric.NIC{n}, Sysctl: map[string]string{"net.ipv4.ip_forward": "1"}},
		Remarks: []resource.Remark{{Left: true, Text: evil}, {NIC: "rail0", Text: evil}}}}}
	text := Write(in)
	if f, _, diags := config.Load("/nowhere/f.hcl", config.Options{Overlay: map[string][]byte{"/nowhere/f.hcl": text}}); !diags.HasErrors() &&
		f.Hosts[0].NICs[0].Sysctl["ipv4.conf.arp_ignore"] != evil {
		t.Errorf("it became %q in\n%s", f.Hosts[0].NICs[0].Sysctl, text)
	}
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "passwd") && !strings.Contains(line, "#") && !strings.Contains(line, "$${") {
			t.Errorf("%s", line)
		}
	}
}

// TestReferencesAreNoTemplates: what a host calls a NIC is text, also in a reference.
func TestReferencesAreNoTemplates(t *testing.T) {
	const name = `${file("/etc/passwd")}%{if true}`
	p := &printer{group: map[string]string{"h${1}": "g"}, family: map[string]family{}, at: "a"}
	for _, got := range []string{member(name), p.ref(ref{NICRef: fabric.NICRef{NIC: name}}), p.ref(ref{NICRef: fabric.NICRef{Host: "h${1}", NIC: name}})} {
		bare := strings.NewReplacer("$${", "", "%%{", "").Replace(got)
		if strings.Contains(bare, "${") || strings.Contains(bare, "%{") {
			t.Errorf("%s holds a template", got)
		}
	}
}

// TestBlocksThatFoldStandOnce, whatever the order in which the host lists them.
func TestBlocksThatFoldStandOnce(t *testing.T) {
	in := cluster(1, 11) // rail10 sorts before rail2
	for i := range 3 {
		to := netip.PrefixFrom(netip.MustParseAddr(fmt.Sprintf("10.%d.0.0", 30-i)), 16)
		in.Hosts[0].Model.Routes = append(in.Hosts[0].Model.Routes, &fabric.MainRoute{Name: fmt.Sprintf("rail%d", 2-i), NIC: fabric.NICRef{NIC: fmt.Sprintf("rail%d", 2-i)},
			Route: fabric.Route{To: to, Via: netip.MustParseAddr(fmt.Sprintf("10.10.%d.254", 2-i))}})
	}
	text := string(Write(in))
	if nics, routes := strings.Count(text, "  nic \""), strings.Count(text, "  route \"rail\""); nics != 1 || routes != 1 {
		t.Errorf("%d nic blocks and %d route blocks in\n%s", nics, routes, text)
	}
	f := load(t, []byte(text))
	if h := f.Hosts[0]; len(h.NICs) != 11 || len(h.Routes) != 3 {
		t.Errorf("%d NICs, %d routes", len(h.NICs), len(h.Routes))
	}
}

// TestCommentsHoldNoInvisibleText: what a host says stays within its line, and what has no ink is gone.
func TestCommentsHoldNoInvisibleText(t *testing.T) {
	for in, want := range map[string]string{
		"a\nb\tc":                "a b c",
		"a\u2028b\u202ec\u200bd": "a b c d",
		"a\u3164\u115f\u2800b":   "a b",
		"\x1b[31mred\x00":        "[31mred",
		"nic – rail0":            "nic – rail0",
		"\u1160":                 "",
	} {
		if got := clean(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

// TestAVariableThatIsWrongIsLeftOutAlone: the others stay.
func TestAVariableThatIsWrongIsLeftOutAlone(t *testing.T) {
	const text = "nccl {\n  env = {\n    NCCL_A = \"1\"\n    NCCL_B = \"2\"\n  }\n  write = false\n}\nhost \"a\" {\n  nccl {\n    env = {\n      NCCL_C = \"3\"\n    }\n  }\n}\n"
	for line, want := range map[int]string{3: "env .NCCL_A", 4: "env .NCCL_B", 11: "env a.NCCL_C"} {
		if got, key := commentOut(text, line, "why"); got != "" || key != want {
			t.Errorf("line %d: %q, %q", line, key, got)
		}
	}
	if got, key := commentOut(text, 6, "why"); key != "" || !strings.HasPrefix(got, "# Left out: why\n# nccl {") {
		t.Errorf("another attribute: %q, %q", key, got)
	}
	for _, both := range []bool{true, false} {
		in := Input{Fabric: "f", Left: map[string]string{"env .NCCL_B": "it is\nwrong", "env a.NCCL_B": "it is\nwrong"}}
		for i, name := range []string{"a", "b"} {
			h := Host{Name: name, Model: &fabric.Host{NICs: []*fabric.NIC{nicOf("rail0", "eth0", 0)}, NCCL: fabric.NCCL{Env: map[string]string{"NCCL_DEBUG": "INFO", "NCCL_B": "2"}}}}
			if !both && i == 1 {
				h.Model.NCCL.Env = map[string]string{"NCCL_DEBUG": "WARN"}
			}
			in.Hosts = append(in.Hosts, h)
		}
		text := Write(in)
		f := load(t, text)
		env := f.NCCLOf(f.Host("a")).Env
		if len(env) != 1 || env["NCCL_DEBUG"] != "INFO" || !strings.Contains(string(text), "NCCL_B is left out: it is wrong\n") || len(in.Hosts[0].Model.NCCL.Env) != 2 {
			t.Errorf("%v in\n%s", env, text)
		}
	}
}

// TestAddressesOfALinkAndNumbersOfANetwork: where they would not give the NICs exactly their addresses, the NICs declare them.
func TestAddressesOfALinkAndNumbersOfANetwork(t *testing.T) {
	prefix := netip.MustParsePrefix
	for _, c := range []struct {
		a, b []string
		want string
	}{
		{[]string{"10.0.0.1/30"}, []string{"10.0.0.2/30"}, "[10.0.0.0/30]"},
		{[]string{"10.0.0.2/31"}, []string{"10.0.0.3/31"}, "[10.0.0.2/31]"},
		{[]string{"10.0.0.1/30", "fd00::1/64"}, []string{"10.0.0.2/30", "fd00::2/64"}, "[10.0.0.0/30 fd00::/64]"},
		{[]string{"10.0.0.1/30", "fd00::2/64"}, []string{"10.0.0.2/30", "fd00::1/64"}, "[]"},
		{[]string{"10.0.0.1/30", "10.0.1.1/30"}, []string{"10.0.0.2/30", "10.0.1.2/30"}, "[]"},
		{[]string{"fd00::1/64", "fd00:1::1/64"}, []string{"fd00::2/64", "fd00:1::2/64"}, "[]"},
		{[]string{"10.0.0.1/30"}, nil, "[]"},
		{[]string{"10.0.0.1/32"}, []string{"10.0.0.2/32"}, "[]"},
		{[]string{"10.0.0.1/30"}, []string{"10.0.0.2/29"}, "[]"},
	} {
		if got, _ := pairSubnets(nicOf("x", "x", 0, c.a...), nicOf("x", "x", 0, c.b...)); fmt.Sprint(got) != c.want {
			t.Errorf("%v and %v: %v, want %s", c.a, c.b, got, c.want)
		}
	}
	for p, want := range map[string]int{"10.0.0.1/24": 1, "10.0.0.0/24": 0, "10.0.1.2/16": 258, "10.1.0.1/8": 0, "10.0.255.255/8": 65535, "fd00::ffff/64": 65535, "fd00::1:0/64": 0} {
		if got, ok := offset(prefix(p)); ok != (want > 0) || ok && got != want {
			t.Errorf("%s: %d, %v, want %d", p, got, ok, want)
		}
	}
}

// TestNamesThatAreNoFormatStandAlone: a name that format() would read is no part of a sequence.
func TestNamesThatAreNoFormatStandAlone(t *testing.T) {
	for head, want := range map[string]bool{"gpu": true, "gpu%d": false, `g"`: false, "g${": false, `g\`: false} {
		l := &local{name: "hosts", fields: []string{"n"}, values: map[string][]string{}}
		for i := range longSequence {
			l.keys, l.values["n"] = append(l.keys, fmt.Sprintf("%s%d", head, i)), append(l.values["n"], fmt.Sprint(i))
		}
		if text, ok := l.sequence(); ok != want {
			t.Errorf("%q: %s", head, text)
		}
	}
}

// TestRemarksThatAreAlikeAreOneLine: of many that differ in numbers alone, the first one stands for all.
func TestRemarksThatAreAlikeAreOneLine(t *testing.T) {
	in := Input{Fabric: "f"}
	for i := range 16 {
		h := Host{Name: fmt.Sprintf("gpu%02d", i+1), Model: &fabric.Host{NICs: []*fabric.NIC{nicOf("rail0", "eth0", 0)}}}
		for rail := range 8 {
			h.Remarks = append(h.Remarks, resource.Remark{Left: true, Text: fmt.Sprintf("rule from 10.0.%d.%d/32 lookup %d: odd", rail, i+1, 100+rail)})
		}
		if i < maxAlike {
			h.Remarks = append(h.Remarks, resource.Remark{NIC: "rail0", Left: true, Text: fmt.Sprintf("address fd00::%d/64: odd", i+1)})
		}
		in.Hosts = append(in.Hosts, h)
	}
	_, got, _ := strings.Cut(string(Write(in)), "# On the hosts, but not in these files:\n")
	const want = `# - gpu01: rail0: address fd00::1/64: odd
# - gpu02: rail0: address fd00::2/64: odd
# - gpu03: rail0: address fd00::3/64: odd
# - gpu01: rule from 10.0.0.1/32 lookup 100: odd (and 127 more like this, on gpu01, gpu02 and 14 more)
`
	if got != want {
		t.Errorf("%s", got)
	}
}

// TestAFieldHasTheNameOfItsNIC if another NIC has one of the same kind, and otherwise the short one.
func TestAFieldHasTheNameOfItsNIC(t *testing.T) {
	in := Input{Fabric: "f"}
	for i := range 3 {
		a, b := nicOf("rail0", "eth0", 0, fmt.Sprintf("10.0.0.%d/24", i+1)), nicOf("rail1", "eth1", 1500+i, fmt.Sprintf("10.1.%d.1/24", i+1))
		a.AcceptRA = of(true)
		in.Hosts = append(in.Hosts, Host{Name: fmt.Sprintf("n%d", i), Address: fmt.Sprintf("192.0.2.%d", i+1), Model: &fabric.Host{NICs: []*fabric.NIC{a, b}}})
	}
	text := string(Write(in))
	const want = `    n0 = { address = "192.0.2.1", rail0_addresses = ["10.0.0.1/24"], rail1_addresses = ["10.1.1.1/24"], mtu = 1500 }`
	if !strings.Contains(text, want) || !strings.Contains(text, "= self.value.rail0_addresses\n") {
		t.Errorf("%s", text)
	}
	load(t, []byte(text))
}

// TestOneOddHostLeavesTheOthersTheirNetwork, and rails that share a switch are networks of their own.
func TestOneOddHostLeavesTheOthersTheirNetwork(t *testing.T) {
	for name, c := range map[string]struct {
		odd  func(n *fabric.NIC)
		want string
	}{
		"no address":  {func(n *fabric.NIC) { n.Addresses, n.AddressesSet = nil, false }, "rail0 3, rail1 4"},
		"another MTU": {func(n *fabric.NIC) { n.MTU = 1400 }, "rail0 3, rail1 4"},
		"like others": {func(*fabric.NIC) {}, "rail0 4, rail1 4"},
	} {
		in := Input{Fabric: "f", Report: &cabling.Report{Segments: make([]cabling.Segment, 1)}}
		for i := range 4 {
			h := Host{Name: fmt.Sprintf("n%d", i), Asked: fmt.Sprintf("n%d", i), Model: &fabric.Host{}}
			for r := range 2 {
				h.Model.NICs = append(h.Model.NICs, nicOf(fmt.Sprintf("rail%d", r), fmt.Sprintf("eth%d", r), 9000, fmt.Sprintf("10.1.%d.%d/24", r, i+1)))
				in.Report.Segments[0].Ends = append(in.Report.Segments[0].Ends, end(h.Name, fmt.Sprintf("eth%d", r)))
			}
			in.Hosts = append(in.Hosts, h)
		}
		c.odd(in.Hosts[2].Model.NICs[0])
		text := Write(in)
		var got []string
		for _, n := range load(t, text).Networks {
			got = append(got, fmt.Sprintf("%s %d", n.Name, len(n.Members)))
			if len(n.Subnet) != 1 || n.MTU != 9000 {
				t.Errorf("%s: %+v", name, n)
			}
		}
		if strings.Join(got, ", ") != c.want || strings.Contains(string(text), "# in no network") != (name != "like others") {
			t.Errorf("%s: %v, want %s in\n%s", name, got, c.want, text)
		}
	}
}

// TestACommentNamesTheHostsThatItIsAbout: where hosts or NICs are folded, and not all have it.
func TestACommentNamesTheHostsThatItIsAbout(t *testing.T) {
	in := cluster(4, 3)
	for i := range in.Hosts {
		in.Hosts[i].Remarks = append(in.Hosts[i].Remarks, resource.Remark{NIC: "rail0", Text: "of all"})
		if i == 1 || i == 2 {
			in.Hosts[i].Remarks = append(in.Hosts[i].Remarks, resource.Remark{NIC: "rail1", Text: "of two"})
		}
	}
	if text := string(Write(in)); !strings.Contains(text, "  # rail0: of all\n") || !strings.Contains(text, "  # rail1: gpu02, gpu03: of two\n") {
		t.Errorf("%s", text)
	}
}

// TestARemarkNamesAHostOnce: also where a host has it twice, such as of two routes that differ in what the text does not say.
func TestARemarkNamesAHostOnce(t *testing.T) {
	in := cluster(2, 1)
	for i := range in.Hosts {
		twice := resource.Remark{NIC: "rail0", Left: true, Text: "route 10.64.0.0/24: twice"}
		in.Hosts[i].Remarks = append(in.Hosts[i].Remarks, twice, twice)
	}
	if text := string(Write(in)); !strings.Contains(text, "# - gpu01, gpu02: rail0: route 10.64.0.0/24: twice\n") {
		t.Errorf("%s", text)
	}
}

// TestAHostMayBeCalledFor: in HCL, that word as the first key of an object would begin a for expression.
func TestAHostMayBeCalledFor(t *testing.T) {
	in := cluster(3, 1)
	in.Hosts[0].Name, in.Hosts[0].Asked = "for", "for"
	in.Report.Segments[0].Ends[0].Host = "for"
	if f := load(t, Write(in)); f.Host("for") == nil || len(f.Hosts) != 3 {
		t.Errorf("%s", Write(in))
	}
}

// TestALinkWithTwoMTUsSaysBoth: also where one end has that of a new device, which no file has to declare.
func TestALinkWithTwoMTUsSaysBoth(t *testing.T) {
	in := Input{Fabric: "pair", Report: &cabling.Report{Cables: [][2]cabling.End{{end("a", "eth1"), end("b", "eth1")}, {end("a", "eth2"), end("b", "eth2")}}}, Left: map[string]string{}}
	for i, name := range []string{"a", "b"} {
		in.Hosts = append(in.Hosts, Host{Name: name, Asked: name, Model: &fabric.Host{NICs: []*fabric.NIC{nicOf("rail0", "eth1", 9000*(1-i), fmt.Sprintf("10.1.0.%d/30", i+1)), nicOf("rail1", "eth2", 9000, fmt.Sprintf("10.2.0.%d/30", i+1))}}})
	}
	text := Write(in)
	f := load(t, text)
	if len(f.Links) != 1 || f.Links[0].Name != "a-b-rail1" || f.NIC(fabric.NICRef{Host: "a", NIC: "rail0"}).MTU != 9000 || len(in.Left) != 1 {
		t.Errorf("left %v\n%s", in.Left, text)
	}
	const why = "The ends of the cable have different MTUs: a.rail0 has 9000, but b.rail0 has 1500"
	if !strings.Contains(string(text), "# Left out: "+why) || !strings.HasPrefix(in.Left["link a-b-rail0"], why) {
		t.Errorf("left %v\n%s", in.Left, text)
	}
}

// TestRulesOfTwoFamiliesStayApart: a rule for a NIC's IPv4 address and one for another NIC's IPv6 address are not one block.
func TestRulesOfTwoFamiliesStayApart(t *testing.T) {
	h := Host{Name: "a", Asked: "a", Model: &fabric.Host{}}
	for i := range 6 {
		n := nicOf(fmt.Sprintf("rail%d", i), fmt.Sprintf("eth%d", i), 0, fmt.Sprintf("10.%d.0.1/24", i), fmt.Sprintf("fd00:%d::1/64", i))
		from := n.Addresses[0].Addr()
		if i == 5 {
			from = n.Addresses[1].Addr()
		}
		h.Model.NICs = append(h.Model.NICs, n)
		h.Model.Policy = append(h.Model.Policy, &fabric.PolicyRoute{Name: n.Name, NIC: fabric.NICRef{NIC: n.Name}, Table: 100 + i, Priority: 10100 + i, From: netip.PrefixFrom(from, from.BitLen()),
			Routes: []fabric.Route{{To: netip.PrefixFrom(from, from.BitLen()).Masked()}}})
	}
	text := Write(Input{Fabric: "f", Hosts: []Host{h}})
	for i, p := range load(t, text).Host("a").Policy {
		if want := h.Model.Policy[i]; p.From != want.From || p.Table != want.Table {
			t.Errorf("from %s in table %d, want %s in %d, in\n%s", p.From, p.Table, want.From, want.Table, text)
		}
	}
}

// TestAnOddMemberOfASegmentIsNamed: beside a network of the others, and where nobody agrees.
func TestAnOddMemberOfASegmentIsNamed(t *testing.T) {
	in := Input{Fabric: "f", Report: &cabling.Report{Segments: make([]cabling.Segment, 1)}}
	for i, address := range []string{"10.0.0.1/24", "10.0.0.2/24", "10.9.0.3/24"} {
		name := fmt.Sprintf("n%d", i)
		in.Hosts = append(in.Hosts, Host{Name: name, Asked: name, Model: &fabric.Host{NICs: []*fabric.NIC{nicOf("rail0", "eth0", 0, address)}}})
		in.Report.Segments[0].Ends = append(in.Report.Segments[0].Ends, end(name, "eth0"))
	}
	text := string(Write(in))
	if f := load(t, []byte(text)); len(f.Networks) != 1 || len(f.Networks[0].Members) != 2 || !strings.Contains(text, "# in no network: no NIC that it is connected with declares the same MTU and subnets (n0.rail0, n1.rail0)") {
		t.Errorf("%s", text)
	}
	in.Report.Segments[0].Ends = in.Report.Segments[0].Ends[2:]
	if text := string(Write(in)); strings.Contains(text, "in no network") || len(load(t, []byte(text)).Networks) != 0 {
		t.Errorf("a segment of one port:\n%s", text)
	}
}

// TestACableWithOneImportedEndIsNamed.
func TestACableWithOneImportedEndIsNamed(t *testing.T) {
	in := Input{Fabric: "f", Report: &cabling.Report{Cables: [][2]cabling.End{{end("a", "eth0"), end("b", "eth9")}, {end("b", "eth9"), end("a", "eth0")}}}}
	for _, name := range []string{"a", "b"} {
		in.Hosts = append(in.Hosts, Host{Name: name, Asked: name, Model: &fabric.Host{NICs: []*fabric.NIC{nicOf("rail0", "eth0", 0)}}})
	}
	text := string(Write(in))
	if len(load(t, []byte(text)).Links) != 0 || !strings.Contains(text, "# - direct cable a:eth0 – b:eth9: a NIC is not imported") || !strings.Contains(text, "# - direct cable b:eth9 – a:eth0: a NIC is not imported") {
		t.Errorf("%s", text)
	}
}

// TestANetworkThatIsLeftOutIsNotFolded with those that are written, although they are of one shape.
func TestANetworkThatIsLeftOutIsNotFolded(t *testing.T) {
	in := cluster(3, 8)
	in.Left = map[string]string{"network rail3": "it is wrong"}
	for _, h := range in.Hosts {
		for _, n := range h.Model.NICs {
			n.Addresses, n.AddressesSet, n.MTU = nil, false, 0
		}
		h.Model.Policy = nil
	}
	text := string(Write(in))
	f := load(t, []byte(text))
	if len(f.Networks) != 7 || !strings.Contains(text, "# Left out: it is wrong\n# network \"rail3\" {") || strings.Count(text, "\nnetwork ") != 1 {
		t.Errorf("%d networks in\n%s", len(f.Networks), text)
	}
}

// TestAHostsLoginIsNoComment: without it, the host would be reached as somebody else.
func TestAHostsLoginIsNoComment(t *testing.T) {
	const src = "host \"a\" {\n  ssh {\n    user = \"ann\"\n  }\n  route \"r\" {\n    to = \"x\"\n  }\n}\n"
	if text, key := CommentOut([]byte(src), 3, "wrong"); text != nil || key != "" {
		t.Errorf("%q\n%s", key, text)
	}
	if text, _ := CommentOut([]byte(src), 6, "wrong"); !strings.Contains(string(text), "  # route \"r\" {") {
		t.Errorf("%s", text)
	}
}

// TestNumbersOfANetworkAreOnePerHost: a host whose IPv6 address has another number than its IPv4 address declares both itself.
func TestNumbersOfANetworkAreOnePerHost(t *testing.T) {
	for last, numbered := range map[string]bool{"fd00::2/64": true, "fd00::3/64": false} {
		in := Input{Fabric: "f", Report: &cabling.Report{Segments: make([]cabling.Segment, 1)}}
		for i, addresses := range [][]string{{"10.0.0.1/24", "fd00::1/64"}, {"10.0.0.2/24", last}} {
			name := fmt.Sprintf("n%d", i)
			in.Hosts = append(in.Hosts, Host{Name: name, Asked: name, Model: &fabric.Host{NICs: []*fabric.NIC{nicOf("rail0", "eth0", 0, addresses...)}}})
			in.Report.Segments[0].Ends = append(in.Report.Segments[0].Ends, end(name, "eth0"))
		}
		text := string(Write(in))
		f := load(t, []byte(text))
		if got := fmt.Sprint(f.NIC(fabric.NICRef{Host: "n1", NIC: "rail0"}).Addresses); got != "[10.0.0.2/24 "+last+"]" || strings.Contains(text, "subnet") != numbered {
			t.Errorf("%s in\n%s", got, text)
		}
	}
}
