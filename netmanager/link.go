package netmanager

import (
	"net/netip"

	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/providers/netif"
)

// NIC is one kept NIC with all that stands on it.
type NIC struct {
	Name string `json:"name"` // of its block
	netif.NICSpec
	Routes   []netif.RouteSpec       `json:"routes,omitempty"` // of the main table
	Policies []netif.PolicyRouteSpec `json:"policies,omitempty"`
}

// Link is a kept NIC as it is on the host, and who keeps it.
type Link struct {
	NIC
	Link     host.Link
	Fabric   string
	Manager  *Manager // nil: nobody
	Behind   *Manager // the one behind a front; nil: Manager is no front
	InCharge bool     // a manager looks after it now, whether or not it has a file
	// AddrGen is ipv6.conf.addr_gen_mode where the spec leaves it alone: managers set it whether told
	// or not, so that leaving it alone means to say what it is.
	AddrGen string
}

// Addressed says whether the manager's whole configuration of the NIC is ours to write: where
// addresses are not declared, somebody else gives them.
func (l Link) Addressed() bool { return l.AddressesSet }

// Written says whether a manager's file of ours configures the NIC. Where addresses are not declared,
// its own file goes on giving them.
func (l Link) Written() bool { return l.Manager != nil && l.Addressed() }

// By is the manager that configures the NIC in the end: behind a front, or itself; nil: nobody.
func (l Link) By() *Manager {
	if l.Behind != nil {
		return l.Behind
	}
	return l.Manager
}

// mac is the address that tells the card from others: the permanent one, which neither a bond nor a
// hand changes; software devices have none.
func (l Link) mac() string {
	if l.Link.PermMAC != "" {
		return l.Link.PermMAC
	}
	return l.Link.MAC
}

// Stem is the stem of the names of the link's files.
func (l Link) Stem() string { return Base(l.Fabric) + "-" + l.Link.Name }

// acceptRA is whether router advertisements are taken.
func (l Link) acceptRA() bool { return l.AcceptRA != nil && *l.AcceptRA }

// AddrGenMode is the sysctl of a link that says how its link-local address is made.
const AddrGenMode = "ipv6.conf.addr_gen_mode"

// linkLocal is the wanted mode of ipv6.conf.addr_gen_mode: eui64, none, stable-privacy or random
// (IN6_ADDR_GEN_MODE_* in the kernel's include/uapi/linux/if_link.h).
func (l Link) linkLocal() string {
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

// everything is the prefix of all addresses of a family.
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

// kernelMetric is what the kernel takes for a route's metric. NetworkManager has defaults of its own.
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
