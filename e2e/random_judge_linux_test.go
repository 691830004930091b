package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// printedChange is a change as a plan's JSON prints it.
type printedChange struct {
	from, to string
	undo     bool // it belongs to what the files do not declare any more
}

// printed are the changes of one host by the name of what they change.
type printed map[string]printedChange

// printedPlan is what `plan -json` or `apply -json` printed of each host.
type printedPlan struct {
	hosts      map[string]printed
	stale, off map[string]bool // hosts that were left out: changed since the plan was made, or unreachable
	partly     map[string]bool // hosts of which links or networks were left out
	problems   []string
}

func readPlan(said string) (printedPlan, error) {
	p := printedPlan{hosts: map[string]printed{}, stale: map[string]bool{}, off: map[string]bool{}, partly: map[string]bool{}}
	for line := range strings.Lines(said) {
		var l struct {
			Type string
			Host struct {
				Name        string
				Unreachable string
				Stale       []string
				LeftOut     []json.RawMessage `json:"left_out"`
				Problems    []struct{ Message string }
				Actions     []struct {
					Op      string
					Changes []struct{ Attribute, From, To, Atom string }
				}
			}
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			return p, fmt.Errorf("%w: %s", err, line)
		}
		if l.Type != "host_plan" {
			continue
		}
		changes := printed{}
		for _, a := range l.Host.Actions {
			file := ""
			for _, c := range a.Changes {
				name := nameOf(c.Atom)
				if name == "" { // a line of the file before it
					name = file + ": " + c.Attribute
				} else if strings.HasPrefix(name, "file ") {
					file = name
				}
				changes[name] = printedChange{c.From, c.To, a.Op == "undo"}
			}
		}
		p.hosts[l.Host.Name], p.stale[l.Host.Name], p.off[l.Host.Name] = changes, l.Host.Stale != nil, l.Host.Unreachable != ""
		p.partly[l.Host.Name] = l.Host.LeftOut != nil
		for _, problem := range l.Host.Problems {
			p.problems = append(p.problems, l.Host.Name+": "+problem.Message)
		}
	}
	return p, nil
}

// nameOf is the name that things have here of an atom. A route is the kernel's, whichever block it belongs to.
func nameOf(atom string) string {
	if rest, is := strings.CutPrefix(atom, "policy_route "); is && !strings.HasPrefix(rest, "rule ") {
		return "route " + rest
	}
	return strings.TrimPrefix(atom, "nccl ")
}

// trial is what happened on one host, beside what was printed of it.
type trial struct {
	printed       printed
	before, after state
	events        []event
}

// judge returns what happened and was not printed, and what was printed and did not happen.
func (t trial) judge() (wrong []string) {
	complain := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	for _, name := range slices.Sorted(maps.Keys(t.printed)) {
		c := t.printed[name]
		before, was := t.before[name]
		after, is := t.after[name]
		// Of a route's earlier value, a plan leaves the device out.
		if !was && strings.Contains(name, " sysctl ipv6.") && t.losesIPv6(after.dev) {
			before, was = t.before["sysctl "+strings.NewReplacer("nic "+after.dev+" sysctl ", "", "ipv6.conf.", "net/ipv6/conf/default/").Replace(name)], true // addrconf_notify: IPv6 comes back with the default settings
		}
		if was != (c.from != "") || was && !strings.HasPrefix(name, "route ") && before.value != plainValue(c.from) {
			complain("printed %s: %q → %q, but it was %q before", name, c.from, c.to, before.value)
		}
		// addrconf_notify: below IPV6_MIN_MTU, what was given back of a device's IPv6 goes with it.
		if !is && c.undo && strings.Contains(name, " sysctl ipv6.") && t.losesIPv6(before.dev) {
			continue
		}
		if is != (c.to != "") || is && after.value != plainValue(c.to) {
			complain("printed %s: %q → %q, but it is %q", name, c.from, c.to, after.value)
		}
		if announced(name) && !slices.ContainsFunc(t.events, func(e event) bool { return e.name == name }) {
			complain("printed %s: %q → %q, but the kernel announced nothing of it", name, c.from, c.to)
		}
	}
	for _, name := range names(t.before, t.after) {
		before, was := t.before[name]
		after, is := t.after[name]
		if _, said := t.printed[name]; said || was == is && before.value == after.value {
			continue
		}
		if before.name == "" {
			before = after
		}
		if !t.follows(before, was && !is) {
			complain("not printed: %s: %q → %q", name, t.before[name].value, after.value)
		}
	}
	for _, e := range t.events {
		_, said := t.printed[e.name]
		_, was := t.before[e.name]
		_, is := t.after[e.name]
		if !said && !t.follows(e.thing, was && !is) && (!was || !is || !t.goesAndReturns(e.thing)) {
			complain("not printed, but announced: %s", e)
		}
	}
	return wrong
}

func names(a, b state) []string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}

// announced is whether the kernel announces changes of that thing: not of settings, and not of files.
func announced(name string) bool {
	return !strings.HasPrefix(name, "file ") && !strings.HasPrefix(name, "sysctl ") && !strings.Contains(name, " sysctl ")
}

// plainValue is a value as the kernel's files have it, without the white space that only separates.
func plainValue(printed string) string {
	if printed == "(empty)" {
		return ""
	}
	return strings.Join(strings.Fields(printed), " ")
}

