package config

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strconv"
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

// dottedNumbers is a mistyped IPv4 address: ssh would look it up as a name, or take 10.1 for 10.0.0.1.
var dottedNumbers = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9]+(\.[0-9]*)+$`) })

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
	hi := &hostInstance{h: h, k: k, each: i.each, nics: map[string]map[string]*nicBlock{}}
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
	if _, err := netip.ParseAddr(h.Address); err != nil && dottedNumbers().MatchString(h.Address) {
		l.errorf(l.ranges[h.At("address")], "Address not allowed", "%q looks like an IPv4 address, but is not one: it needs four numbers from 0 to 255, "+
			"without leading zeros.", h.Address)
	}
	hi.s = i.s.with("self", self(i, cty.StringVal(h.Address), labels(h)))
	l.insts = append(l.insts, hi)
	if i.on {
		l.f.Hosts = append(l.f.Hosts, h)
	}
	names := map[string]string{}
	s := hi.s
	for _, kind := range nicKinds { // a bond refers to NICs, and a VLAN to NICs and bonds
		hi.nics[kind] = map[string]*nicBlock{}
		for _, nb := range sub(k.Body, kind) {
			if len(nb.Labels) == 1 {
				l.nicBlock(hi, nb, s, i.on, names)
			}
		}
		s = s.with(kind, hi.nicsValue(kind, false))
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

// nicBlock expands a nic, bond or vlan block. names has the kinds of the names that the host has already.
func (l *loader) nicBlock(hi *hostInstance, nb *hclsyntax.Block, s scope, hostOn bool, names map[string]string) {
	insts, ok := l.expand(nb, s)
	b := hi.nics[nb.Type][nb.Labels[0]]
	if b == nil {
		b = &nicBlock{keyed: l.repeated(nb), keys: map[fabric.NICRef]string{}}
		hi.nics[nb.Type][nb.Labels[0]] = b
	}
	b.failed = b.failed || !ok
	if nb.Type != "nic" {
		insts = l.labelled(nb, insts) // their keys may be those of the NICs below them
	}
	for _, i := range insts {
		if other := names[i.name]; other != "" && other != nb.Type {
			l.duplicate(nb.DefRange(), "Duplicate NIC name", "Host %s has a %s and a %s named %q. Rename one: messages name both by it.",
				hi.h.Name, other, nb.Type, i.name)
			l.nics[fabric.NICRef{Host: hi.h.Name, NIC: i.name}].Invalid = true
			continue
		} else if other != "" {
			l.duplicate(nb.DefRange(), "Duplicate NIC name", "Host %s has another NIC %q. %s", hi.h.Name, i.name,
				another("NIC", i))
			if n := l.nics[fabric.NICRef{Host: hi.h.Name, NIC: i.name}]; n != nil {
				n.Invalid = true // references may mean either
			}
			continue
		}
		names[i.name] = nb.Type
		n := l.nic(nb, i, hi.h)
		b.keys[n.Ref()] = i.key
		l.nics[n.Ref()] = n
		l.off[n.Ref()] = !i.on || !hostOn
		b.nics = append(b.nics, n)
		if i.on {
			hi.h.NICs = append(hi.h.NICs, n)
		}
	}
}

// nic decodes a nic, bond or vlan block.
func (l *loader) nic(k *hclsyntax.Block, i instance, h *fabric.Host) *fabric.NIC {
	n := l.decodeNIC(k, i, h)
	n.Name, n.Host = i.name, h.Name
	a := k.Body.Attributes
	n.AddressesSet = a["addresses"] != nil && n.Addresses != nil
	if n.Invalid {
		return n
	}
	if n.Kind() == "nic" {
		l.selector(k, n)
	}
	problem := netdevProblem(n.Netdev)
	if n.Kind() != "nic" && problem == "" {
		problem = madeProblem(n.Netdev)
	}
	if problem != "" {
		if n.Kind() != "nic" && k.Body.Attributes["netdev"] == nil {
			problem += " The block names the interface: set netdev to another name."
		}
		l.errorf(l.ranges[n.At("netdev")], "Not an interface name", "netdev %q: %s", n.Netdev, problem)
	}
	if n.HostNumber != 0 && a["addresses"] != nil {
		l.errorf(l.ranges[n.At("host_number")], "Conflicting addresses",
			"NIC %s of host %s has both addresses and host_number. Keep one.", n.Name, h.Name)
	}
	l.sysctlKeys(n.Sysctl, n.Block, false)
	return n
}

// decodeNIC decodes the attributes. The device that is made for a bond or VLAN has the name of the block or its key, unless the block names it.
func (l *loader) decodeNIC(k *hclsyntax.Block, i instance, h *fabric.Host) *fabric.NIC {
	spec := language().block("host").block(k.Type)
	decode := func(into reflect.Value, n *fabric.NIC) *fabric.NIC {
		spec.defaults(into)
		n.Block = l.place(k)
		n.Invalid = !l.attributes(spec, k.Body, i.s, into, nil)
		return n
	}
	netdev := cmp.Or(i.key, k.Labels[0])
	switch k.Type {
	case "bond":
		b := &fabric.BondBlock{}
		n := decode(value(b), &b.NIC)
		n.Bond, n.Netdev = &b.Bond, cmp.Or(b.Netdev, netdev)
		if i.on {
			l.below(n, h, "nics", b.NICs...)
		}
		return n
	case "vlan":
		v := &fabric.VLANBlock{}
		n := decode(value(v), &v.NIC)
		n.VLAN, n.Netdev = &v.VLAN, cmp.Or(v.Netdev, netdev)
		if i.on {
			l.below(n, h, "on", v.On)
		}
		return n
	}
	n := &fabric.NIC{}
	return decode(value(n), n)
}

// below checks that what a bond or VLAN refers to are NICs of its host.
func (l *loader) below(n *fabric.NIC, h *fabric.Host, attr string, refs ...fabric.NICRef) {
	for _, r := range refs {
		if !n.Invalid && !l.own(r, h, n.Block, attr) {
			n.Invalid = true
		}
	}
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

// madeShape matches names that are safe in files of network managers and in commands. The kernel expands a name with '%d'.
var madeShape = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`) })

