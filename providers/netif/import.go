package netif

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"unicode"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// ethernetMTU is the MTU of a new Ethernet device (ETH_DATA_LEN in include/uapi/linux/if_ether.h).
const ethernetMTU = 1500

// Import drafts the NICs of the host: Ethernet ports that are up or have a setting, without those that carry the operator's connection.
// Their names are rail0, rail1, …, in the order of PCI. Bonds and VLANs of them follow.
func (nic) Import(ctx context.Context, r host.Reader, d *resource.Draft) error {
	links := slices.Clone(d.Snapshot.Links)
	slices.SortStableFunc(links, func(a, b host.Link) int { return cmp.Or(cmp.Compare(a.PCI, b.PCI), natural(a.Name, b.Name)) })
	made := map[string][]host.Link{}
	for _, l := range links {
		mac, err := net.ParseMAC(l.MAC)
		switch {
		case l.Loopback:
			leaveLoopback(d, l)
			continue
		case len(l.Name) > 15 || strings.ContainsFunc(l.Name, func(r rune) bool { return strings.ContainsRune(":*?[]{}$", r) || !unicode.IsPrint(r) }):
			d.Leave("", fmt.Sprintf("%q is a name that no file can declare: not imported; rename the device to import it", l.Name))
			continue
		case slices.Contains(d.Snapshot.Management.Devices, l.Name):
			d.Leave("", l.Name+" carries your connection: it is never imported")
			continue
		case l.Kind == KindBond || l.Kind == KindVLAN:
			made[l.Kind] = append(made[l.Kind], l)
			continue
		case l.Kind != "" && (l.Kind != "veth" || !d.Snapshot.System.Lab):
			d.Leave("", fmt.Sprintf("%s is a %s: not imported", l.Name, l.Kind))
			continue
		case err != nil || len(mac) != 6:
			d.Leave("", l.Name+" is not an Ethernet port: not imported")
			continue
		}
		n := &fabric.NIC{Name: fmt.Sprintf("rail%d", len(d.Host.NICs)), Netdev: l.Name, Up: l.Up, Persist: true, IPv6LinkLocal: "keep",
			GID: fabric.GID{Version: 2, Family: "ipv4"}}
		set, err := drafted(ctx, r, d, n, l)
		if err != nil {
			return err
		}
		if !l.Up && slices.Contains(d.Cabled, l.Name) {
			d.Note(n.Name, "it is down, and its cable was found")
		} else if !l.Up && !set {
			d.Leave("", l.Name+" is down and has no settings: not imported")
			continue
		}
		d.Host.NICs = append(d.Host.NICs, n)
	}
	if err := draftMade(ctx, r, d, made); err != nil {
		return err
	}
	leaveBroadcasts(d)
	return nil
}

// leaveLoopback remarks on addresses that somebody gave the loopback device: the kernel's own have the scope of the host.
func leaveLoopback(d *resource.Draft, l host.Link) {
	for _, a := range d.Snapshot.Addrs {
		if a.Index == l.Index && a.Scope == 0 {
			d.Leave("", fmt.Sprintf("address %s of %s: the loopback device is not imported", a.Prefix, l.Name))
		}
	}
}

// leaveBroadcasts remarks on declared addresses that have no broadcast address.
func leaveBroadcasts(d *resource.Draft) {
	var without []string
	for _, n := range d.Host.NICs {
		l := d.Snapshot.Link(n.Netdev)
		if n.AddressesSet && slices.ContainsFunc(d.Snapshot.Addrs, func(a host.Addr) bool {
			return a.Index == l.Index && a.NoBroadcast && slices.Contains(n.Addresses, a.Prefix)
		}) {
			without = append(without, n.Name)
		}
	}
	if len(without) > 0 {
		d.Leave("", fmt.Sprintf("addresses of %s have no broadcast address; addresses that apply adds have that of their subnet", strings.Join(without, ", ")))
	}
}

// drafted fills a NIC from its link. set reports whether it has any setting of its own.
func drafted(ctx context.Context, r host.Reader, d *resource.Draft, n *fabric.NIC, l host.Link) (set bool, err error) {
	if l.MTU != ethernetMTU {
		n.MTU = l.MTU
	}
	draftAddresses(d, n, l)
	if err := draftSysctls(ctx, r, d, n, l); err != nil {
		return false, err
	}
	if master := d.Snapshot.LinkByIndex(l.Master); l.Master != 0 && master != nil && master.Kind != KindBond {
		d.Leave(n.Name, fmt.Sprintf("it is a member of %s, a %s, which is not imported", master.Name, master.Kind))
	}
	carries := slices.ContainsFunc(d.Snapshot.Links, func(o host.Link) bool { return o.Kind == KindVLAN && o.Parent == l.Index })
	return carries || n.MTU != 0 || n.AddressesSet || len(n.Sysctl) > 0 || n.IPv6LinkLocal != "keep" ||
		slices.ContainsFunc(d.Snapshot.Routes, func(o host.Route) bool { return o.OutIndex == l.Index && o.Protocol != protocolKernel }), nil
}

