package netmanager

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/providers/netif"
)

const (
	networkdName   = "systemd-networkd"
	networkdUnit   = "systemd-networkd.service"
	networkdFolder = "/etc/systemd/network"
)

// networkd reads its files on a reload, and reports in a state file for each link which of them it uses.
var networkd = &Manager{
	Name: networkdName, Title: "networkd", Unit: networkdUnit, Detect: networkdDetect, Folder: networkdFolder,
	File: networkdPath, Render: func(ls []Link) []File {
		var out []File
		for _, l := range ls {
			out = append(out, networkdFile(l))
			if l.Device != nil {
				out = append(out, networkdDevice(l))
			}
		}
		return out
	},
	Notes: networkdNotes, Reload: []string{"networkctl", "reload"},
	// After a reload, networkd does not know that the device of a new .netdev file exists: it makes a VLAN again, which fails the device below
	// it ("Failed to create netdev: File exists"), and members wait for their bond. Seen with 257. A restart keeps devices, addresses and leases.
	Restarts: func(path, _ string) bool { return strings.HasSuffix(path, ".netdev") },
	Reports:  networkdPath, Done: networkdDone, FirstFile: true, VLANsBelow: true, DropsForeign: true, Drops: networkdDrops,
	MapsLost: true, // before systemd 254, entries whose PCP is above the priority (systemd issue 27460)
	Behind: &Behind{Renderer: "networkd", Folder: "/run/systemd/network", Before: "10-", After: ".network",
		Off: `"off"`, KeepsAddresses: true},
}

// networkdDetect reads the state file that networkd writes for each link: it names the .network file that networkd uses
// (systemd.network(5)).
func networkdDetect(ctx context.Context, r host.Reader, links []host.Link, f *Found) bool {
	if !unitActive(ctx, r, networkdUnit) {
		return false
	}
	for _, l := range links {
		file := ""
		for line := range strings.Lines(host.Text(ctx, r, "/run/systemd/netif/links/"+strconv.Itoa(l.Index))) {
			if v, is := strings.CutPrefix(strings.TrimSpace(line), "NETWORK_FILE="); is {
				file = v
			}
		}
		if file == "" {
			continue
		}
		f.Claims[l.Name] = Claim{Manager: networkdName, File: file, Exact: networkdNames(host.Text(ctx, r, file), l)}
	}
	return true
}

// networkdNames reports whether the [Match] section of a .network file identifies this link.
func networkdNames(file string, l host.Link) bool {
	section := ""
	for line := range strings.Lines(file) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section = line
		}
		key, value, is := strings.Cut(line, "=")
		if !is || section != "[Match]" {
			continue
		}
		words := strings.Fields(strings.ToLower(value))
		switch strings.TrimSpace(key) {
		case "MACAddress", "PermanentMACAddress":
			if slices.Contains(words, l.MAC) || slices.Contains(words, l.PermMAC) {
				return true
			}
		case "Name", "OriginalName":
			if slices.Contains(strings.Fields(value), l.Name) {
				return true
			}
		}
	}
	return false
}

// networkdPath returns the path of a NIC's file. It sorts before netplan's files (10-) and before files that people
// number from 10 on, because networkd uses only the first file that matches (systemd.network(5)).
func networkdPath(l Link) string { return networkdFolder + "/05-" + l.Stem() + ".network" }

// networkdFile returns a NIC's .network file (systemd.network(5)). networkd 257 was seen to adopt such a file without
// changing addresses and routes, because routes have our protocol number in the file, too.
func networkdFile(l Link) File {
	var b strings.Builder
	b.WriteString(Header(l.Fabric))
	b.WriteString("# NIC " + l.Link.Name + "\n\n[Match]\n" + networkdMatch(l))
	b.WriteString("\n[Link]\n")
	if l.MTU != 0 {
		fmt.Fprintf(&b, "MTUBytes=%d\n", l.MTU)
	}
	b.WriteString("RequiredForOnline=no\n") // a fabric without cables must not delay a boot
	if !l.Up {
		b.WriteString("ActivationPolicy=down\n")
	}
	b.WriteString("\n[Network]\n")
	b.WriteString(networkdLinkLocal(l.linkLocal()))
	fmt.Fprintf(&b, "IPv6AcceptRA=%s\n", yesNo(l.acceptRA()))
	if v, ok := map[string]string{"0": "no", "1": "prefer-public", "2": "yes"}[l.Sysctl["ipv6.conf.use_tempaddr"]]; ok {
		b.WriteString("IPv6PrivacyExtensions=" + v + "\n") // networkd would set it to 0 otherwise
	}
	if l.Master != nil {
		b.WriteString("Bond=" + l.Master.Link.Name + "\n")
	}
	for _, v := range l.VLANs {
		b.WriteString("VLAN=" + v.Link.Name + "\n")
	}
	// Keep addresses without a carrier, like the kernel.
	b.WriteString("ConfigureWithoutCarrier=yes\nIgnoreCarrierLoss=yes\n")
	for _, p := range l.Addresses {
		b.WriteString("Address=" + p.String() + "\n")
	}
	for _, r := range l.Routes {
		b.WriteString(networkdRoute(r, 0))
	}
	for _, p := range l.Policies {
		for _, r := range p.Routes {
			b.WriteString(networkdRoute(r, p.Table))
		}
		b.WriteString(networkdRule(p))
	}
	return File{Path: networkdPath(l), Mode: 0o644, Text: b.String()}
}

