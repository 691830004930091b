package persist

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"sync"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/netmanager"
)

// plainName matches names that can be part of a file name or a unit name. The kernel allows nearly any byte in the name
// of an interface (dev_valid_name in net/core/dev.c).
var plainName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`) })

// links finds the spec's NICs and their managers. It returns an error if another file would override ours.
func links(snap *facts.Snapshot, s Spec) ([]netmanager.Link, error) {
	out, err := withManagers(snap, s)
	if err != nil {
		return nil, err
	}
	for _, l := range out {
		// A front names its output for a device by the device alone, so that only the front's own files show who declares it.
		if l.Device != nil && l.Manager != nil && l.Manager.Front && there(snap, l) {
			continue
		}
		if err := conflict(netmanager.Part.Of(snap), l); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// withManagers finds the spec's NICs and their managers.
func withManagers(snap *facts.Snapshot, s Spec) ([]netmanager.Link, error) {
	managers := netmanager.Part.Of(snap)
	var out []netmanager.Link
	for _, n := range s.NICs {
		found, err := find(snap, n)
		if err != nil {
			return nil, err
		}
		if !plainName().MatchString(found.Name) {
			return nil, fmt.Errorf("nic %s: the device name %q cannot be written to files of network managers; rename the device",
				n.Name, found.Name)
		}
		l := netmanager.Link{NIC: n, Link: *found, Fabric: s.Fabric, AddrGen: addrGen(snap, found.Name)}
		l.InCharge = slices.Contains(managers.InCharge, found.Name)
		out = append(out, l)
	}
	if err := s.join(snap, out); err != nil {
		return nil, err
	}
	for i, l := range out {
		var err error
		if out[i], err = managerOf(managers, s.Manager, l); err != nil {
			return nil, err
		}
		profile := written(snap, out[i])
		out[i].Continues = continues(snap, out[i], profile)
		out[i].LinkLocal = linkLocal(snap, out[i], profile)
	}
	return out, nil
}

// continues returns the UUID of the profile that our file for a link continues: the one that the file has, or the one whose file somebody has
// removed. The manager then goes on with the link as if nothing had happened: another profile would take its addresses away first (seen with
// NetworkManager 1.52, which also removes the rules of a profile when it releases the link).
func continues(snap *facts.Snapshot, l netmanager.Link, ours *netmanager.Profile) string {
	switch {
	case l.Manager == nil || l.Manager.Profiles == nil:
		return ""
	case ours != nil:
		return ours.UUID
	}
	return netmanager.Part.Of(snap).Orphans[l.Link.Name]
}

// linkLocal returns how the claimer makes a link's link-local address itself: the kernel's mode, which it sets to none, does not tell, but the
// address does. What our file says is kept even while there is no address, such as without a carrier.
func linkLocal(snap *facts.Snapshot, l netmanager.Link, ours *netmanager.Profile) (mode string) {
	switch {
	case l.By() != claimer || l.Master != nil || l.WantedSysctls()[netmanager.AddrGenMode] != "":
		return ""
	case ours != nil && ours.LinkLocal != "":
		return ours.LinkLocal
	case l.AddrGen != "1":
		return ""
	}
	for _, a := range snap.Addrs {
		switch ip := a.Prefix.Addr(); {
		case a.Index != l.Link.Index || !ip.Is6() || !ip.IsLinkLocalUnicast():
		case ip == eui64(l.Link.MAC):
			return "eui64"
		default:
			mode = "stable-privacy"
		}
	}
	return mode
}

// eui64 returns the link-local address that follows from a MAC address (RFC 4291, appendix A); invalid if the text is none.
func eui64(mac string) netip.Addr {
	m, err := net.ParseMAC(mac)
	if err != nil || len(m) != 6 {
		return netip.Addr{}
	}
	return netip.AddrFrom16([16]byte{0xfe, 0x80, 8: m[0] ^ 2, m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]})
}

// written returns the profile of a link in our file; nil if there is none, or if its manager does not know links by profiles.
func written(snap *facts.Snapshot, l netmanager.Link) *netmanager.Profile {
	if l.Manager == nil || l.Manager.Profiles == nil || !there(snap, l) {
		return nil
	}
	at := l.Manager.File(l)
	for _, p := range l.Manager.Profiles(at, snap.Files[at].Text) {
		if p.Netdev == l.Link.Name {
			return &p
		}
	}
	return nil
}

// find returns the link of a NIC. A bond or VLAN that does not exist yet is as the kernel makes it.
func find(snap *facts.Snapshot, n netmanager.NIC) (*host.Link, error) {
	if n.Device != nil && snap.Link(n.Device.Name) == nil {
		return &host.Link{Name: n.Device.Name, Planned: true}, nil
	}
	return snap.Find(n.Select)
}

// netdev returns the interface name of a NIC, also of a bond or VLAN that does not exist yet.
func (s Spec) netdev(snap *facts.Snapshot, on facts.Selector) (string, error) {
	for _, n := range s.NICs {
		if n.Device != nil && n.Device.Name == on.Netdev {
			return on.Netdev, nil
		}
	}
	l, err := snap.Find(on)
	if err != nil {
		return "", err
	}
	return l.Name, nil
}

// addrGen returns the live mode of a link. The kernel gives a new link the default.
func addrGen(snap *facts.Snapshot, netdev string) string {
	if l := snap.Link(netdev); l == nil || l.Planned {
		netdev = "default"
	}
	return snap.Sysctls[facts.LinkSysctl(netmanager.AddrGenMode, netdev)]
}

// join connects bonds with their members, and VLANs with the NIC below them.
func (s Spec) join(snap *facts.Snapshot, ls []netmanager.Link) error {
	named := func(on facts.Selector) (*netmanager.Link, error) {
		netdev, err := s.netdev(snap, on)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(ls, func(l netmanager.Link) bool { return l.Link.Name == netdev })
		if i < 0 {
			return nil, fmt.Errorf("%s is not among the NICs that survive a reboot", netdev)
		}
		return &ls[i], nil
	}
	for i := range ls {
		l := &ls[i]
		switch {
		case l.Device == nil:
		case l.Device.VLAN != nil:
			below, err := named(l.Device.VLAN.On)
			if err != nil {
				return fmt.Errorf("vlan %s: %w", l.Name, err)
			}
			l.Lower, below.VLANs = below, append(below.VLANs, l)
		default:
			for _, m := range l.Device.Bond.Members {
				port, err := named(m)
				if err != nil {
					return fmt.Errorf("bond %s: %w", l.Name, err)
				}
				port.Master, l.Ports = l, append(l.Ports, port)
			}
		}
	}
	return nil
}
