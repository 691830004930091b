package netmanager

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/providers/netif"
)

const (
	ifupdownName   = "ifupdown"
	ifupdownMain   = "/etc/network/interfaces"
	ifupdownFolder = "/etc/network/interfaces.d"
)

// ifupdown runs only when called, and reads its files then.
var ifupdown = &Manager{
	Name: ifupdownName, Detect: ifupdownDetect, Yields: true, Folder: ifupdownFolder,
	File: ifupdownPath, Stem: func(l Link) string { return path.Base(ifupdownPath(l)) }, Render: func(ls []Link) []File {
		var out []File
		for _, l := range ls {
			out = append(out, ifupdownFile(l))
		}
		return out
	},
	Stanzas: ifupdownStanzas, Check: checkIfupdown,
}

// ifupdownDetect claims the links that have a stanza in interfaces(5). On desktops, ifupdown often has a stanza for
// loopback alone and leaves the other links to another manager.
func ifupdownDetect(ctx context.Context, r host.Reader, _ []host.Link, f *Found) bool {
	sourced := false
	f.stanzas(ifupdownMain, host.Text(ctx, r, ifupdownMain))
	for line := range strings.Lines(host.Text(ctx, r, ifupdownMain)) {
		w := strings.Fields(line)
		sourced = sourced || len(w) > 1 && (w[0] == "source" || w[0] == "source-directory") &&
			strings.Contains(w[1], path.Base(ifupdownFolder))
	}
	if sourced {
		for _, name := range filesIn(ctx, r, ifupdownFolder, "") {
			f.stanzas(path.Join(ifupdownFolder, name), host.Text(ctx, r, path.Join(ifupdownFolder, name)))
		}
	}
	_, err := r.ReadFile(ctx, "/run/network/ifstate")
	if err == nil && !sourced {
		f.deaf(ifupdownName,
			"/etc/network/interfaces does not read interfaces.d, the folder of our file: add `source /etc/network/interfaces.d/*` there")
	}
	return err == nil
}

func (f *Found) stanzas(file, text string) {
	for line := range strings.Lines(text) {
		if w := strings.Fields(line); len(w) > 1 && w[0] == "iface" && w[1] != "lo" {
			f.Claims[w[1]] = Claim{Manager: ifupdownName, File: file, Exact: true}
		}
	}
}

// ifupdownPath returns the path of a NIC's file. `source-directory` skips names with dots (interfaces(5)).
func ifupdownPath(l Link) string {
	return ifupdownFolder + "/" + strings.ReplaceAll(l.Stem(), ".", "_")
}

// ifupdownFile returns a file of stanzas (interfaces(5)). Settings without a keyword are commands, which contain only
// numbers, addresses and a checked name. A rule is removed before it is added, because the kernel removes the routes
// of a deleted interface but not its rules.
func ifupdownFile(l Link) File {
	var b strings.Builder
	name := l.Link.Name
	b.WriteString(Header(l.Fabric))
	if l.Up {
		b.WriteString("auto " + name + "\n")
	}
	devices := ifupdownDevices(l)
	mtu := ""
	if l.MTU != 0 {
		mtu = fmt.Sprintf("\tup ip link set dev %s mtu %d\n", name, l.MTU)
	}
	if len(l.Addresses) == 0 {
		fmt.Fprintf(&b, "iface %s inet manual\n%s%s\tup ip link set dev %s up\n%s\tdown ip link set dev %s down\n",
			name, devices, mtu, name, ifupdownRoutes(l), name)
		return File{Path: ifupdownPath(l), Mode: 0o644, Text: b.String()}
	}
	for i, p := range l.Addresses {
		family := "inet"
		if p.Addr().Is6() {
			family = "inet6"
		}
		fmt.Fprintf(&b, "iface %s %s static\n%s\taddress %s\n", name, family, devices, p)
		devices = "" // once
		if family == "inet6" {
			b.WriteString("\taccept_ra " + map[bool]string{false: "0", true: "1"}[l.acceptRA()] + "\n")
		}
		if i == 0 {
			b.WriteString(mtu) // before any IPv6 address: below 1280 bytes, the kernel disables IPv6
		}
		if i == len(l.Addresses)-1 {
			b.WriteString(ifupdownRoutes(l)) // after all addresses, which routes may prefer as source
		}
	}
	return File{Path: ifupdownPath(l), Mode: 0o644, Text: b.String()}
}

