package config

import (
	"net/netip"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"unicode"

	"github.com/fabricform/fabricform/fabric"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

var (
	macShape    = regexp.MustCompile(`^([0-9a-f]{2}:){5}[0-9a-f]{2}$`)
	pciShape    = regexp.MustCompile(`^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)
	sysctlShape = regexp.MustCompile(`^[A-Za-z0-9_.\-/]+$`)
)

type hostInstance struct {
	h    *fabric.Host
	k    *hclsyntax.Block
	s    scope
	each bool
	on   bool
	nics map[string]map[string]*fabric.NIC // block -> key, "" without for_each -> NIC
}

func (l *loader) hosts() {
	seen := map[string]bool{}
	for _, k := range l.blocks["host"] {
		l.known(k.Body, "address labels sysctl ssh nic policy_route nccl for_each enabled", "memlock network_manager route rxe ofed")
		for _, i := range l.expand(k, scope{}) {
			if seen[i.name] {
				l.errorf(k.DefRange(), "Host name stands twice", "Another host is named %q. Rename one.", i.name)
			}
			seen[i.name] = true
			l.host(k, i)
		}
		if k.Body.Attributes["for_each"] != nil && len(k.Labels) == 1 {
			l.keyed[k.Labels[0]] = true
		}
	}
}

func (l *loader) host(k *hclsyntax.Block, i instance) {
	b := body{l, k.Body, i.s}
	h := &fabric.Host{Name: i.name, Block: k.Labels[0], Address: b.str("address"), Labels: b.strMap("labels"), Pos: l.pos(k.DefRange())}
	if h.Address == "" {
		h.Address = h.Name
	}
	if strings.HasPrefix(h.Address, "-") || strings.ContainsFunc(h.Address, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
		l.errorf(b.rng("address"), "Address not allowed", "An address has no spaces and does not begin with '-'.")
	}
	labels := map[string]cty.Value{}
	for n, v := range h.Labels {
		labels[n] = cty.StringVal(v)
	}
	self := map[string]cty.Value{"name": cty.StringVal(h.Name), "address": cty.StringVal(h.Address), "labels": cty.ObjectVal(labels), "key": cty.NullVal(cty.String), "value": cty.NullVal(cty.DynamicPseudoType)}
	if e, ok := i.s["each"]; ok {
		self["key"], self["value"] = e.GetAttr("key"), e.GetAttr("value")
	}
	hi := &hostInstance{h: h, k: k, s: i.s.with("self", cty.ObjectVal(self)), each: i.each, on: i.on, nics: map[string]map[string]*fabric.NIC{}}
	l.insts = append(l.insts, hi)
	if i.on {
		l.f.Hosts = append(l.f.Hosts, h)
	}
	for _, nb := range k.Body.Blocks {
		if nb.Type != "nic" {
			continue
		}
		l.known(nb.Body, "netdev match addresses mtu up persist accept_ra ipv6_link_local sysctl gid single for_each enabled", "host_number")
		for _, ni := range l.expand(nb, hi.s) {
			n := l.nic(nb, ni, h)
			if h.NIC(n.Name) != nil {
				l.errorf(nb.DefRange(), "NIC name stands twice", "Host %s has another NIC %q. Rename one.", h.Name, n.Name)
			}
			key := ""
			if ni.each {
				key = ni.name
			}
			if hi.nics[nb.Labels[0]] == nil {
				hi.nics[nb.Labels[0]] = map[string]*fabric.NIC{}
			}
			hi.nics[nb.Labels[0]][key] = n
			if ni.on {
				h.NICs = append(h.NICs, n)
			}
			l.off[fabric.NICRef{Host: h.Name, NIC: n.Name}] = !ni.on || !i.on
		}
	}
	sort.Slice(h.NICs, func(a, b int) bool { return h.NICs[a].Name < h.NICs[b].Name })
}

func (l *loader) nic(k *hclsyntax.Block, i instance, h *fabric.Host) *fabric.NIC {
	b := body{l, k.Body, i.s}
	n := &fabric.NIC{Name: i.name, Host: h.Name, Netdev: b.str("netdev"), MTU: b.integer("mtu", 0, 68, 65535), Up: b.boolean("up", true),
		Persist: b.boolean("persist", true), AcceptRA: b.boolPtr("accept_ra"), Single: b.boolean("single", false), Pos: l.pos(k.DefRange()),
		IPv6LinkLocal: b.oneOf("ipv6_link_local", "keep", "keep", "eui64", "none"), AttrPos: l.attrPos(k.Body)}
	n.Sysctl = l.sysctl(b, false)
	m := b.strMap("match")
	for key := range m {
		if key == "rdma" {
			l.errorf(b.rng("match"), "Not in this build yet", "match.rdma is not carried out by this build. Use netdev, mac or pci.")
		} else if key != "mac" && key != "pci" {
			l.errorf(b.rng("match"), "Unknown name", "match takes mac or pci.")
		}
	}
	n.MAC, n.PCI = strings.ToLower(m["mac"]), strings.ToLower(m["pci"])
	if n.MAC != "" && !macShape.MatchString(n.MAC) || n.PCI != "" && !pciShape.MatchString(n.PCI) {
		l.errorf(b.rng("match"), "Selector has the wrong shape", "Write mac = \"aa:bb:cc:dd:ee:ff\" or pci = \"0000:27:00.0\".")
	}
	count := 0
	for _, s := range []string{n.Netdev, n.MAC, n.PCI} {
		if s != "" {
			count++
		}
	}
	if count != 1 && !l.diags.HasErrors() {
		l.errorf(k.DefRange(), "NIC needs one selector", "Give exactly one of netdev, match = { mac = … } and match = { pci = … }.")
	}
	if d := n.Netdev; d != "" && (len(d) > 15 || d == "." || d == ".." || strings.ContainsFunc(d, func(r rune) bool { return r == '/' || unicode.IsSpace(r) || unicode.IsControl(r) })) {
		l.errorf(b.rng("netdev"), "Not an interface name", "An interface name has 1 to 15 bytes, without '/' and spaces.")
	}
	if v, r, ok := b.value("addresses", cty.List(cty.String)); ok {
		n.AddressesSet = true
		for _, e := range v.AsValueSlice() {
			p, err := netip.ParsePrefix(e.AsString())
			if err != nil {
				l.errorf(r, "Not an address", "%q is not an address with a prefix length, such as \"192.168.88.1/30\".", e.AsString())
				continue
			}
			n.Addresses = append(n.Addresses, p)
		}
	}
	l.gid(b, n)
	return n
}

func (l *loader) gid(b body, n *fabric.NIC) {
	for key, v := range b.strMap("gid") {
		switch {
		case key == "version" && (v == "1" || v == "2"):
			n.GID.Version = int(v[0] - '0')
		case key == "family" && (v == "ipv4" || v == "ipv6"):
			n.GID.Family = v
		case key == "index" && regexp.MustCompile(`^[0-9]{1,3}$`).MatchString(v):
			x := 0
			for _, c := range v {
				x = x*10 + int(c-'0')
			}
			n.GID.Index = &x
		default:
			l.errorf(b.rng("gid"), "GID has the wrong shape", "Write gid = { version = 2, family = \"ipv4\", index = 3 }, each optional.")
		}
	}
}

func (l *loader) sysctl(b body, host bool) map[string]string {
	m := b.strMap("sysctl")
	for key := range m {
		root, _, _ := strings.Cut(strings.ReplaceAll(key, "/", "."), ".")
		if !sysctlShape.MatchString(key) || strings.Contains(key, "..") || strings.HasPrefix(key, "/") || host && root != "net" && root != "vm" && root != "kernel" && root != "fs" {
			l.errorf(b.rng("sysctl"), "Sysctl key not allowed", "%q must be a key such as net.ipv4.ip_forward, under net, vm, kernel or fs for a host.", key)
		}
	}
	return m
}

func (l *loader) attrPos(b *hclsyntax.Body) map[string]fabric.Pos {
	m := map[string]fabric.Pos{}
	for n, a := range b.Attributes {
		m[n] = l.pos(a.Expr.Range())
	}
	return m
}

func nicValue(n *fabric.NIC, final bool) cty.Value {
	ip, ip6 := cty.NullVal(cty.String), cty.NullVal(cty.String)
	addrs := cty.ListValEmpty(cty.String)
	var list []cty.Value
	for _, p := range n.Addresses {
		list = append(list, cty.StringVal(p.String()))
		if p.Addr().Is4() && ip.IsNull() {
			ip = cty.StringVal(p.Addr().String())
		} else if p.Addr().Is6() && ip6.IsNull() {
			ip6 = cty.StringVal(p.Addr().String())
		}
	}
	if list != nil {
		addrs = cty.ListVal(list)
	}
	mtu := cty.NullVal(cty.Number)
	if n.MTU > 0 {
		mtu = cty.NumberIntVal(int64(n.MTU))
	}
	if !final {
		ip, ip6, addrs, mtu = cty.UnknownVal(cty.String), cty.UnknownVal(cty.String), cty.UnknownVal(cty.List(cty.String)), cty.UnknownVal(cty.Number)
	}
	return cty.ObjectVal(map[string]cty.Value{"host": cty.StringVal(n.Host), "name": cty.StringVal(n.Name), "netdev": cty.StringVal(n.Netdev), "addresses": addrs, "ip": ip, "ip6": ip6, "mtu": mtu})
}

func (hi *hostInstance) nicsValue(final bool) cty.Value {
	out := map[string]cty.Value{}
	for block, m := range hi.nics {
		keyed := map[string]cty.Value{}
		for key, n := range m {
			if key == "" {
				out[block] = nicValue(n, final)
			} else {
				keyed[key] = nicValue(n, final)
			}
		}
		if len(keyed) > 0 {
			out[block] = cty.ObjectVal(keyed)
		}
	}
	return cty.ObjectVal(out)
}

func (l *loader) hostsValue(final bool) cty.Value {
	out, keyed := map[string]cty.Value{}, map[string]map[string]cty.Value{}
	for name := range l.keyed {
		keyed[name] = map[string]cty.Value{}
	}
	for _, hi := range l.insts {
		v := cty.ObjectVal(map[string]cty.Value{"name": cty.StringVal(hi.h.Name), "address": cty.StringVal(hi.h.Address), "nic": hi.nicsValue(final)})
		if hi.each {
			keyed[hi.h.Block][hi.h.Name] = v
		} else {
			out[hi.h.Block] = v
		}
	}
	for name, m := range keyed {
		out[name] = cty.ObjectVal(m)
	}
	return cty.ObjectVal(out)
}

// relative makes a path that the fabric's file means relative to that file.
func relative(p string, r hcl.Range) string {
	if p == "" || filepath.IsAbs(p) || strings.HasPrefix(p, "~") {
		return p
	}
	return filepath.Join(filepath.Dir(r.Filename), p)
}
