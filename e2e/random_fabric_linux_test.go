package e2e

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// draft is a random fabric, from which its files are written. What it declares is drawn so that the files are valid; what
// the hosts have when it is planned is not its concern.
type draft struct {
	name   string
	hosts  []*draftHost
	cables []*draftCable
	nccl   string // the value of NCCL_DEBUG; "" without an nccl block
}

type draftHost struct {
	name   string
	sysctl map[string]string
	nics   []*draftNIC
}

// draftNIC is a NIC with what its host declares beside it.
type draftNIC struct {
	host, name string
	gone       bool   // not in the files any more
	up         bool   // the default
	linkLocal  string // the mode of its IPv6 link-local address; "" for the default
	sysctl     map[string]string
	secondary  bool // another address in the same subnet, where the NIC declares its addresses
	routes     []draftRoute
	policy     []draftRoute // routes of a policy route; nil without one
	cable      *draftCable
	number     int // of its address in the cable's subnet
}

type draftRoute struct {
	to     string
	onLink bool // without a gateway in the cable's subnet
	metric int
	src    bool // with the NIC's own address as its preferred source
}

// draftCable is a link of two NICs, or a network of several.
type draftCable struct {
	name    string
	number  int
	network bool
	gone    bool
	nics    []*draftNIC
	byNIC   bool // each NIC declares its addresses, instead of the link
	second  bool // they are in a second subnet, too
	subnet  int  // which of the possible ones
	bits    int  // of the IPv4 subnet
	v6      bool // an IPv6 subnet beside it
	mtu     int  // 0 undeclared
}

var draftSysctls = map[string][]string{
	"net.ipv4.tcp_mtu_probing": {"0", "1", "2"}, "net.ipv4.tcp_sack": {"0", "1"}, "net.ipv4.tcp_keepalive_time": {"7200", "600", "90"},
	"net.ipv4.ip_local_port_range": {"20000 60000", "32768 60999"},
}

var draftNICSysctls = map[string][]string{
	"ipv4.conf.arp_ignore": {"0", "1", "2"}, "ipv4.conf.arp_announce": {"0", "2"}, "ipv4.conf.rp_filter": {"0", "2"},
	"ipv4.neigh.gc_stale_time": {"60", "120"}, "ipv6.conf.use_tempaddr": {"-1", "0"},
}

// newDraft draws a fabric of two to six hosts.
func newDraft(r *rand.Rand, name string) *draft {
	d := &draft{name: name}
	for i := range 2 + r.IntN(5) {
		d.hosts = append(d.hosts, &draftHost{name: fmt.Sprintf("h%d", i+1), sysctl: some(r, draftSysctls)})
	}
	for range 1 + r.IntN(len(d.hosts)) {
		d.cable(r, false, 2)
	}
	if r.IntN(2) == 0 {
		d.cable(r, true, 2+r.IntN(len(d.hosts)-1))
	}
	if r.IntN(3) > 0 {
		d.nccl = pick(r, "INFO", "WARN", "VERSION")
	}
	return d
}

// cable draws a cable between that many hosts, with a NIC on each.
func (d *draft) cable(r *rand.Rand, network bool, ends int) {
	c := &draftCable{name: fmt.Sprintf("c%d", len(d.cables)), number: len(d.cables) + 1, network: network}
	c.draw(r)
	for i, at := range r.Perm(len(d.hosts))[:ends] {
		h := d.hosts[at]
		n := &draftNIC{host: h.name, name: fmt.Sprintf("e%d", len(h.nics)), cable: c, number: i + 1}
		h.nics, c.nics = append(h.nics, n), append(c.nics, n)
		n.draw(r)
	}
	d.cables = append(d.cables, c)
}

// draw draws what both ends of a cable share.
func (c *draftCable) draw(r *rand.Rand) {
	c.byNIC, c.second, c.subnet, c.bits, c.v6 = !c.network && r.IntN(2) == 0, r.IntN(3) == 0, r.IntN(4), pick(r, 28, 29), r.IntN(2) == 0
	// Below 1280 there is no IPv6: netif refuses addresses there.
	if c.mtu = pick(r, 0, 1500, 2000, 4200, 9000, 1000); c.v6 {
		c.mtu = max(c.mtu, 1500)
	}
}

// draw draws what a NIC declares for itself.
func (n *draftNIC) draw(r *rand.Rand) {
	n.up, n.linkLocal, n.sysctl, n.secondary, n.routes, n.policy = r.IntN(10) > 0, pick(r, "", "", "eui64", "none"), some(r, draftNICSysctls), r.IntN(3) == 0, nil, nil
	if n.cable.mtu > 0 && n.cable.mtu < 1280 {
		n.linkLocal = ""
		delete(n.sysctl, "ipv6.conf.use_tempaddr") // there is no /proc/sys/net/ipv6/conf of the NIC then
	}
	if !n.up {
		return // without a NIC that is up, no route can be made
	}
	n.routes, n.policy = n.someRoutes(r, 0), n.someRoutes(r, 1)
}

// someRoutes draws routes to networks that belong to the NIC and to the table.
func (n *draftNIC) someRoutes(r *rand.Rand, table int) (out []draftRoute) {
	for i := range r.IntN(3) {
		to := fmt.Sprintf("172.%d.%d.0/24", 16+table*8+i, 10*n.cable.number+n.number)
		out = append(out, draftRoute{to: to, onLink: r.IntN(3) == 0, metric: pick(r, 0, 0, 50), src: r.IntN(3) == 0})
	}
	return out
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// some draws a few of the keys, with a value each.
func some(r *rand.Rand, from map[string][]string) map[string]string {
	out := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(from)) {
		if r.IntN(3) == 0 {
			out[key] = pick(r, from[key]...)
		}
	}
	return out
}

