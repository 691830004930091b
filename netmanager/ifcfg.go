package netmanager

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/host"
)

const (
	ifcfgName   = "ifcfg"
	ifcfgFolder = "/etc/sysconfig/network-scripts"
)

// ifcfg is the service "network" of Red Hat's network-scripts. It runs only when called, and reads its files then
// (sysconfig.txt of initscripts, and its scripts). Not run on a real system.
var ifcfg = &Manager{
	Name: ifcfgName, Detect: ifcfgDetect, Yields: true, Excludes: true, Folder: ifcfgFolder,
	File: func(l Link) string { return ifcfgPath("ifcfg", l) }, Stem: ifcfgStem, Render: func(ls []Link) []File {
		var out []File
		for _, l := range ls {
			out = append(out, ifcfgFiles(l)...)
		}
		return out
	},
	Notes: ifcfgNotes,
}

// ifcfgNotes reports a VLAN whose name does not show what it is: the service starts such a device before what carries it, and takes the ID from
// a name like eth0.7 or vlan7 (ifup and the script "network" of initscripts).
func ifcfgNotes(l Link) []string {
	if l.Lower == nil {
		return nil
	}
	v := l.Device.VLAN
	name := fmt.Sprintf("%s.%d", l.Lower.Link.Name, v.ID)
	if l.Link.Name == name || l.Link.Name == fmt.Sprintf("vlan%d", v.ID) {
		return nil
	}
	return []string{fmt.Sprintf("the service network may not make it at boot: give it the name %q by netdev in the vlan block", name)}
}

// ifcfgDetect looks for the lock that the service leaves when it has started. If NetworkManager is running, the
// service leaves all files without NM_CONTROLLED=no to it.
func ifcfgDetect(ctx context.Context, r host.Reader, links []host.Link, f *Found) bool {
	if _, err := r.ReadFile(ctx, "/var/lock/subsys/network"); err != nil {
		return false
	}
	shared := unitActive(ctx, r, networkManagerUnit)
	for _, name := range filesIn(ctx, r, ifcfgFolder, "") {
		config, is := strings.CutPrefix(name, "ifcfg-")
		if !is || ifcfgPassedOver(config) {
			continue
		}
		file := path.Join(ifcfgFolder, name)
		values := ifcfgValues(host.Text(ctx, r, file))
		leftToNetworkManager := shared && !ifcfgNo(values["NM_CONTROLLED"])
		if ifcfgNo(values["ONBOOT"]) || leftToNetworkManager {
			continue
		}
		device, mac := values["DEVICE"], strings.ToLower(values["HWADDR"])
		for _, l := range links {
			claimed := l.Name == device
			if device == "" && mac != "" {
				claimed = l.MAC == mac
			} else if device == "" {
				claimed = l.Name == config
			}
			if claimed {
				f.Claims[l.Name] = Claim{Manager: ifcfgName, File: file, Exact: true}
			}
		}
	}
	return true
}

// ifcfgPassedOver reports whether the scripts skip a file: aliases, ranges, and leftovers of editors and rpm.
func ifcfgPassedOver(config string) bool {
	return config == "lo" || strings.Contains(config, ":") || strings.Contains(config, "-range") ||
		slices.ContainsFunc([]string{"~", ".bak", ".old", ".orig", ".rpmnew", ".rpmorig", ".rpmsave"},
			func(end string) bool { return strings.HasSuffix(config, end) })
}

// ifcfgNo reports whether a value means no (is_false in the scripts' functions).
func ifcfgNo(v string) bool {
	return slices.Contains([]string{"no", "n", "f", "false", "off", "0"}, strings.ToLower(v))
}

// ifcfgValues parses assignments. A shell reads the file, so the last assignment counts.
func ifcfgValues(text string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(text) {
		key, value, is := strings.Cut(strings.TrimSpace(line), "=")
		if !is || strings.HasPrefix(key, "#") {
			continue
		}
		if quote := value[:min(1, len(value))]; quote == `"` || quote == "'" {
			value, _, _ = strings.Cut(value[1:], quote)
		} else {
			value, _, _ = strings.Cut(value, " ")
		}
		out[strings.TrimPrefix(key, "export ")] = value
	}
	return out
}

// ifcfgStem returns the link's stem without the strings that make the scripts skip a file.
func ifcfgStem(l Link) string {
	return strings.NewReplacer(".", "_", "-range", "_range").Replace(l.Stem())
}