// follows is whether a change that was not printed is one that the kernel itself makes, because of one that was. Each rule
// is what the named function of the kernel does.
func (t trial) follows(x thing, vanished bool) bool {
	switch {
	case strings.HasPrefix(x.name, "file ") && strings.Contains(x.name, ": "):
		// The lines of a file that is given back are not printed one by one.
		c, said := t.printed[x.name[:strings.Index(x.name, ": ")]]
		return said && c.undo
	case x.dev == "":
		return false
	case x.name == "nic "+x.dev+" sysctl ipv6.conf.mtu":
		// addrconf_notify, NETDEV_CHANGEMTU: IPv6's MTU is the device's.
		return t.says(x.dev, "mtu")
	case t.losesIPv6(x.dev) && (x.family == unix.AF_INET6 || strings.Contains(x.name, " sysctl ipv6.")):
		// addrconf_notify: below IPV6_MIN_MTU, IPv6 leaves the device; above it, it comes back with the default settings.
		return true
	case strings.HasPrefix(x.name, "nic ") && strings.Contains(x.name, " address "):
		// addrconf_dev_config makes the link-local address when the device comes up or its mode changes; addrconf_ifdown
		// removes every IPv6 address.
		if x.kernels {
			return t.says(x.dev, "state") || t.says(x.dev, "sysctl ipv6.conf.addr_gen_mode")
		}
		return x.family == unix.AF_INET6 && t.goesDown(x.dev)
	case x.kernels:
		return t.belongs(x)
	case strings.HasPrefix(x.name, "route "):
		// fib_disable_ip and rt6_disable_ip (since Linux 6.6, fib_table_flush announces routes whose preferred source went): no route leads by a device that is down, nor an IPv4 route by one without an
		// IPv4 address.
		return vanished && (t.goesDown(x.dev) || x.family == unix.AF_INET && !t.hasIPv4(x.dev) && len(t.addresses(x.dev, t.removed)) > 0)
	}
	return false
}

// belongs is whether one of the kernel's own routes belongs to an address that was printed, or to a device whose state was.
func (t trial) belongs(x thing) bool {
	which := t.changed
	if t.says(x.dev, "state") {
		which = func(string) bool { return true }
	}
	addresses := t.addresses(x.dev, which)
	linkLocal := t.says(x.dev, "state") || t.says(x.dev, "sysctl ipv6.conf.addr_gen_mode")
	if x.family == unix.AF_INET6 && (linkLocal && (x.prefix.Addr().IsLinkLocalUnicast() || x.prefix.Addr().IsMulticast())) {
		return true
	}
	for _, a := range addresses {
		// fib_add_ifaddr, addrconf_prefix_route: the address itself, its subnet, and the first and last address of that.
		if net := a.Masked(); x.prefix == net || x.prefix.IsSingleIP() && (x.prefix.Addr() == a.Addr() || x.prefix.Addr() == net.Addr() || x.prefix.Addr() == last(net)) {
			return true
		}
		// __inet_del_ifa: with the first address of a subnet, the others of that subnet go and come back.
		if x.family == unix.AF_INET && x.prefix.IsSingleIP() && a.Contains(x.prefix.Addr()) && slices.ContainsFunc(t.addresses(x.dev, t.both), func(p netip.Prefix) bool { return p.Addr() == x.prefix.Addr() }) {
			return true
		}
	}
	return false
}

// goesAndReturns is whether the kernel removes a thing on the way, because of a change that was printed, and it is put back.
func (t trial) goesAndReturns(x thing) bool {
	removed := t.addresses(x.dev, t.removed)
	switch {
	case x.dev == "":
		return false
	case t.goesDown(x.dev):
		return true
	case strings.Contains(x.name, " address "):
		// __inet_del_ifa removes the other addresses of a subnet with its first one.
		return x.family == unix.AF_INET && slices.ContainsFunc(removed, func(p netip.Prefix) bool { return p.Masked() == x.prefix.Masked() })
	case strings.HasPrefix(x.name, "route "):
		// fib_sync_down_addr and rt6_remove_prefsrc: a route goes with its preferred source.
		return slices.ContainsFunc(removed, func(p netip.Prefix) bool { return p.Addr() == x.src || x.family == unix.AF_INET && p.Addr().Is4() })
	}
	return false
}

func (t trial) says(dev, what string) bool {
	_, said := t.printed["nic "+dev+" "+what]
	return said
}

func (t trial) goesDown(dev string) bool { return t.printed["nic "+dev+" state"].to == "down" }

// losesIPv6 is whether the printed MTU of a device is below 1280, or was.
func (t trial) losesIPv6(dev string) bool {
	c := t.printed["nic "+dev+" mtu"]
	from, _ := strconv.Atoi(c.from)
	to, _ := strconv.Atoi(c.to)
	return c.to != "" && (from < 1280 || to < 1280)
}

func (t trial) hasIPv4(dev string) bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(t.after)), func(x thing) bool {
		return x.dev == dev && x.family == unix.AF_INET && strings.Contains(x.name, " address ")
	})
}

// The addresses of a device, by whether they were printed.
func (t trial) changed(name string) bool { _, said := t.printed[name]; return said }
func (t trial) removed(name string) bool { c, said := t.printed[name]; return said && c.to == "" }
func (t trial) both(string) bool         { return true }

func (t trial) addresses(dev string, which func(name string) bool) (out []netip.Prefix) {
	for _, s := range []state{t.before, t.after} {
		for _, x := range s {
			if x.dev == dev && strings.Contains(x.name, " address ") && which(x.name) {
				out = append(out, x.prefix)
			}
		}
	}
	return out
}

// last is the last address of a subnet, which in IPv4 is its broadcast address.
func last(p netip.Prefix) netip.Addr {
	raw := p.Addr().AsSlice()
	for bit := p.Bits(); bit < len(raw)*8; bit++ {
		raw[bit/8] |= 1 << (7 - bit%8)
	}
	out, _ := netip.AddrFromSlice(raw)
	return out
}
