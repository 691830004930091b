// Package netif provides a host's network interfaces: NICs with MTU, state and addresses, bonds and VLANs, sysctls,
// routes of the main table, and policy routes. It reads a snapshot and writes through netlink.
//
// A bond or VLAN is two resources: one makes the device, and the NIC of the same name has its settings. They are in this package because
// a member loses its addresses and routes with a bond, and one restorer gives all of them back. Plans see a device that does not exist yet
// as a link of the snapshot (host.Link.Planned), so that routes, Soft-RoCE and NCCL need not know of it.
package netif

import (
	"net/netip"

	"github.com/fabricform/fabricform/facts"
)

// NICSpec is a declared NIC. Settings whose field is nil or zero are not changed.
type NICSpec struct {
	Select        facts.Selector    `json:"select"`
	MTU           int               `json:"mtu,omitempty"`        // bytes
	UndoneMTU     int               `json:"undone_mtu,omitempty"` // bytes; the MTU that an undo before it gives back; 0: none
	Up            bool              `json:"up"`
	Addresses     []netip.Prefix    `json:"addresses,omitempty"`
	AddressesSet  bool              `json:"addresses_set,omitempty"` // Addresses is the exact set of global addresses
	AcceptRA      *bool             `json:"accept_ra,omitempty"`
	IPv6LinkLocal string            `json:"ipv6_link_local,omitempty"`
	Sysctl        map[string]string `json:"sysctl,omitempty"` // "ipv4.conf.arp_ignore" -> value
	Device        *DeviceSpec       `json:"device,omitempty"` // the bond or VLAN; nil: the NIC exists without us
	Bond          string            `json:"bond,omitempty"`   // interface name of the bond that has the NIC as a member
}

// DeviceSpec is a declared device that the kernel makes: exactly one of Bond and VLAN is set.
type DeviceSpec struct {
	Name string    `json:"name"`          // of the interface
	MTU  int       `json:"mtu,omitempty"` // bytes; a new device gets it at once; 0: the kernel's
	Bond *BondSpec `json:"bond,omitempty"`
	VLAN *VLANSpec `json:"vlan,omitempty"`
}

// Kind is the kernel's name for the kind of the device (IFLA_INFO_KIND).
func (d *DeviceSpec) Kind() string {
	if d.Bond != nil {
		return KindBond
	}
	return KindVLAN
}

// BondSpec is a declared bond. Settings that are nil or zero are not changed.
type BondSpec struct {
	Members  []facts.Selector `json:"members"` // in their order
	Mode     string           `json:"mode"`    // as ip-link(8) writes it
	LACPRate string           `json:"lacp_rate,omitempty"`
	XmitHash string           `json:"xmit_hash,omitempty"`
	MIIMon   int              `json:"miimon,omitempty"` // milliseconds
	MinLinks *int             `json:"min_links,omitempty"`
}

// VLANSpec is a declared VLAN.
type VLANSpec struct {
	On          facts.Selector `json:"on"`
	OnMade      bool           `json:"on_made,omitempty"` // On is a bond of ours, which may not exist yet
	OnMTU       int            `json:"on_mtu,omitempty"`  // the declared MTU of On; 0: none
	ID          int            `json:"id"`
	PriorityMap map[int]int    `json:"priority_map,omitempty"` // priority of a sent packet -> PCP; nil is not changed
}

// PolicyRouteSpec is a declared rule with the routes of its table.
type PolicyRouteSpec struct {
	NIC      facts.Selector `json:"nic"`
	From     netip.Prefix   `json:"from,omitzero"`
	To       netip.Prefix   `json:"to,omitzero"`
	Table    int            `json:"table"`
	Priority int            `json:"priority"`
	Routes   []RouteSpec    `json:"routes"`
}

// MainRouteSpec is a declared route of the main table.
type MainRouteSpec struct {
	NIC   facts.Selector `json:"nic"`
	Route RouteSpec      `json:"route"`
}

// RouteSpec is one route of a table. It leaves by the NIC of the enclosing spec.
type RouteSpec struct {
	To     netip.Prefix `json:"to"`
	Via    netip.Addr   `json:"via,omitzero"`
	Src    netip.Addr   `json:"src,omitzero"`
	OnLink bool         `json:"on_link,omitempty"`
	Metric int          `json:"metric,omitempty"`
}

// SysctlSpec is one host-wide sysctl. Key has the syntax of sysctl(8).
type SysctlSpec struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}
