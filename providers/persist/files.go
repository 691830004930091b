package persist

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/netmanager"
	"github.com/fabricform/fabricform/providers/netif"
	"github.com/fabricform/fabricform/providers/qos"
	"github.com/fabricform/fabricform/providers/rxe"
)

// folders are the folders that may hold our files.
var folders = func() []string {
	out := []string{"/etc/sysctl.d", rulesFolder, "/etc/modules-load.d", unitFolder, "/etc/systemd/system.conf.d", "/etc/security/limits.d",
		bootFolder, wantsFolder}
	for _, m := range netmanager.All {
		out = append(out, m.Folder)
		if m.Scripts != "" {
			out = append(out, m.Scripts)
		}
	}
	return out
}()

// nobody reports whether no manager is running on the host.
func nobody(snap *facts.Snapshot) bool { return len(netmanager.Part.Of(snap).Active) == 0 }

// Files returns the files that persist the spec on this host, sorted by path, and notes on what they cannot
// persist. Without a manager there are no files, because nothing shows that the host boots at all. The snapshot must hold the facts that
// Gather reads.
func Files(snap *facts.Snapshot, s Spec) ([]netmanager.File, []string, error) {
	if nobody(snap) {
		return nil, []string{"nothing survives a reboot: no network manager runs on this host"}, nil
	}
	if !plainName().MatchString(s.Fabric) {
		return nil, nil, fmt.Errorf("fabric %q: the name cannot be part of a file name; rename the fabric", s.Fabric)
	}
	ls, err := links(snap, s)
	if err != nil {
		return nil, nil, err
	}
	var files []netmanager.File
	var notes []string
	for _, l := range ls {
		notes = append(notes, notesOf(l)...)
	}
	if len(s.QoS) > 0 && !bootPart.Of(snap).Systemd {
		notes = append(notes, "qos: lost at a reboot: systemd does not run on this host")
	}
	for _, m := range netmanager.All {
		if mine := writtenLinks(ls, func(l netmanager.Link) bool { return l.Manager == m }); mine != nil {
			files = append(files, m.Render(mine)...)
		}
		if m.Script != nil {
			if f, wanted := m.Script(s.Fabric, writtenLinks(ls, func(l netmanager.Link) bool { return l.By() == m })); wanted {
				files = append(files, f)
			}
		}
	}
	rest, err := systemFiles(snap, s, ls)
	if err != nil {
		return nil, nil, err
	}
	files = append(files, rest...)
	slices.SortFunc(files, func(a, b netmanager.File) int { return strings.Compare(a.Path, b.Path) })
	for i := 1; i < len(files); i++ {
		if files[i].Path == files[i-1].Path { // some managers' files have no dots in their names
			return nil, nil, fmt.Errorf("two NICs would have the same file %s, because their names differ in '.' and '_' alone: rename one of the interfaces", files[i].Path)
		}
	}
	return files, notes, nil
}

func (s Spec) without(nics []string) Spec {
	s.LeftOut = nics
	return s
}

// others returns the spec without the NICs that are left out, and without the routes and rules of other NICs that use
// their addresses.
func (s Spec) others(snap *facts.Snapshot) Spec {
	devices, addresses := map[string]bool{}, map[netip.Addr]bool{}
	out := s
	out.NICs = nil
	left := s.left(snap)
	for _, n := range s.NICs {
		if !left[n.Name] {
			out.NICs = append(out.NICs, n)
			continue
		}
		if l, err := find(snap, n); err == nil {
			devices[l.Name] = true
		}
		for _, p := range n.Addresses {
			addresses[p.Addr()] = true
		}
	}
	uses := func(r netif.RouteSpec) bool { return addresses[r.Src] }
	for i := range out.NICs {
		n := &out.NICs[i]
		n.Routes = slices.DeleteFunc(slices.Clone(n.Routes), uses)
		n.Policies = slices.DeleteFunc(slices.Clone(n.Policies), func(p netif.PolicyRouteSpec) bool {
			return addresses[p.From.Addr()] || slices.ContainsFunc(p.Routes, uses)
		})
	}
	out.RXE = slices.DeleteFunc(slices.Clone(s.RXE), func(d rxe.Spec) bool {
		netdev, err := s.netdev(snap, d.On)
		return err == nil && devices[netdev]
	})
	if len(out.RXE) == 0 {
		out.Modules = nil // the modules of the devices
	}
	out.QoS = slices.DeleteFunc(slices.Clone(s.QoS), func(q qos.Spec) bool {
		netdev, err := s.netdev(snap, q.On)
		return err == nil && devices[netdev]
	})
	return out
}

// left returns the names of the NICs that are left out: those of LeftOut, with the bonds and VLANs on them and the other members.
func (s Spec) left(snap *facts.Snapshot) map[string]bool {
	left := map[string]bool{}
	for _, name := range s.LeftOut {
		left[name] = true
	}
	ls, err := links(snap, s)
	if err != nil {
		return left // Files reports the error
	}
	for range ls { // what stands on another may come before it
		for _, l := range ls {
			if l.Master != nil && (left[l.Name] || left[l.Master.Name]) {
				left[l.Name], left[l.Master.Name] = true, true
			}
			if l.Lower != nil && left[l.Lower.Name] {
				left[l.Name] = true
			}
		}
	}
	return left
}

// systemFiles returns the files that no network manager reads.
func systemFiles(snap *facts.Snapshot, s Spec, ls []netmanager.Link) ([]netmanager.File, error) {
	devices := make([]device, 0, len(s.RXE))
	var files []netmanager.File
	for _, d := range s.RXE {
		netdev, err := s.netdev(snap, d.On)
		if err != nil {
			return nil, err
		}
		if !plainName().MatchString(d.Device) || !plainName().MatchString(netdev) {
			return nil, fmt.Errorf("rxe %q on %q: the names cannot be part of a systemd unit; rename the device", d.Device, netdev)
		}
		devices = append(devices, device{d, netdev})
		files = append(files, devices[len(devices)-1].unitFile(s.Fabric))
	}
	boot, triggers, err := classes(snap, s, devices)
	if err != nil {
		return nil, err
	}
	files = append(files, boot...)
	for _, d := range devices {
		triggers = append(triggers, trigger{"net", d.netdev, d.unit(s.Fabric)})
	}
	add := func(f netmanager.File, wanted bool) {
		if wanted {
			files = append(files, f)
		}
	}
	add(sysctls(s, ls))
	add(udev(s, ls, triggers))
	add(modules(s))
	limits, err := memlock(s)
	return append(files, limits...), err
}

// writtenLinks returns the links that a file of ours configures.
func writtenLinks(ls []netmanager.Link, which func(netmanager.Link) bool) []netmanager.Link {
	var out []netmanager.Link
	for _, l := range ls {
		if l.Written() && which(l) {
			out = append(out, l)
		}
	}
	return out
}

// notesOf describes the settings of the NIC that its manager cannot persist.
func notesOf(l netmanager.Link) []string {
	var notes []string
	switch {
	case l.Manager == nil:
		notes = []string{"lost at a reboot: no network manager runs on this host"}
	case !l.Whole() && len(l.Routes)+len(l.Policies) > 0:
		notes = []string{fmt.Sprintf("its routes and rules are lost at a reboot: fabricform does not manage the addresses of %s; "+
			"add the routes and rules where its addresses are configured", l.Link.Name)}
	case l.By().Notes != nil:
		notes = l.By().Notes(l)
	}
	for i, n := range notes {
		notes[i] = "nic " + l.Name + ": " + n
	}
	return notes
}
