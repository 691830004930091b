package persist

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/providers/netif"
)

// netplanPath is one file for all NICs of a fabric: netplan reads all files as one.
func netplanPath(fabric string) string { return "/etc/netplan/90-" + base(fabric) + ".yaml" }

// netplanID names a NIC in netplan's files and in those that it makes. It comes first, so that of
// networkd's files ours is read before one that somebody has for all NICs of a pattern.
func netplanID(l link) string { return "00-" + l.file() }

// netplan is the file for netplan (netplan-yaml(5)). Mode 0600, or it warns. NICs are told by their
// MAC and get their name again: netplan writes a .link file for the MTU, which takes the place of
// the one that would have named the NIC.
func netplan(fabric string, links []link) File {
	var b strings.Builder
	b.WriteString(header(fabric) + "network:\n  version: 2\n  ethernets:\n")
	for _, l := range links {
		fmt.Fprintf(&b, "    %s:\n      match: {macaddress: %q}\n      set-name: %q\n", netplanID(l), l.mac(), l.Link.Name)
		if l.MTU != 0 {
			fmt.Fprintf(&b, "      mtu: %d\n", l.MTU)
		}
		fmt.Fprintf(&b, "      optional: true\n      dhcp4: false\n      dhcp6: false\n      accept-ra: %t\n", l.acceptRA())
		if l.behind == facts.Networkd { // addresses stay without a carrier, as the kernel itself keeps them
			b.WriteString("      ignore-carrier: true\n")
		}
		switch {
		case l.Up:
		case l.behind == facts.NetworkManager: // it knows no "off"
			b.WriteString("      activation-mode: manual\n")
		default:
			b.WriteString("      activation-mode: \"off\"\n")
		}
		if l.linkLocal() == "none" {
			b.WriteString("      link-local: []\n")
		} else {
			b.WriteString("      link-local: [ipv6]\n")
		}
		if l.linkLocal() == "eui64" && (l.behind != facts.NetworkManager || l.has6()) {
			b.WriteString("      ipv6-address-generation: eui64\n")
		}
		b.WriteString(netplanAddresses(l) + netplanRoutes(l) + netplanRules(l))
	}
	return File{Path: netplanPath(fabric), Mode: 0o600, Text: b.String()}
}

func netplanAddresses(l link) string {
	if len(l.Addresses) == 0 {
		return ""
	}
	text := "      addresses:\n"
	for _, p := range l.Addresses {
		text += fmt.Sprintf("        - %q\n", p)
	}
	return text
}

func netplanRoutes(l link) string {
	var b strings.Builder
	one := func(r netif.RouteSpec, table int) {
		fmt.Fprintf(&b, "        - {to: %q", r.To.Masked())
		if r.Via.IsValid() {
			fmt.Fprintf(&b, ", via: %q", r.Via)
		} else {
			b.WriteString(", scope: link")
		}
		if r.OnLink {
			b.WriteString(", on-link: true")
		}
		if r.Src.IsValid() {
			fmt.Fprintf(&b, ", from: %q", r.Src)
		}
		switch {
		case l.behind == facts.NetworkManager:
			fmt.Fprintf(&b, ", metric: %d", kernelMetric(r))
		case r.Metric != 0:
			fmt.Fprintf(&b, ", metric: %d", r.Metric)
		}
		if table != 0 {
			fmt.Fprintf(&b, ", table: %d", table)
		}
		b.WriteString("}\n")
	}
	for _, r := range l.Routes {
		one(r, 0)
	}
	for _, p := range l.Policies {
		for _, r := range p.Routes {
			one(r, p.Table)
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "      routes:\n" + b.String()
}

// netplanRules says "all" as a prefix, because netplan wants a `from` or a `to`.
func netplanRules(l link) string {
	var b strings.Builder
	for _, p := range l.Policies {
		from, to := p.From, p.To
		if !from.IsValid() && !to.IsValid() {
			from = everything(p.Family())
		}
		b.WriteString("        - {")
		if from.IsValid() {
			fmt.Fprintf(&b, "from: %q, ", from)
		}
		if to.IsValid() {
			fmt.Fprintf(&b, "to: %q, ", to)
		}
		fmt.Fprintf(&b, "table: %d, priority: %d}\n", p.Table, p.Priority)
	}
	if b.Len() == 0 {
		return ""
	}
	return "      routing-policy:\n" + b.String()
}

// everything is the prefix of all addresses of a family.
func everything(family int) netip.Prefix {
	if family == inet6 {
		return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
}

func (l link) has6() bool {
	for _, p := range l.Addresses {
		if p.Addr().Is6() {
			return true
		}
	}
	return false
}
