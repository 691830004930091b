package config

import (
	"fmt"
	"maps"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/fabricform/fabricform/fabric"
)

var sysctlShape = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.\-/]*$`) })

// hostSysctls and sysctlRoots begin the keys of sysctls, of a host and of any block.
var (
	hostSysctls = []string{"net", "vm", "kernel", "fs"}
	sysctlRoots = append([]string{"ipv4", "ipv6"}, hostSysctls...)
)

// hosts expands hosts and their NICs, and decodes the attributes of NICs that use no other NIC.
func (l *loader) hosts() {
	seen := map[string]*hclsyntax.Block{}
	for _, k := range l.blocks["host"] {
		insts, ok := l.expand(k, scope{})
		if !ok {
			l.hostBlocks[k.Labels[0]].failed = true
		}
		for _, i := range insts {
			if o := seen[i.name]; o != nil {
				l.duplicate(k.DefRange(), "Duplicate host name", "Another host is named %q, at %s:%d. %s",
					i.name, o.TypeRange.Filename, o.TypeRange.Start.Line, another("host", i))
				continue
			}
			seen[i.name] = k
			l.host(k, i)
		}
	}
}

func (l *loader) host(k *hclsyntax.Block, i instance) {
	h := &fabric.Host{Block: l.place(k), Name: i.name, BlockName: k.Labels[0]}
	spec := language().block("host")
	spec.defaults(value(h))
	hi := &hostInstance{h: h, k: k, each: i.each, nics: map[string]*nicBlock{}}
	hi.s = i.s.with("self",
		self(i, cty.UnknownVal(cty.String).Mark(early{"the host's address"}), cty.DynamicVal.Mark(early{"the host's labels"})))
	if !l.attributes(spec, k.Body, hi.s, value(h), func(name string) bool { return name == "address" || name == "labels" }) {
		h.Invalid = true
	}
	if h.Address == "" {
		h.Address = h.Name
	}
	if strings.HasPrefix(h.Address, "-") ||
		strings.ContainsFunc(h.Address, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
		l.errorf(l.ranges[h.At("address")], "Address not allowed",
			"An address must not contain spaces or begin with '-': ssh would read it as an option.")
	} else if cure := plainAddress(h.Address); cure != "" {
		l.errorf(l.ranges[h.At("address")], "Address not allowed", "address must be only a name or an IP address, not %q. Write %s.", h.Address, cure)
	}
	hi.s = i.s.with("self", self(i, cty.StringVal(h.Address), labels(h)))
	l.insts = append(l.insts, hi)
	if i.on {
		l.f.Hosts = append(l.f.Hosts, h)
	}
	names := map[string]bool{}
	for _, nb := range sub(k.Body, "nic") {
		if len(nb.Labels) == 1 {
			l.nicBlock(hi, nb, i.on, names)
		}
	}
	slices.SortFunc(h.NICs, func(a, b *fabric.NIC) int { return strings.Compare(a.Name, b.Name) })
}

// plainAddress says how to write an address that has a scheme, a user, a port, a prefix length or brackets; "" if it has none.
func plainAddress(s string) string {
	host := s
	if _, rest, is := strings.Cut(host, "://"); is {
		host = rest
	}
	host, _, _ = strings.Cut(host, "/")
	user, rest, is := strings.Cut(host, "@")
	var login []string
	if is {
		host, login = rest, append(login, fmt.Sprintf("user = %q", user))
	}
	if name, port, err := net.SplitHostPort(host); err == nil {
		host, login = name, append(login, "port = "+port)
	}
	if host = strings.Trim(host, "[]"); host == s {
		return ""
	}
	cure := fmt.Sprintf("address = %q", host)
	if len(login) > 0 {
		cure += ", and in the host's ssh block: " + strings.Join(login, " and ")
	}
	return cure
}

func self(i instance, address, labels cty.Value) cty.Value {
	out := map[string]cty.Value{"name": cty.StringVal(i.name), "address": address, "labels": labels,
		"key": cty.NullVal(cty.String), "value": cty.NullVal(cty.DynamicPseudoType)}
	if each, ok := i.s["each"]; ok {
		out["key"], out["value"] = each.GetAttr("key"), each.GetAttr("value")
	}
	return cty.ObjectVal(out)
}

func (l *loader) nicBlock(hi *hostInstance, nb *hclsyntax.Block, hostOn bool, names map[string]bool) {
	insts, ok := l.expand(nb, hi.s)
	b := hi.nics[nb.Labels[0]]
	if b == nil {
		b = &nicBlock{keyed: l.repeated(nb)}
		hi.nics[nb.Labels[0]] = b
	}
	b.failed = b.failed || !ok
	for _, i := range insts {
		if names[i.name] {
			l.duplicate(nb.DefRange(), "Duplicate NIC name", "Host %s has another NIC %q. %s", hi.h.Name, i.name,
				another("NIC", i))
			if n := l.nics[fabric.NICRef{Host: hi.h.Name, NIC: i.name}]; n != nil {
				n.Invalid = true // references may mean either
			}
			continue
		}
		names[i.name] = true
		n := l.nic(nb, i, hi.h)
		l.nics[n.Ref()] = n
		l.off[n.Ref()] = !i.on || !hostOn
		b.nics = append(b.nics, n)
		if i.on {
			hi.h.NICs = append(hi.h.NICs, n)
		}
	}
}

func (l *loader) nic(k *hclsyntax.Block, i instance, h *fabric.Host) *fabric.NIC {
	n := &fabric.NIC{Block: l.place(k), Name: i.name, Host: h.Name}
	spec := language().block("host").block("nic")
	spec.defaults(value(n))
	n.Invalid = !l.attributes(spec, k.Body, i.s, value(n), nil)
	a := k.Body.Attributes
	n.AddressesSet = a["addresses"] != nil && n.Addresses != nil
	if n.Invalid {
		return n
	}
	l.selector(k, n)
	if problem := netdevProblem(n.Netdev); problem != "" {
		l.errorf(l.ranges[n.At("netdev")], "Not an interface name", "netdev %q: %s", n.Netdev, problem)
	}
	if n.HostNumber != 0 && a["addresses"] != nil {
		l.errorf(l.ranges[n.At("host_number")], "Conflicting addresses",
			"NIC %s of host %s has both addresses and host_number. Keep one.", n.Name, h.Name)
	}
	l.sysctlKeys(n.Sysctl, n.Block, false)
	return n
}

// selector checks that the block identifies its device in exactly one way.
func (l *loader) selector(k *hclsyntax.Block, n *fabric.NIC) {
	var given []string
	for what, v := range map[string]string{"netdev": n.Netdev, "match.mac": n.Match.MAC,
		"match.pci": n.Match.PCI, "match.rdma": n.Match.RDMA} {
		if v != "" {
			given = append(given, what)
		}
	}
	slices.Sort(given)
	switch len(given) {
	case 1:
	case 0:
		at := k.DefRange()
		for _, name := range []string{"match", "netdev"} { // it is set, but empty
			if a := k.Body.Attributes[name]; a != nil {
				at = a.Expr.Range()
			}
		}
		l.errorf(at, "NIC needs one selector",
			`NIC %s of host %s does not say which device it is. Set netdev, or match = { mac = … }, { pci = … } or { rdma = … }.`,
			n.Name, n.Host)
	default:
		l.errorf(k.DefRange(), "NIC needs one selector", "NIC %s of host %s has %s. Keep one.",
			n.Name, n.Host, strings.Join(given, " and "))
	}
}

// netdevProblem says why a text is not the name of an interface: the kernel's dev_valid_name (net/core/dev.c) would reject it, or
// it is a pattern, which the kernel would take literally; "": it is one.
func netdevProblem(d string) string {
	switch {
	case len(d) > 15:
		return fmt.Sprintf("an interface name has at most 15 bytes; this one has %d.", len(d))
	case d == "." || d == "..",
		strings.ContainsFunc(d, func(r rune) bool { return r == '/' || r == ':' || unicode.IsSpace(r) || unicode.IsControl(r) }):
		return "an interface name must not contain '/', ':' or spaces."
	case strings.ContainsAny(d, "*?[]{}$"):
		return "write the name of one interface, not a pattern; each interface has its own nic block."
	}
	return ""
}

// sysctlKeys checks keys below /proc/sys. A host may set keys in the trees for networking and memory; a
// NIC's keys do not contain the interface's name.
func (l *loader) sysctlKeys(m map[string]string, b fabric.Block, host bool) {
	for _, key := range slices.Sorted(maps.Keys(m)) {
		root, rest, _ := strings.Cut(strings.ReplaceAll(key, "/", "."), ".")
		r := l.keyRange(b, "sysctl", key)
		bad := !sysctlShape().MatchString(key) || strings.Contains(key, "..")
		switch plain := strings.ReplaceAll(key, "/", "."); {
		case !bad && dotsInNames(key):
			l.errorf(r, "Sysctl key not allowed", "%q mixes dots and slashes: the first one separates the parts, as in sysctl(8), "+
				"and the other stands for a dot in the name of an interface. Write %s.", key, plain)
		case host && (bad || !slices.Contains(hostSysctls, root)):
			l.errorf(r, "Sysctl key not allowed", "%q: use a key under net, vm, kernel or fs, such as net.ipv4.ip_forward.", key)
		case !host && (bad || root != "ipv4" && root != "ipv6" || strings.Count(rest, ".") < 1):
			l.errorf(r, "Sysctl key not allowed", "%q: use a key without the interface's name, such as ipv4.conf.arp_ignore.", key)
		}
	}
}

// dotsInNames reports whether a part of the key other than an interface's name has a dot.
func dotsInNames(key string) bool {
	if i := strings.IndexAny(key, "./"); i >= 0 && key[i] == '.' {
		key = strings.NewReplacer("/", ".", ".", "/").Replace(key)
	}
	parts := strings.Split(key, "/")
	for i, part := range parts {
		if strings.Contains(part, ".") && (i == 0 || parts[i-1] != "conf" && parts[i-1] != "neigh" || i == len(parts)-1) {
			return true
		}
	}
	return false
}