// ifupdownDevices returns the commands that make a bond or VLAN, and those that add a NIC to its bond. Each stanza first makes what it
// stands on, because ifup takes the stanzas in the order of the files' names. The commands change nothing if they are done already, and
// need no packages beside iproute2. A NIC can become a member only while it is down (bond_enslave in the kernel's bond_main.c).
func ifupdownDevices(l Link) string {
	name := l.Link.Name
	switch {
	case l.Master != nil:
		return ifupdownAddBond(*l.Master) + ifupdownJoin(l, *l.Master) + "\tdown ip link set dev " + name + " nomaster\n"
	case l.Ports != nil:
		return ifupdownBond(l)
	case l.Lower != nil:
		below, v := l.Lower, l.Device.VLAN
		text, mtu := "", ""
		if below.Ports != nil {
			text = ifupdownBond(*below)
		}
		if below.MTU != 0 {
			mtu = fmt.Sprintf(" mtu %d", below.MTU) // the VLAN's MTU is at most this one
		}
		words := fmt.Sprintf("link %s name %s type vlan id %d", below.Link.Name, name, v.ID)
		if v.PriorityMap != nil {
			words += " egress-qos-map " + strings.Join(egress(v, ":"), " ")
		}
		return text + fmt.Sprintf("\tpre-up ip link set dev %s%s up\n", below.Link.Name, mtu) + ifupdownAdd(name, words)
	}
	return ""
}

// ifupdownBond makes a bond with all its members, so that it has a carrier before anything waits for duplicate address detection.
// A member that is missing does not keep the bond from the others.
func ifupdownBond(l Link) string {
	text := ifupdownAddBond(l)
	for _, p := range l.Ports {
		text += ifupdownJoin(*p, l) + "\tpre-up ip link set dev " + p.Link.Name + " up || true\n"
	}
	return text
}

func ifupdownJoin(port, bond Link) string {
	return fmt.Sprintf("\tpre-up ip -o link show dev %[1]s | grep -qF ' master %[2]s ' || "+
		"{ ip link set dev %[1]s down && ip link set dev %[1]s master %[2]s; } || true\n", port.Link.Name, bond.Link.Name)
}

func ifupdownAddBond(l Link) string {
	words := "name " + l.Link.Name + " address " + l.bondMAC() + " type bond"
	for _, o := range l.Device.Bond.Options() {
		words += " " + o.Name + " " + o.Value
	}
	return ifupdownAdd(l.Link.Name, words)
}

// ifupdownAdd makes a device that does not exist.
func ifupdownAdd(name, words string) string {
	return fmt.Sprintf("\tpre-up ip link show dev %s >/dev/null 2>&1 || ip link add %s\n", name, words)
}

func ifupdownRoutes(l Link) string {
	var b strings.Builder
	for _, r := range l.Routes {
		b.WriteString("\tup ip route replace " + ipRoute(r, l.Link.Name, 0) + "\n")
	}
	for _, p := range l.Policies {
		for _, r := range p.Routes {
			b.WriteString("\tup ip route replace " + ipRoute(r, l.Link.Name, p.Table) + "\n")
		}
		command := "ip rule"
		if p.Family() == inet6 {
			command = "ip -6 rule"
		}
		rule := fmt.Sprintf("%s proto %d", ipRule(p), netif.Protocol)
		fmt.Fprintf(&b, "\tup %[1]s del %[2]s 2>/dev/null || true\n\tup %[1]s add %[2]s\n\tdown %[1]s del %[2]s || true\n", command, rule)
	}
	return b.String()
}

// checkIfupdown lists all interfaces in a copy of the files. Absolute paths of the folder become relative ones, so
// that they point into the copy.
func checkIfupdown(ctx context.Context, h Asker, wanted []File) (err error) {
	const main, dir = ifupdownMain, ifupdownFolder
	files := map[string][]byte{}
	if err := copyFolder(ctx, h, dir, "", files); err != nil {
		return err
	}
	for _, f := range wanted {
		files[f.Path] = []byte(f.Text)
	}
	text, err := h.ReadFile(ctx, main)
	if err != nil {
		return fmt.Errorf("read %s: %w", main, err)
	}
	files[main] = []byte(strings.ReplaceAll(string(text), dir, path.Base(dir)))
	root, discard, err := h.Stage(files)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, discard()) }()
	a, err := h.Ask(ctx, nil, "ifquery", "--interfaces="+root+main, "--list", "--all")
	a.Stdout = ""
	if a.Exit == 0 && passedOver(a.Stderr) {
		a.Exit = 1
	}
	return ParserError(a, err, wanted[0].Path, root)
}

// passedOver reports whether ifquery reports skipped files or lines, other than warnings. ifquery exits with 0 even
// then (seen with 0.8.44).
func passedOver(said string) bool {
	for line := range strings.Lines(said) {
		if strings.Contains(line, "ifquery: ") && !strings.Contains(line, "warning") {
			return true
		}
	}
	return false
}
