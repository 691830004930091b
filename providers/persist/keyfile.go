package persist

import (
	"crypto/sha256"
	"fmt"
	"net/netip"
	"strings"

	"github.com/fabricform/fabricform/providers/netif"
)

// keyfilePath is a profile of NetworkManager.
func keyfilePath(l link) string {
	return "/etc/NetworkManager/system-connections/" + l.file() + ".nmconnection"
}

// keyfile is a profile (nm-settings-keyfile(5)). NetworkManager ignores one that others than root may
// read. Metrics are always said, because its own defaults differ from the kernel's.
func keyfile(l link) File {
	var b strings.Builder
	b.WriteString(header(l.fabric))
	fmt.Fprintf(&b, "[connection]\nid=%s\nuuid=%s\ntype=ethernet\n", l.profile(), uuid(l.profile()))
	if l.Select.Netdev != "" {
		fmt.Fprintf(&b, "interface-name=%s\n", l.Link.Name)
	}
	if !l.Up {
		b.WriteString("autoconnect=false\n")
	}
	b.WriteString("autoconnect-priority=100\nautoconnect-retries=0\n")
	fmt.Fprintf(&b, "\n[ethernet]\nmac-address=%s\n", strings.ToUpper(l.mac()))
	if l.MTU != 0 {
		fmt.Fprintf(&b, "mtu=%d\n", l.MTU)
	}
	b.WriteString("\n[ipv4]\n" + keyfileFamily(l, inet))
	b.WriteString("\n[ipv6]\n" + keyfileFamily(l, inet6))
	return File{Path: keyfilePath(l), Mode: 0o600, Text: b.String()}
}

// keyfileNo6 is for a NIC without anything of IPv6 on it. "disabled" turns IPv6 off in the kernel; with
// "ignore" the NIC was seen to have a link-local address, whatever the sysctls said.
func keyfileNo6(l link) string {
	if l.linkLocal() == "none" && !l.acceptRA() {
		return "disabled"
	}
	return "ignore"
}

// keyfileFamily is one family's settings. Routes need no address, where the method is none that waits
// for one (allow_routes_without_address_4 and _6 in NetworkManager's nm-l3-config-data.c), and rules none
// at all.
func keyfileFamily(l link, family int) string {
	var b strings.Builder
	var addresses []netip.Prefix
	for _, p := range l.Addresses {
		if p.Addr().Is6() == (family == inet6) {
			addresses = append(addresses, p)
		}
	}
	stands := keyfileStands(l, family)
	alone := len(addresses) == 0
	switch {
	case alone && family == inet:
		b.WriteString("method=disabled\n")
	case alone && stands == "":
		b.WriteString("method=" + keyfileNo6(l) + "\n")
	case alone:
		b.WriteString("method=link-local\n") // "disabled" turns IPv6 off
	default:
		b.WriteString("method=manual\n")
		for i, p := range addresses {
			fmt.Fprintf(&b, "address%d=%s\n", i+1, p)
		}
		b.WriteString("never-default=true\nmay-fail=false\n")
	}
	if family == inet6 && (!alone || stands != "") {
		mode := map[string]string{"stable-privacy": "stable-privacy", "random": "stable-privacy"}[l.linkLocal()]
		if mode == "" {
			mode = "eui64"
		}
		b.WriteString("addr-gen-mode=" + mode + "\n")
	}
	return b.String() + stands
}

// keyfileStands are the routes and rules of one family.
func keyfileStands(l link, family int) string {
	var b strings.Builder
	n := 0
	route := func(r netif.RouteSpec, table int) {
		if r.To.Addr().Is6() == (family == inet6) {
			n++
			keyfileRoute(&b, n, r, table, family)
		}
	}
	for _, r := range l.Routes {
		route(r, 0)
	}
	rules := 0
	for _, p := range l.Policies {
		for _, r := range p.Routes {
			route(r, p.Table)
		}
		if p.Family() == family {
			rules++
			keyfileRule(&b, rules, p)
		}
	}
	return b.String()
}

// kernelMetric is what the kernel takes for a route's metric. NetworkManager has defaults of its own.
func kernelMetric(r netif.RouteSpec) int {
	if r.Metric == 0 && r.To.Addr().Is6() {
		return 1024 // IP6_RT_PRIO_USER in the kernel's include/uapi/linux/ipv6_route.h
	}
	return r.Metric
}

func keyfileRoute(b *strings.Builder, n int, r netif.RouteSpec, table, family int) {
	via := everything(family).Addr()
	if r.Via.IsValid() {
		via = r.Via
	}
	fmt.Fprintf(b, "route%d=%s,%s,%d\n", n, r.To.Masked(), via, kernelMetric(r))
	var options []string
	if r.OnLink {
		options = append(options, "onlink=true")
	}
	if r.Src.IsValid() {
		options = append(options, "src="+r.Src.String())
	}
	if table != 0 {
		options = append(options, fmt.Sprintf("table=%d", table))
	}
	if options != nil {
		fmt.Fprintf(b, "route%d_options=%s\n", n, strings.Join(options, ","))
	}
}

// keyfileRule names a prefix always: NetworkManager wants a `from` or a `to`.
func keyfileRule(b *strings.Builder, n int, p netif.PolicyRouteSpec) {
	from, to := p.From, ""
	if !from.IsValid() {
		from = everything(p.Family())
	}
	if p.To.IsValid() {
		to = " to " + p.To.String()
	}
	fmt.Fprintf(b, "routing-rule%d=priority %d from %s%s table %d\n", n, p.Priority, from, to, p.Table)
}

// uuid is the profile's identity, which follows from its name (version 8 of RFC 9562, 5.8), so that
// the same file is written each time.
func uuid(id string) string {
	u := sha256.Sum256([]byte("fabricform " + id))
	u[6] = u[6]&0x0f | 0x80
	u[8] = u[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:16])
}