// networkdBond has the keys of a bond's options (systemd.netdev(5)).
var networkdBond = map[string]string{"mode": "Mode", "miimon": "MIIMonitorSec", "lacp_rate": "LACPTransmitRate",
	"xmit_hash_policy": "TransmitHashPolicy", "min_links": "MinLinks"}

// networkdDevice returns the .netdev file of a bond or VLAN (systemd.netdev(5)). networkd reads it when it starts and on a reload, and
// leaves a device that exists as it is. A VLAN has the MAC of the device below it.
func networkdDevice(l Link) File {
	var b strings.Builder
	b.WriteString(Header(l.Fabric))
	switch bond, vlan := l.Device.Bond, l.Device.VLAN; {
	case bond != nil:
		b.WriteString("\n[NetDev]\nName=" + l.Link.Name + "\nKind=bond\nMACAddress=" + l.bondMAC() + "\n\n[Bond]\n")
		for _, o := range bond.Options() {
			value := o.Value
			if o.Name == "miimon" {
				value += "ms"
			}
			b.WriteString(networkdBond[o.Name] + "=" + value + "\n")
		}
	case vlan != nil:
		fmt.Fprintf(&b, "\n[NetDev]\nName=%s\nKind=vlan\n\n[VLAN]\nId=%d\n", l.Link.Name, vlan.ID)
	}
	return File{Path: strings.TrimSuffix(networkdPath(l), ".network") + ".netdev", Mode: 0o644, Text: b.String()}
}

// networkdMatch identifies the card by its permanent address. A VLAN on the card has the same MAC, but it has a kind
// and no permanent address. A card that is declared by name must also match by name.
func networkdMatch(l Link) string {
	if l.Device != nil {
		return "Name=" + l.Link.Name + "\nKind=" + l.Device.Kind() + "\n"
	}
	if l.byName() {
		return "Name=" + l.Link.Name + "\n"
	}
	text := "MACAddress=" + l.mac() + "\n"
	if l.Link.PermMAC != "" {
		text = "PermanentMACAddress=" + l.mac() + "\n"
	}
	if l.Link.Kind == "" {
		text += "Kind=!*\n"
	}
	if l.Select.Netdev != "" {
		text += "Name=" + l.Link.Name + "\n"
	}
	return text
}

func networkdLinkLocal(mode string) string {
	switch mode {
	case "none":
		return "LinkLocalAddressing=no\n"
	case "stable-privacy", "random":
		return "LinkLocalAddressing=ipv6\nIPv6LinkLocalAddressGenerationMode=" + mode + "\n"
	}
	return "LinkLocalAddressing=ipv6\nIPv6LinkLocalAddressGenerationMode=eui64\n"
}

func networkdRoute(r netif.RouteSpec, table int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n[Route]\nDestination=%s\n", r.To.Masked())
	if r.Via.IsValid() {
		b.WriteString("Gateway=" + r.Via.String() + "\n")
		if r.OnLink {
			b.WriteString("GatewayOnLink=yes\n")
		}
	} else if r.To.Addr().Is4() {
		b.WriteString("Scope=link\n")
	}
	if r.Src.IsValid() {
		b.WriteString("PreferredSource=" + r.Src.String() + "\n")
	}
	if r.Metric != 0 {
		fmt.Fprintf(&b, "Metric=%d\n", r.Metric)
	}
	if table != 0 {
		fmt.Fprintf(&b, "Table=%d\n", table)
	}
	fmt.Fprintf(&b, "Protocol=%d\n", netif.Protocol)
	return b.String()
}

// networkdRule writes a rule without a protocol: networkd gives its rules the protocol "static", and Apply handles
// that.
func networkdRule(p netif.PolicyRouteSpec) string {
	var b strings.Builder
	b.WriteString("\n[RoutingPolicyRule]\n")
	for _, end := range []struct {
		key string
		p   netip.Prefix
	}{{"From", p.From}, {"To", p.To}} {
		if end.p.IsValid() {
			fmt.Fprintf(&b, "%s=%s\n", end.key, end.p)
		}
	}
	if !p.From.IsValid() && !p.To.IsValid() {
		b.WriteString("Family=" + map[int]string{inet: "ipv4", inet6: "ipv6"}[p.Family()] + "\n")
	}
	fmt.Fprintf(&b, "Table=%d\nPriority=%d\n", p.Table, p.Priority)
	return b.String()
}

// networkdNotes reports the settings that networkd handles in place of the kernel.
func networkdNotes(l Link) []string {
	if l.Device != nil && l.Device.Bond != nil && l.Device.Bond.XmitHash == "vlan+srcmac" { // no such name in libsystemd-shared of 252 and 257
		return []string{`networkd does not know xmit_hash = "vlan+srcmac": the bond has the hash layer2 after a reboot, until the next apply`}
	}
	if l.acceptRA() {
		return []string{"networkd handles router advertisements itself and disables them in the kernel: " +
			"ipv6.conf.accept_ra is 0 after a reboot"}
	}
	return nil
}

// networkdDone reports whether networkd has configured a link: "configuring", "failed" and other states do not count.
func networkdDone(ctx context.Context, r host.Reader, l host.Link) bool {
	raw, err := r.ReadFile(ctx, fmt.Sprintf("/run/systemd/netif/links/%d", l.Index))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(raw)) {
		if v, is := strings.CutPrefix(strings.TrimSpace(line), "ADMIN_STATE="); is {
			return v == "configured"
		}
	}
	return false
}

// networkdDrops returns the NIC whose file is removed: networkd then removes its configuration.
func networkdDrops(was, now string) []string {
	if now != "" {
		return nil
	}
	return namesAfter(was, "# NIC ")
}
