package persist

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/facts"
)

// folders are where files of ours may be.
var folders = []string{
	"/etc/systemd/network", "/etc/NetworkManager/system-connections", dispatcherFolder, "/etc/netplan", "/etc/network/interfaces.d",
	"/etc/sysctl.d", "/etc/udev/rules.d", "/etc/modules-load.d", unitFolder, "/etc/systemd/system.conf.d", "/etc/security/limits.d",
}

// written says whether a manager's file of ours configures the NIC. Where addresses are not declared,
// its own file goes on giving them.
func (l link) written() bool { return l.owner != "" && l.addressed() }

// nobody says that no manager runs on the host.
func nobody(snap *facts.Snapshot) bool { return snap.Managers == nil || len(snap.Managers.Active) == 0 }

// Files are the files that keep the spec on this host, sorted by path, and what they do not keep. No
// manager: no files, since nothing says then that the host boots at all. The snapshot has what
// Gather reads.
func Files(snap *facts.Snapshot, s Spec) ([]File, []string, error) {
	if nobody(snap) {
		return nil, []string{"nothing is kept over a reboot: no network manager runs on this host"}, nil
	}
	if !plainName.MatchString(s.Fabric) {
		return nil, nil, fmt.Errorf("fabric %q: the name cannot stand in names of files", s.Fabric)
	}
	ls, err := links(snap, s)
	if err != nil {
		return nil, nil, err
	}
	var files []File
	var notes []string
	var planned []link
	nm := false
	for _, l := range ls {
		notes = append(notes, l.notes()...)
		switch {
		case !l.written():
		case l.owner == facts.Networkd:
			files = append(files, networkd(l))
		case l.owner == facts.NetworkManager:
			files, nm = append(files, keyfile(l)), true
		case l.owner == facts.Ifupdown:
			files = append(files, ifupdown(l))
		case l.owner == facts.Netplan:
			planned = append(planned, l)
			nm = nm || l.behind == facts.NetworkManager
		}
	}
	if planned != nil {
		files = append(files, netplan(s.Fabric, planned))
	}
	rest, err := systemFiles(snap, s, ls, nm)
	if err != nil {
		return nil, nil, err
	}
	files = append(files, rest...)
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return files, notes, nil
}

// systemFiles are those that no network manager reads.
func systemFiles(snap *facts.Snapshot, s Spec, ls []link, nm bool) ([]File, error) {
	devices := make([]device, 0, len(s.RXE))
	var files []File
	for _, d := range s.RXE {
		l, err := snap.Find(d.On)
		if err != nil {
			return nil, err
		}
		if !plainName.MatchString(d.Device) || !plainName.MatchString(l.Name) {
			return nil, fmt.Errorf("rxe %q on %q: the names cannot stand in a systemd unit", d.Device, l.Name)
		}
		devices = append(devices, device{d, l.Name})
		files = append(files, devices[len(devices)-1].unitFile(s.Fabric))
	}
	add := func(f File, wanted bool) {
		if wanted {
			files = append(files, f)
		}
	}
	add(sysctls(s, ls))
	add(udev(s, ls, devices))
	add(modules(s))
	add(dispatcher(s, ls, nm))
	limits, err := memlock(s)
	return append(files, limits...), err
}

// notes say what the NIC's owner cannot keep.
func (l link) notes() []string {
	var out []string
	say := func(format string, args ...any) {
		out = append(out, "nic "+l.Name+": "+fmt.Sprintf(format, args...))
	}
	stands := len(l.Routes)+len(l.Policies) > 0
	switch {
	case l.owner == "":
		say("not kept over a reboot: no network manager runs on this host")
	case !l.addressed() && stands:
		say("its routes and rules are not kept over a reboot: %s gets its addresses from elsewhere, and they belong into the same place", l.Link.Name)
	case l.acceptRA() && (l.owner == facts.Networkd || l.owner == facts.Netplan && l.behind == facts.Networkd):
		say("networkd reads router advertisements itself and turns the kernel's reading off: ipv6.conf.accept_ra is 0 after a reboot")
	}
	if l.byNetworkManager() && !l.charge {
		say("NetworkManager does not manage %s now. Where unmanaged-devices in its configuration or NM_UNMANAGED in udev's rules say so, it does for us until the next boot alone: take the NIC out of them, or set `persist = false` here", l.Link.Name)
	}
	has6 := l.has6() || l.owner == facts.NetworkManager && keyfileStands(l, inet6) != ""
	if l.written() && has6 && l.linkLocal() == "none" && (l.owner == facts.NetworkManager || l.behind == facts.NetworkManager) {
		say("NetworkManager gives a NIC with IPv6 addresses or routes a link-local one, too")
	}
	return out
}

// reloads is what has to read a file again.
func reloads(file string) string {
	switch dir := path.Dir(file); dir {
	case "/etc/systemd/network":
		return facts.Networkd
	case "/etc/NetworkManager/system-connections":
		return facts.NetworkManager
	case "/etc/netplan":
		return facts.Netplan
	case "/etc/udev/rules.d":
		return "udev"
	case unitFolder, "/etc/systemd/system.conf.d":
		return "systemd"
	}
	return "" // read at boot, at login, or when something happens
}
