package netmanager

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/providers/netif"
)

const netplanFolder = "/etc/netplan"

var netplanFolders = []string{"/lib/netplan", netplanFolder, "/run/netplan"}

// netplan generates files for the manager behind it, which reports the files that it uses.
var netplan = &Manager{
	Name: "netplan", Front: true, Detect: netplanDetect,
	Made:   func(behind *Behind, file string) bool { return strings.HasPrefix(file, behind.output()) },
	Folder: netplanFolder,
	File:   func(l Link) string { return netplanPath(l.Fabric) }, Render: func(ls []Link) []File { return []File{netplanFile(ls)} },
	Holds:   func(l Link, text string) bool { return slices.Contains(netplanNamed(text), l.Link.Name) },
	Stanzas: netplanStanzas, Check: checkNetplan, Reload: []string{"netplan", "generate"},
	Reports: func(l Link) string { return l.Behind.Behind.output() + netplanID(l) + l.Behind.Behind.After },
	Restarts: func(_, text string) bool {
		return strings.Contains(text, "\n  bonds:\n") || strings.Contains(text, "\n  vlans:\n")
	},
	Profiles:   netplanProfiles,
	NoProtocol: true, VLANsBelow: true, MapsLost: true, Drops: netplanDrops,
}

// netplanDetect looks for netplan's files, which any of three folders may hold (netplan-generate(8)).
func netplanDetect(ctx context.Context, r host.Reader, _ []host.Link, f *Found) bool {
	found := false
	for _, dir := range netplanFolders {
		for _, name := range filesIn(ctx, r, dir, ".yaml") {
			found = true
			if v := netplanRenderer(host.Text(ctx, r, path.Join(dir, name))); v != "" {
				f.renderer = v
			}
		}
	}
	return found
}

// netplanRenderer returns the renderer for all links of a netplan file: the key directly below `network`, found by its
// indentation. Ubuntu's installers write files of this form. For other forms it returns "", and the active manager
// decides.
func netplanRenderer(yaml string) string {
	depth := -1
	for line := range strings.Lines(yaml) {
		text := strings.TrimSpace(line)
		if text == "" || strings.HasPrefix(text, "#") || text == "network:" {
			continue
		}
		in := len(line) - len(strings.TrimLeft(line, " "))
		if depth < 0 {
			depth = in
		}
		if v, is := strings.CutPrefix(text, "renderer:"); is && in == depth {
			return strings.Trim(strings.TrimSpace(v), `"'`)
		}
	}
	return ""
}

// netplanPath returns the path of the one file for all NICs of a fabric.
func netplanPath(fabric string) string { return netplanFolder + "/90-" + Base(fabric) + ".yaml" }

// netplanID returns the name of a NIC in netplan's files and in the files that netplan generates. It sorts first, so
// that networkd reads our file before a file with a pattern that also matches the NIC.
func netplanID(l Link) string {
	if l.Device != nil {
		return l.Link.Name // netplan makes devices by this name
	}
	return "00-" + l.Stem()
}

// output returns the prefix of the paths of the files that netplan generates for the manager behind it.
func (b *Behind) output() string { return b.Folder + "/" + b.Before + "netplan-" }

// netplanNames is the key before the name of a NIC, and netplanDevices the comment before that of a link without this key.
const (
	netplanNames   = "      set-name: "
	netplanDevices = "      # device: "
)

// netplanLinkLocal is the line of a NIC with a link-local address, and netplanGeneration the key before how it is made.
const (
	netplanLinkLocal  = "      link-local: [ipv6]"
	netplanGeneration = "      ipv6-address-generation: "
)

// netplanMembers is the key before the members of a bond, which come in an earlier section.
const netplanMembers = "      interfaces: "

// netplanUUID is the key before the UUID of a NIC's profile (netplan 0.102 and later).
const netplanUUID = "      networkmanager:\n        uuid: "