// edit changes the draft as its owner would edit the files: values, blocks that go, and blocks that come back.
func (d *draft) edit(r *rand.Rand) {
	for range 2 {
		c := pick(r, d.cables...)
		n, h := pick(r, c.nics...), pick(r, d.hosts...)
		switch r.IntN(9) {
		case 0, 1:
			c.draw(r)
			for _, n := range c.nics {
				n.draw(r)
			}
		case 2, 3:
			n.draw(r)
		case 4:
			n.routes = n.someRoutes(r, 0)
		case 5:
			n.policy = n.someRoutes(r, 1)
		case 6:
			h.sysctl = some(r, draftSysctls)
		case 7:
			d.nccl = pick(r, "", "INFO", "WARN")
		case 8: // a cable goes with its NICs, or comes back
			c.gone = !c.gone
			for _, n := range c.nics {
				n.gone = c.gone
			}
		}
	}
	for _, c := range d.cables {
		for _, n := range c.nics {
			if !n.up {
				n.routes, n.policy = nil, nil
			}
		}
	}
}

// address is the NIC's IPv4 address in the subnet of its cable.
func (n *draftNIC) address(number int) string {
	return fmt.Sprintf("10.%d.%d.%d", n.cable.number, n.cable.subnet, number)
}

// addresses are those that the NIC declares itself.
func (n *draftNIC) addresses() []string {
	out := []string{fmt.Sprintf("%s/%d", n.address(n.number), n.cable.bits)}
	if n.cable.v6 {
		out = append(out, fmt.Sprintf("fd00:%d:%d::%d/64", n.cable.number, n.cable.subnet, n.number))
	}
	if n.secondary {
		out = append(out, fmt.Sprintf("%s/%d", n.address(n.number+2), n.cable.bits))
	}
	if n.cable.second {
		out = append(out, fmt.Sprintf("10.%d.%d.%d/24", n.cable.number, 100+n.cable.subnet, n.number))
	}
	return out
}

// text is the fabric's file. With bare, it has only what a lab is built from: every NIC and every cable.
func (d *draft) text(bare bool) string {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	say("fabric %q {}", d.name)
	if d.nccl != "" && !bare {
		say("nccl {\n  env = { NCCL_DEBUG = %q }\n}", d.nccl)
	}
	for _, h := range d.hosts {
		say("host %q {", h.name)
		if !bare {
			sayMap(say, h.sysctl)
		}
		for _, n := range h.nics {
			if bare {
				say("  nic %q {\n    netdev = %q\n  }", n.name, n.name)
			} else if !n.gone {
				n.say(say)
			}
		}
		say("}")
	}
	for _, c := range d.cables {
		if bare || !c.gone {
			c.say(say, bare)
		}
	}
	return b.String()
}

func sayMap(say func(string, ...any), m map[string]string) {
	if len(m) == 0 {
		return
	}
	say("  sysctl = {")
	for _, key := range slices.Sorted(maps.Keys(m)) {
		say("    %q = %q", key, m[key])
	}
	say("  }")
}

func (n *draftNIC) say(say func(string, ...any)) {
	say("  nic %q {\n    netdev = %q\n    up = %v", n.name, n.name, n.up)
	if n.linkLocal != "" {
		say("    ipv6_link_local = %q", n.linkLocal)
	}
	if n.cable.network {
		say("    host_number = %d", n.number)
	}
	if n.cable.byNIC {
		say("    addresses = [\"%s\"]", strings.Join(n.addresses(), `", "`))
	}
	sayMap(say, n.sysctl)
	say("  }")
	for i, r := range n.routes {
		say("  route \"%s-%d\" {\n    nic = nic.%s", n.name, i, n.name)
		r.say(say, n)
		say("  }")
	}
	if len(n.policy) == 0 {
		return
	}
	say("  policy_route %q {\n    nic = nic.%s\n    from = nic.%s.ip\n    table = %d", n.name, n.name, n.name, 100+n.cable.number)
	for _, r := range n.policy {
		say("    route {")
		r.say(say, n)
		say("    }")
	}
	say("  }")
}

func (r draftRoute) say(say func(string, ...any), n *draftNIC) {
	via := n.address(n.number%len(n.cable.nics) + 1)
	if r.onLink {
		via = "192.0.2.1"
	}
	say("    to = %q\n    via = %q", r.to, via)
	if r.onLink {
		say("    on_link = true")
	}
	if r.metric > 0 {
		say("    metric = %d", r.metric)
	}
	if r.src {
		say("    src = %q", n.address(n.number))
	}
}

func (c *draftCable) say(say func(string, ...any), bare bool) {
	var ends []string
	for _, n := range c.nics {
		ends = append(ends, fmt.Sprintf("host.%s.nic.%s", n.host, n.name))
	}
	kind, key := "link", "endpoints"
	if c.network {
		kind, key = "network", "members"
	}
	say("%s %q {\n  %s = [%s]", kind, c.name, key, strings.Join(ends, ", "))
	if !bare && !c.byNIC {
		subnets := []string{fmt.Sprintf("\"10.%d.%d.0/%d\"", c.number, c.subnet, c.bits)}
		if c.v6 {
			subnets = append(subnets, fmt.Sprintf("\"fd00:%d:%d::/64\"", c.number, c.subnet))
		}
		say("  subnet = [%s]", strings.Join(subnets, ", "))
	}
	if !bare && c.mtu > 0 {
		say("  mtu = %d", c.mtu)
	}
	say("}")
}