// draftAddresses takes the addresses that somebody set. The declared set is exact, so that nothing is declared beside learned ones.
func draftAddresses(d *resource.Draft, n *fabric.NIC, l host.Link) {
	var own, learned []netip.Prefix
	var peer host.Addr
	for _, a := range d.Snapshot.Addrs {
		automatic := a.Prefix.Addr().Is6() && a.Prefix.Addr().IsLinkLocalUnicast()
		switch {
		case a.Index != l.Index || automatic:
		case a.Scope != 0:
			d.Leave(n.Name, fmt.Sprintf("address %s: its scope is not global", a.Prefix))
		case a.Dynamic || a.Temporary:
			learned = append(learned, a.Prefix)
		default:
			own = append(own, a.Prefix)
			if a.Peer.IsValid() {
				peer = a
			}
		}
	}
	if peer.Peer.IsValid() && len(learned) == 0 {
		d.Leave(n.Name, fmt.Sprintf("addresses (%s): %s has another end, %s, which no nic block can declare, and a declared set is exact",
			strings.Trim(fmt.Sprint(own), "[]"), peer.Prefix, peer.Peer))
		return
	}
	if len(learned) > 0 {
		for _, p := range own {
			d.Leave(n.Name, fmt.Sprintf("address %s: it is beside an address with a lifetime, and a declared set is exact", p))
		}
		d.Leave(n.Name, "it has addresses with a lifetime, as from DHCP or router advertisements, which are left to them")
		return
	}
	n.Addresses, n.AddressesSet = own, len(own) > 0
}

// followed are settings that follow from others, that other attributes hold, or that systemd-networkd sets on every link that it configures
// (promote_secondaries).
var followed = []string{"ipv4.conf.promote_secondaries", "ipv6.conf.addr_gen_mode", "ipv6.conf.accept_ra", "ipv6.conf.forwarding", "ipv6.conf.mtu", "ipv6.conf.stable_secret",
	"ipv4.conf.forwarding", "ipv4.conf.mc_forwarding", "ipv6.conf.mc_forwarding", "ipv4.neigh.base_reachable_time", "ipv4.neigh.retrans_time",
	"ipv6.neigh.base_reachable_time", "ipv6.neigh.retrans_time"}

// usualNeighbour are the kernel's defaults of settings of neighbours (arp_tbl in net/ipv4/arp.c and nd_tbl in net/ipv6/ndisc.c).
var usualNeighbour = map[string]string{"app_solicit": "0", "base_reachable_time_ms": "30000", "delay_first_probe_time": "5", "gc_stale_time": "60",
	"interval_probe_time_ms": "5000", "mcast_resolicit": "0", "mcast_solicit": "3", "retrans_time_ms": "1000", "ucast_solicit": "3"}

// usualOf returns the value that a new NIC gets: that of the host's defaults, or that of the kernel where a network namespace has none.
func usualOf(ctx context.Context, r host.Reader, key string) (string, bool) {
	if value, err := r.Sysctl(ctx, facts.LinkSysctl(key, "default")); err == nil {
		return value, true
	}
	_, name, _ := strings.Cut(key, ".neigh.")
	value, known := usualNeighbour[name]
	return value, known
}