// netplanProfiles returns the profiles that netplan makes of the links in our file for NetworkManager.
func netplanProfiles(_, text string) (out []Profile) {
	profileOf := func(id string) string { return networkManager.Behind.output() + id + networkManager.Behind.After }
	section, list := "", false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		key, is := strings.CutSuffix(strings.TrimLeft(line, " "), ":")
		switch depth := len(line) - len(strings.TrimLeft(line, " ")); {
		case depth == 2:
			section = key
		case strings.HasPrefix(line, netplanMembers):
			ids := strings.Split(strings.Trim(strings.TrimPrefix(line, netplanMembers), "[]"), ", ")
			for i := range out {
				out[i].Port = out[i].Port || slices.ContainsFunc(ids, func(id string) bool { return out[i].File == profileOf(id) })
			}
		case !slices.Contains(netplanSections, section):
		case depth == 4 && is:
			out = append(out, Profile{File: profileOf(key), Device: netplanKinds[section]})
		case len(out) == 0:
		case depth == 6:
			list = key == "addresses"
			if mode, is := strings.CutPrefix(line, netplanGeneration); is {
				out[len(out)-1].LinkLocal = mode
			} else if line == netplanLinkLocal { // comes first
				out[len(out)-1].LinkLocal = "eui64" // NetworkManager's default for a keyfile
			}
			if names := netplanNamed(line); names != nil {
				out[len(out)-1].Netdev = names[0]
			}
		case list && strings.HasPrefix(line, `        - "`):
			out[len(out)-1].Addresses = append(out[len(out)-1].Addresses, strings.Trim(line, ` -"`))
		case strings.HasPrefix(line, "        uuid: "):
			if id := strings.TrimPrefix(line, "        uuid: "); isUUID(id) {
				out[len(out)-1].UUID = id
			}
		}
	}
	return out
}

// netplanNamed returns the names of the links in our file.
func netplanNamed(text string) []string {
	return append(namesAfter(text, netplanNames), namesAfter(text, netplanDevices)...)
}

// netplanFile returns the file for netplan (netplan-yaml(5)). netplan warns unless its mode is 0600. For the MTU of a NIC, netplan writes a .link
// file, which replaces the file that would have named the NIC: set-name gives it its present name. Without an MTU there is neither, because a .link
// file of somebody else may set one (seen with netplan 0.106).
func netplanFile(links []Link) File {
	var b strings.Builder
	fabric := links[0].Fabric
	b.WriteString(Header(fabric) + "network:\n  version: 2\n")
	section := ""
	for _, l := range slices.SortedStableFunc(slices.Values(links), func(a, b Link) int { return netplanSection(a) - netplanSection(b) }) {
		behind := l.Behind.Behind
		if s := netplanSections[netplanSection(l)]; s != section {
			section = s
			b.WriteString("  " + s + ":\n")
		}
		fmt.Fprintf(&b, "    %s:\n", netplanID(l))
		switch {
		case l.Device != nil:
			b.WriteString(netplanDevices + l.Link.Name + "\n" + netplanDevice(l))
		case l.byName():
			fmt.Fprintf(&b, "%s%s\n      match: {name: %q}\n", netplanDevices, l.Link.Name, l.Link.Name)
		case l.MTU == 0:
			fmt.Fprintf(&b, "%s%s\n      match: {macaddress: %q, name: %q}\n", netplanDevices, l.Link.Name, l.mac(), l.Link.Name)
		default:
			fmt.Fprintf(&b, "      match: {macaddress: %q}\n%s%q\n", l.mac(), netplanNames, l.Link.Name)
		}
		// A device has the same profile, because netplan names both by the device. That of a NIC with VLANs, which name it as their parent, gets a
		// new UUID each time (netplan's maybe_generate_uuid in src/nm.c), and NetworkManager would activate the NIC again.
		if len(l.VLANs) > 0 && l.Device == nil && behind.Passes {
			fmt.Fprintf(&b, "%s%s\n        passthrough: {connection.uuid: %[2]q}\n", netplanUUID, l.uuid())
		} else if l.Continues != "" && l.Device == nil && behind.Passes {
			fmt.Fprintf(&b, "%s%s\n", netplanUUID, l.Continues)
		}
		if l.MTU != 0 {
			fmt.Fprintf(&b, "      mtu: %d\n", l.MTU)
		}
		fmt.Fprintf(&b, "      optional: true\n      dhcp4: false\n      dhcp6: false\n      accept-ra: %t\n", l.acceptRA())
		if behind.KeepsAddresses { // keep addresses without a carrier, like the kernel
			b.WriteString("      ignore-carrier: true\n")
		}
		if !l.Up {
			b.WriteString("      activation-mode: " + behind.Off + "\n")
		}
		if l.linkLocal() == "none" {
			b.WriteString("      link-local: []\n")
		} else {
			b.WriteString(netplanLinkLocal + "\n")
		}
		if mode := l.linkLocal(); (mode == "eui64" || mode == l.LinkLocal) && (!behind.EUI64Needs6 || l.has6()) {
			b.WriteString(netplanGeneration + mode + "\n")
		}
		b.WriteString(netplanAddresses(l) + netplanRoutes(l) + netplanRules(l))
	}
	return File{Path: netplanPath(fabric), Mode: 0o600, Text: b.String()}
}

