package netmanager

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/providers/netif"
)

// NIC is one persistent NIC with its routes and rules.
type NIC struct {
	Name string `json:"name"` // of its block
	netif.NICSpec
	Routes   []netif.RouteSpec       `json:"routes,omitempty"` // of the main table
	Policies []netif.PolicyRouteSpec `json:"policies,omitempty"`
}

// Link is a persistent NIC as found on the host, with its manager.
type Link struct {
	NIC
	Link     host.Link
	Fabric   string
	Manager  *Manager // nil if there is none
	Behind   *Manager // the manager behind a front; nil if Manager is not a front
	InCharge bool     // a manager manages it now, with or without a file
	Master   *Link    // the bond that has the NIC as a member; nil if there is none
	Lower    *Link    // the NIC or bond that carries a VLAN; nil for any other NIC
	Ports    []*Link  // the members of a bond, in their order
	VLANs    []*Link  // the VLANs on the NIC
	// Continues is the UUID of the profile that our file continues: somebody has removed the file of that profile, by which the manager configures
	// the link. "" if there is none.
	Continues string
	// AddrGen is the live ipv6.conf.addr_gen_mode. Managers always set the mode, so if the spec does not set it, our
	// file must name the live value.
	AddrGen string
	// LinkLocal is how the manager makes the link's link-local address itself, with the kernel's mode none: eui64 or stable-privacy. "" if the
	// kernel makes the address, if there is none, or if the spec sets the mode.
	LinkLocal string
}

// Whole reports whether fabricform writes the whole configuration of the NIC: its addresses are declared, or it is a bond, a VLAN or a
// member, or the manager makes the VLANs on it by its file. Otherwise somebody else configures it.
func (l Link) Whole() bool {
	return l.AddressesSet || l.Device != nil || l.Master != nil || len(l.VLANs) > 0 && l.Manager != nil && l.Manager.VLANsBelow
}

// Written reports whether a file of ours configures the NIC. If it is not the whole configuration, the existing file
// remains in use.
func (l Link) Written() bool { return l.Manager != nil && l.Whole() }

// By returns the manager that finally configures the NIC: the one behind a front, or Manager itself; nil if there is
// none.
func (l Link) By() *Manager {
	if l.Behind != nil {
		return l.Behind
	}
	return l.Manager
}

// mac is the address that identifies the card: the permanent one, which neither a bond nor a person changes.
// Software devices have none.
func (l Link) mac() string {
	if l.Link.PermMAC != "" {
		return l.Link.PermMAC
	}
	return l.Link.MAC
}

// bondMAC is the MAC address of a bond: the one that it has, or that of its first member, with which it is made. Without it in our files,
// udev might give the bond another one at boot.
func (l Link) bondMAC() string {
	if l.Link.MAC != "" || len(l.Ports) == 0 {
		return l.Link.MAC
	}
	return l.Ports[0].mac()
}

// byName reports whether files identify the link by its name alone: a bond or VLAN, or a member that has no permanent address, since
// a bond changes the other one.
func (l Link) byName() bool { return l.Device != nil || l.Master != nil && l.Link.PermMAC == "" }

// Stem is the stem of the names of the link's files.
func (l Link) Stem() string { return Base(l.Fabric) + "-" + l.Link.Name }

// acceptRA reports whether the NIC accepts router advertisements.
func (l Link) acceptRA() bool { return l.AcceptRA != nil && *l.AcceptRA }

// AddrGenMode is the sysctl that controls how a link gets its link-local address.
const AddrGenMode = "ipv6.conf.addr_gen_mode"

// linkLocal is the wanted mode of ipv6.conf.addr_gen_mode: eui64, none, stable-privacy or random
// (IN6_ADDR_GEN_MODE_* in the kernel's include/uapi/linux/if_link.h).
func (l Link) linkLocal() string {
	if l.Master != nil {
		return "none" // the bond has the addresses
	}
	if l.LinkLocal != "" {
		return l.LinkLocal
	}
	mode := l.WantedSysctls()[AddrGenMode]
	if mode == "" {
		mode = l.AddrGen
	}
	switch mode {
	case "1":
		return "none"
	case "2":
		return "stable-privacy"
	case "3":
		return "random"
	}
	return "eui64"
}

// Egress returns the map of priorities that our udev rule sets, in the form of ip-link(8); "" if there is none.
func (l Link) Egress() string {
	passed := l.Behind != nil && l.Behind.Behind.Passes
	if l.Device == nil || l.Device.VLAN == nil || !l.Written() || !l.Manager.MapsLost || passed {
		return ""
	}
	return strings.Join(egress(l.Device.VLAN, ":"), " ")
}

// egress returns the priority map of a VLAN, sorted, in the form PRIORITY SEPARATOR PCP.
func egress(v *netif.VLANSpec, separator string) []string {
	var out []string
	for _, priority := range slices.Sorted(maps.Keys(v.PriorityMap)) {
		out = append(out, fmt.Sprintf("%d%s%d", priority, separator, v.PriorityMap[priority]))
	}
	return out
}

// everything returns the prefix of all addresses of a family.
func everything(family int) netip.Prefix {
	if family == inet6 {
		return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
}

func (l Link) has6() bool {
	for _, p := range l.Addresses {
		if p.Addr().Is6() {
			return true
		}
	}
	return false
}

// kernelMetric returns the metric that the kernel uses for a route. NetworkManager has other defaults.
func kernelMetric(r netif.RouteSpec) int {
	if r.Metric == 0 && r.To.Addr().Is6() {
		return 1024 // IP6_RT_PRIO_USER in the kernel's include/uapi/linux/ipv6_route.h
	}
	return r.Metric
}

// Address families (AF_INET and AF_INET6 in include/linux/socket.h of the kernel).
const (
	inet  = 2
	inet6 = 10
)

func yesNo(v bool) string {
	if v {
		return "yes"
	}
	return "no"
}