// ifcfgPath returns the path of a NIC's file. The scripts find the files of other kinds by the name of the ifcfg file.
func ifcfgPath(kind string, l Link) string { return ifcfgFolder + "/" + kind + "-" + ifcfgStem(l) }

// ifcfgFiles returns a NIC's configuration, and its routes and rules in the syntax of ip(8), one file for each
// family. Rules are written without a protocol, because ip(8) of RHEL 7 does not accept one.
func ifcfgFiles(l Link) []File {
	lines := map[string][]string{"ifcfg": ifcfgLines(l)}
	add := func(kind string, six bool, line string) {
		if six {
			kind += "6"
		}
		lines[kind] = append(lines[kind], line)
	}
	for _, r := range l.Routes {
		add("route", r.To.Addr().Is6(), ipRoute(r, l.Link.Name, 0))
	}
	for _, p := range l.Policies {
		for _, r := range p.Routes {
			add("route", r.To.Addr().Is6(), ipRoute(r, l.Link.Name, p.Table))
		}
		add("rule", p.Family() == inet6, ipRule(p))
	}
	var out []File
	for _, kind := range []string{"ifcfg", "route", "route6", "rule", "rule6"} {
		if lines[kind] != nil {
			out = append(out, File{Path: ifcfgPath(kind, l), Mode: 0o644, Text: Header(l.Fabric) + strings.Join(lines[kind], "\n") + "\n"})
		}
	}
	return out
}

// ifcfgDevice returns the assignments that make a bond or VLAN or a member of a bond, with the type of the device.
func ifcfgDevice(l Link) []string {
	switch {
	case l.Ports != nil:
		var options []string
		for _, o := range l.Device.Bond.Options() {
			options = append(options, o.Name+"="+o.Value)
		}
		return []string{"TYPE=Bond", "MACADDR=" + strings.ToUpper(l.bondMAC()), "BONDING_MASTER=yes", `BONDING_OPTS="` + strings.Join(options, " ") + `"`}
	case l.Lower != nil:
		v := l.Device.VLAN
		// VID is the scripts' word; VLAN_ID is NetworkManager's. ip(8) gets the map as it is (ifup of initscripts).
		out := []string{"TYPE=Vlan", "VLAN=yes", "PHYSDEV=" + l.Lower.Link.Name, fmt.Sprintf("VID=%d", v.ID), fmt.Sprintf("VLAN_ID=%d", v.ID)}
		if v.PriorityMap != nil {
			out = append(out, `VLAN_EGRESS_PRIORITY_MAP="`+strings.Join(egress(v, ":"), " ")+`"`)
		}
		return out
	case l.Master != nil:
		return []string{"TYPE=Ethernet", "MASTER=" + l.Master.Link.Name, "SLAVE=yes"}
	}
	return []string{"TYPE=Ethernet"}
}

// ifcfgLines returns the assignments. Two of them disable defaults of the scripts: ARPCHECK, because another rail of
// the same host may answer for the address, and the route to 169.254.0.0/16 on each NIC (NOZEROCONF).
func ifcfgLines(l Link) []string {
	out := []string{"DEVICE=" + l.Link.Name}
	if l.Link.Kind == "" && !l.byName() { // a software device has the MAC of the card below it
		out = append(out, "HWADDR="+strings.ToUpper(l.mac()))
	}
	out = append(out, ifcfgDevice(l)...)
	out = append(out, "ONBOOT="+yesNo(l.Up), "BOOTPROTO=none", "NM_CONTROLLED=no", "USERCTL=no", "PEERDNS=no",
		"DEFROUTE=no", "NOZEROCONF=yes")
	if l.MTU != 0 {
		out = append(out, fmt.Sprintf("MTU=%d", l.MTU))
	}
	var six []string
	four := 0
	for _, p := range l.Addresses {
		if p.Addr().Is6() {
			six = append(six, p.String())
			continue
		}
		out = append(out, fmt.Sprintf("IPADDR%d=%s", four, p.Addr()), fmt.Sprintf("PREFIX%d=%d", four, p.Bits()),
			fmt.Sprintf("ARPCHECK%d=no", four))
		four++
	}
	if six == nil {
		return append(out, "IPV6INIT=no")
	}
	out = append(out, "IPV6INIT=yes", "IPV6_AUTOCONF="+yesNo(l.acceptRA()), "IPV6ADDR="+six[0])
	if len(six) > 1 {
		out = append(out, `IPV6ADDR_SECONDARIES="`+strings.Join(six[1:], " ")+`"`)
	}
	return out
}