// madeProblem says why a device of that name is not made; "": it is.
func madeProblem(d string) string {
	switch {
	case d == "all" || d == "default": // sysctl_dev_name_is_allowed of include/net/ip.h
		return "the kernel keeps this name for sysctls of all interfaces."
	case d == "lo" || d == "bonding_masters":
		return "the kernel has this name already."
	case !madeShape().MatchString(d):
		return "the name of a bond or VLAN begins with a letter or digit and has only letters, digits, '.', '_' and '-'."
	}
	return ""
}

// sysctlKeys checks keys below /proc/sys, and that no value is empty or a boolean. A host may set keys in the trees for networking and memory; a
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
		case m[key] == "":
			l.errorf(r, "Empty value", "%s has no value. Write one, or remove the key.", key)
		case m[key] == "true" || m[key] == "false": // proc_dointvec of kernel/sysctl.c accepts digits alone
			l.errorf(r, "Not a number", "%s is %s, but the kernel accepts only numbers. Write %d.", key, m[key], map[string]int{"true": 1}[m[key]])
		case inBytes(m[key]) != "":
			l.errorf(r, "Not a number", "%s is %q, but the kernel accepts no units. Write \"%s\".", key, m[key], inBytes(m[key]))
		}
	}
}

var sizeOrNumber = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)^(\d{1,9})(?:([kmg])(?:i?b)?)?$`) })

// inBytes writes sizes in a list of numbers in bytes: K is 1024, as in /proc. It returns "" for other values, and for numbers alone.
func inBytes(value string) string {
	words, sized := strings.Fields(value), false
	for i, word := range words {
		at := sizeOrNumber().FindStringSubmatch(word)
		if at == nil {
			return ""
		}
		if at[2] != "" {
			n, _ := strconv.Atoi(at[1]) // nine digits
			words[i], sized = strconv.Itoa(n<<(10*(1+strings.Index("kmg", strings.ToLower(at[2]))))), true
		}
	}
	if !sized {
		return ""
	}
	return strings.Join(words, " ")
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