// netplanSections are the kinds of links in netplan's files, and netplanKinds those that it makes. netplanSection returns the index of a link's.
var (
	netplanSections = []string{"ethernets", "bonds", "vlans"}
	netplanKinds    = map[string]string{"bonds": netif.KindBond, "vlans": netif.KindVLAN}
)

func netplanSection(l Link) int {
	switch {
	case l.Device == nil:
		return 0
	case l.Device.Bond != nil:
		return 1
	}
	return 2
}

// netplanBond has the keys of a bond's options (netplan-yaml(5)).
var netplanBond = map[string]string{"mode": "mode", "miimon": "mii-monitor-interval", "lacp_rate": "lacp-rate",
	"xmit_hash_policy": "transmit-hash-policy", "min_links": "min-links"}

// netplanDevice returns what makes a bond or VLAN.
func netplanDevice(l Link) string {
	var b strings.Builder
	if v := l.Device.VLAN; v != nil {
		fmt.Fprintf(&b, "      id: %d\n      link: %s\n", v.ID, netplanID(*l.Lower))
		var passed []string
		if l.Lower.Device == nil && l.Behind.Behind.Passes {
			passed = append(passed, fmt.Sprintf("vlan.parent: %q", l.Lower.uuid()))
		}
		if v.PriorityMap != nil && l.Behind.Behind.Passes { // NetworkManager resets the map to that of its profile
			passed = append(passed, fmt.Sprintf("vlan.egress-priority-map: %q", strings.Join(egress(v, ":"), ";")))
		}
		if passed != nil {
			b.WriteString("      networkmanager:\n        passthrough: {" + strings.Join(passed, ", ") + "}\n")
		}
		return b.String()
	}
	var ids []string
	for _, p := range l.Ports {
		ids = append(ids, netplanID(*p))
	}
	fmt.Fprintf(&b, "      macaddress: %q\n%s[%s]\n      parameters:\n", l.bondMAC(), netplanMembers, strings.Join(ids, ", "))
	for _, o := range l.Device.Bond.Options() {
		fmt.Fprintf(&b, "        %s: %s\n", netplanBond[o.Name], o.Value)
	}
	return b.String()
}

func netplanAddresses(l Link) string {
	if len(l.Addresses) == 0 {
		return ""
	}
	text := "      addresses:\n"
	for _, p := range l.Addresses {
		text += fmt.Sprintf("        - %q\n", p)
	}
	return text
}

func netplanRoutes(l Link) string {
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
		case l.Behind.Behind.NeedsMetric:
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

// netplanRules writes "all" as a prefix, because netplan requires `from` or `to`.
func netplanRules(l Link) string {
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

// netplanDrops returns the NICs that the file no longer names.
func netplanDrops(was, now string) []string {
	still := netplanNamed(now)
	return slices.DeleteFunc(netplanNamed(was), func(n string) bool { return slices.Contains(still, n) })
}

// checkNetplan runs netplan on a copy of all its files, first without ours: if one file of somebody else is broken,
// netplan reads no file at all.
func checkNetplan(ctx context.Context, h Asker, wanted []File) error {
	f := wanted[0]
	files := map[string][]byte{}
	for _, dir := range netplanFolders {
		if err := copyFolder(ctx, h, dir, ".yaml", files); err != nil {
			return err
		}
	}
	delete(files, f.Path)
	generate := func() (said error, err error) {
		root, discard, err := h.Stage(files)
		if err != nil {
			return nil, err
		}
		a, err := h.Ask(ctx, nil, "netplan", "generate", "--root-dir", root)
		return ParserError(a, err, f.Path, root), discard()
	}
	said, err := generate()
	if said != nil || err != nil {
		return errors.Join(fmt.Errorf("netplan cannot read its existing files, so it would not read our file either: "+
			"correct or remove the broken file: %w", errors.Join(said, err)))
	}
	files[f.Path] = []byte(f.Text)
	said, err = generate()
	return errors.Join(said, err)
}