// draftSysctls takes the settings that differ from those with which the host gives a new NIC.
func draftSysctls(ctx context.Context, r host.Reader, d *resource.Draft, n *fabric.NIC, l host.Link) error {
	for _, family := range []string{"ipv4", "ipv6"} {
		for _, part := range []string{"conf", "neigh"} {
			names, err := r.ReadDir(ctx, "/proc/sys/net/"+family+"/"+part+"/"+l.Name)
			if err != nil {
				continue // without IPv6, or with an MTU that is too small for it
			}
			for _, name := range names {
				key := family + "." + part + "." + name
				if slices.Contains(followed, key) || key == "ipv6.conf.disable_ipv6" && l.Master != 0 { // network managers set it on members
					continue
				}
				now, err := r.Sysctl(ctx, facts.LinkSysctl(key, l.Name))
				usual, known := usualOf(ctx, r, key)
				if err != nil || !known || sameSysctl(now, usual) {
					continue
				}
				if n.Sysctl == nil {
					n.Sysctl = map[string]string{}
				}
				n.Sysctl[key] = strings.Join(strings.Fields(now), " ")
			}
		}
	}
	if mode, err := r.Sysctl(ctx, facts.LinkSysctl("ipv6.conf.addr_gen_mode", l.Name)); err == nil {
		usual, _ := usualOf(ctx, r, "ipv6.conf.addr_gen_mode")
		declarable := mode == usual
		for name, value := range linkLocalModes {
			if mode == value && mode != usual {
				n.IPv6LinkLocal, declarable = name, true
			}
		}
		if !declarable {
			d.Leave(n.Name, fmt.Sprintf("ipv6.conf.addr_gen_mode = %s: ipv6_link_local has no word for it", mode))
		}
	}
	accepts, err := r.Sysctl(ctx, facts.LinkSysctl("ipv6.conf.accept_ra", l.Name))
	if yes := true; err == nil && n.AddressesSet && accepts != "0" {
		n.AcceptRA = &yes
		if accepts == "2" {
			d.Note(n.Name, "accept_ra is 2 on the host: it accepts router advertisements although it forwards")
		}
	}
	return nil
}

// usualSysctls are settings of a host that matter to a fabric, with the kernel's defaults (Documentation/networking/ip-sysctl.rst and
// Documentation/admin-guide/sysctl/net.rst). Settings whose default depends on the memory are not among them.
var usualSysctls = map[string]string{
	"net.ipv4.ip_forward": "0", "net.ipv6.conf.all.forwarding": "0", "net.ipv4.conf.all.arp_ignore": "0", "net.ipv4.conf.default.arp_ignore": "0",
	"net.ipv4.conf.all.arp_announce": "0", "net.ipv4.conf.default.arp_announce": "0", "net.ipv4.conf.all.arp_filter": "0",
	"net.ipv4.conf.all.rp_filter": "0", "net.ipv4.conf.default.rp_filter": "0", "net.ipv4.tcp_mtu_probing": "0", "net.ipv4.tcp_sack": "1",
	"net.ipv4.tcp_timestamps": "1", "net.ipv4.tcp_window_scaling": "1", "net.ipv4.tcp_keepalive_time": "7200", "net.ipv4.tcp_ecn": "2",
	"net.ipv4.tcp_slow_start_after_idle": "1", "net.ipv4.tcp_congestion_control": "cubic", "net.ipv4.tcp_no_metrics_save": "0", "net.ipv4.ip_local_port_range": "32768 60999",
	"net.ipv4.fib_multipath_hash_policy": "0", "net.ipv6.fib_multipath_hash_policy": "0", "net.ipv4.fib_multipath_use_neigh": "0",
	"net.ipv4.ip_nonlocal_bind": "0", "net.ipv4.neigh.default.gc_thresh1": "128", "net.ipv4.neigh.default.gc_thresh2": "512",
	"net.ipv4.neigh.default.gc_thresh3": "1024", "net.core.rmem_max": "212992", "net.core.wmem_max": "212992", "net.core.netdev_max_backlog": "1000",
	"net.core.netdev_budget": "300", "net.core.busy_poll": "0", "net.core.busy_read": "0", "kernel.numa_balancing": "1", "vm.swappiness": "60",
	"vm.zone_reclaim_mode": "0",
}

// Import drafts the settings of the host that differ from the kernel's defaults.
func (sysctl) Import(ctx context.Context, r host.Reader, d *resource.Draft) error {
	for key, usual := range usualSysctls {
		now, err := r.Sysctl(ctx, SysctlSpec{Key: key}.Path())
		shared := d.Snapshot.System.Lab && !strings.HasPrefix(key, "net.ipv") // the hosts of a lab have them together
		if err != nil || shared || sameSysctl(now, usual) {
			continue
		}
		if d.Host.Sysctl == nil {
			d.Host.Sysctl = map[string]string{}
		}
		d.Host.Sysctl[key] = strings.Join(strings.Fields(now), " ")
	}
	return nil
}

// Protocols of routes that somebody set: by ip(8), by a network manager's static routes, or by a fabric. Those of routing daemons, of DHCP
// and of router advertisements are learned (include/uapi/linux/rtnetlink.h).
const (
	protocolBoot   = 3
	protocolStatic = 4
)

// noNIC says why a route leaves by no one NIC; "" if it does.
func noNIC(r host.Route) string {
	switch kind := map[int]string{6: "blackhole", 7: "unreachable", 8: "prohibit"}[r.Type]; { // RTN_* in include/uapi/linux/rtnetlink.h
	case r.NextHops > 0:
		return "it has several next hops"
	case kind != "":
		return fmt.Sprintf("it is of the type %q", kind)
	case r.Type != unicast:
		return "it is not a unicast route"
	}
	return ""
}

// named writes a route for people.
func named(r host.Route, snap *facts.Snapshot) string {
	return strings.TrimSpace("route " + r.Dst.String() + " " + describe(r, snap))
}

// importable says why a route cannot be declared; "" if it can.
func importable(d *resource.Draft, n *fabric.NIC, r host.Route, all kernelRoutes) string {
	switch why, undeclared := noNIC(r), all.undeclared(r); {
	case why != "":
		return why
	case r.Protocol != protocolBoot && r.Protocol != protocolStatic && r.Protocol != Protocol:
		return fmt.Sprintf("it was learned (protocol %d)", r.Protocol)
	case undeclared != "":
		return undeclared
	case r.Src.IsValid() && !hasAddress(d.Host, r.Src):
		return "its source is not a declared address"
	case r.Via.IsValid() && !r.OnLink && !r.Via.IsLinkLocalUnicast() && n.AddressesSet &&
		!slices.ContainsFunc(n.Addresses, func(p netip.Prefix) bool { return p.Masked().Contains(r.Via) }):
		return "its gateway is in no declared subnet of the NIC"
	case r.Via.IsValid() && hasAddress(d.Host, r.Via):
		return "its gateway is the host itself"
	case !r.Via.IsValid() && r.OnLink:
		return "it is on-link without a gateway"
	}
	return ""
}

// leaveFurther remarks on options of an imported route that no block has.
func leaveFurther(d *resource.Draft, n *fabric.NIC, r host.Route, all kernelRoutes) {
	if p := all.preference(r); p != "" {
		d.Leave(n.Name, fmt.Sprintf("%s: it is declared without its preference %q", named(r, d.Snapshot), p))
	}
	if r.Further {
		d.Leave(n.Name, named(r, d.Snapshot)+": it is declared without its further options, such as mtu or advmss")
	}
}

func hasAddress(h *fabric.Host, a netip.Addr) bool {
	return slices.ContainsFunc(h.NICs, func(n *fabric.NIC) bool {
		return slices.ContainsFunc(n.Addresses, func(p netip.Prefix) bool { return p.Addr() == a })
	})
}

func draftRoute(r host.Route) fabric.Route {
	out := fabric.Route{To: r.Dst, Via: r.Via, Src: r.Src, OnLink: r.OnLink, Metric: r.Metric}
	if r.Metric == defaultMetric(r.Dst) {
		out.Metric = 0
	}
	return out
}

// Import drafts the routes of the main table.
func (mainRoute) Import(ctx context.Context, reader host.Reader, d *resource.Draft) error {
	all, err := readRoutes(ctx, reader)
	if err != nil {
		return err
	}
	count := map[string]int{}
	for _, r := range d.Snapshot.Routes {
		n := d.NIC(r.OutIndex)
		if r.Table != tableMain || r.Protocol == protocolKernel {
			continue
		}
		if n == nil { // those of other devices are left to whoever has the devices
			if why := noNIC(r); why != "" && (r.Protocol == protocolBoot || r.Protocol == protocolStatic) {
				d.Leave("", named(r, d.Snapshot)+": "+why)
			}
			continue
		}
		if why := importable(d, n, r, all); why != "" {
			d.Leave(n.Name, named(r, d.Snapshot)+": "+why)
			continue
		}
		name := n.Name
		if count[n.Name]++; count[n.Name] > 1 {
			name = fmt.Sprintf("%s-%d", n.Name, count[n.Name])
		}
		leaveFurther(d, n, r, all)
		d.Host.Routes = append(d.Host.Routes, &fabric.MainRoute{Route: draftRoute(r), Name: name, NIC: fabric.NICRef{NIC: n.Name}})
	}
	return nil
}

// Import drafts the rules with the routes of their tables.
func (policyRoute) Import(ctx context.Context, reader host.Reader, d *resource.Draft) error {
	all, err := readRoutes(ctx, reader)
	if err != nil {
		return err
	}
	taken := map[int]bool{}
	count := map[string]int{}
	for _, rule := range d.Snapshot.Rules {
		if rule.Table >= 253 && rule.Table <= tableLocal && !rule.Other && rule.IIF == "" && rule.OIF == "" {
			continue // the kernel's own
		}
		n, routes, why := draftTable(d, rule, all)
		switch {
		case rule.Other || rule.IIF != "" || rule.OIF != "" || rule.Mark != 0:
			why = "it has selectors that a policy_route does not have"
		case rule.Table == 0: // RT_TABLE_UNSPEC
			why = "it leads to no table: it is a blackhole, unreachable, prohibit or nop rule"
		case why == "" && taken[rule.Table]:
			why = fmt.Sprintf("table %d belongs to another rule already", rule.Table)
		}
		if why != "" {
			d.Leave("", fmt.Sprintf("rule %s%s: %s", describeRule(rule), furtherSelectors(rule), why))
			continue
		}
		taken[rule.Table] = true
		p := &fabric.PolicyRoute{Name: n.Name, NIC: fabric.NICRef{NIC: n.Name}, From: rule.From, To: rule.To, Table: rule.Table, Priority: rule.Priority, Routes: routes}
		if count[n.Name]++; count[n.Name] > 1 {
			p.Name = fmt.Sprintf("%s-%d", n.Name, count[n.Name])
		}
		d.Host.Policy = append(d.Host.Policy, p)
	}
	for _, r := range d.Snapshot.Routes {
		if n := d.NIC(r.OutIndex); n != nil && r.Table != tableMain && !taken[r.Table] && r.Protocol != protocolKernel {
			d.Leave(n.Name, fmt.Sprintf("%s in table %d: no rule of its own leads to the table", named(r, d.Snapshot), r.Table))
		}
	}
	return nil
}

// furtherSelectors are those that no policy_route has, as ip(8) writes them.
func furtherSelectors(r host.Rule) (out string) {
	if r.IIF != "" {
		out += " iif " + r.IIF
	}
	if r.OIF != "" {
		out += " oif " + r.OIF
	}
	if r.Mark != 0 {
		out += fmt.Sprintf(" fwmark %#x", r.Mark)
	}
	return out
}

// draftTable returns the routes of a rule's table, which must all leave by one NIC. why says what cannot be declared.
func draftTable(d *resource.Draft, rule host.Rule, all kernelRoutes) (n *fabric.NIC, routes []fabric.Route, why string) {
	for _, r := range d.Snapshot.Routes {
		if r.Table != rule.Table || (rule.Family == inet) != r.Dst.Addr().Is4() || r.Protocol == protocolKernel {
			continue
		}
		on := d.NIC(r.OutIndex)
		switch {
		case on == nil && noNIC(r) != "":
			return nil, nil, fmt.Sprintf("%s of its table cannot be declared: %s", named(r, d.Snapshot), noNIC(r))
		case on == nil:
			return nil, nil, "a route of its table leaves by a device that is not imported"
		case n != nil && n != on:
			return nil, nil, "the routes of its table leave by several NICs"
		}
		n = on
		if why := importable(d, n, r, all); why != "" {
			d.Leave(n.Name, fmt.Sprintf("%s in table %d: %s", named(r, d.Snapshot), r.Table, why))
			continue
		}
		leaveFurther(d, n, r, all)
		routes = append(routes, draftRoute(r))
	}
	switch {
	case len(routes) == 0:
		return n, nil, "its table has no route that can be declared"
	case rule.From.IsValid() && rule.From.IsSingleIP() && n.AddressesSet && !hasAddress(d.Host, rule.From.Addr()):
		return n, nil, "it is for an address that no imported NIC has"
	}
	return n, routes, ""
}

// natural compares names so that ens2 comes before ens10.
func natural(a, b string) int {
	cut := func(s string) (head string, number int, tail string) {
		i := strings.IndexFunc(s, func(r rune) bool { return r >= '0' && r <= '9' })
		if i < 0 {
			return s, -1, ""
		}
		j := i
		for j < len(s) && s[j] >= '0' && s[j] <= '9' && j-i < 9 {
			number = number*10 + int(s[j]-'0')
			j++
		}
		return s[:i], number, s[j:]
	}
	for a != b {
		headA, numberA, tailA := cut(a)
		headB, numberB, tailB := cut(b)
		if c := cmp.Or(cmp.Compare(headA, headB), cmp.Compare(numberA, numberB)); c != 0 {
			return c
		}
		if tailA == a || tailB == b || tailA == "" && tailB == "" {
			return cmp.Compare(a, b)
		}
		a, b = tailA, tailB
	}
	return 0
}
