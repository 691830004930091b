package fabric

import "net/netip"

// NIC is one network interface of a host, found by exactly one of Netdev and Match.
type NIC struct {
	Block
	Name string
	Host string

	// Interface name, at most 15 bytes. Exactly one of `netdev` and `match` is needed.
	Netdev string `ff:"netdev"`
	// Finds the interface by what does not change with its name; it must hit exactly one.
	Match Match `ff:"match"`
	// The exact set of the NIC's global addresses, each with its prefix length: `["192.168.88.1/30"]`.
	Addresses []netip.Prefix `ff:"addresses"`
	// Takes the n-th address of every subnet of its network, so that numbers never shift when a host is added.
	HostNumber int `ff:"host_number,min=1,max=4294967294"`
	// Bytes of an IP packet; 9000 suits RDMA.
	MTU int `ff:"mtu,min=68,max=65535"`
	// Whether the interface is switched on.
	Up bool `ff:"up,default=true"`
	// Whether the settings are kept over a reboot.
	Persist bool `ff:"persist,default=true"`
	// Whether router advertisements are taken; false once addresses are declared, else left alone.
	AcceptRA *bool `ff:"accept_ra"`
	// How the interface gets its IPv6 link-local address; `"keep"` leaves it as it is.
	IPv6LinkLocal string `ff:"ipv6_link_local,one=keep|eui64|none,default=keep"`
	// Per-interface kernel settings without the interface's name: `"ipv4.conf.arp_ignore" = 1`.
	Sysctl map[string]string `ff:"sysctl"`
	// What the NIC's RoCE GID should be.
	GID GID `ff:"gid"`
	// This half of a two-function port is meant to stand alone.
	Single bool `ff:"single"`

	AddressesSet bool // Addresses is declared, by addresses, host_number or a link's subnet
}

// Match finds a NIC by exactly one of its fields.
type Match struct {
	// Permanent MAC address.
	MAC string `ff:"mac,shape=mac"`
	// PCI address: domain:bus:slot.function.
	PCI string `ff:"pci,shape=pci"`
	// Name of the RDMA device on it, such as `rocep39s0f0`.
	RDMA string `ff:"rdma,shape=device"`
}

// GID is the intent for a NIC's RoCE GID. Zero fields are derived.
type GID struct {
	// RoCE version.
	Version int `ff:"version,min=1,max=2,default=2"`
	// Address family.
	Family string `ff:"family,one=ipv4|ipv6,default=ipv4"`
	// A pin: checked on the device, never assumed.
	Index *int `ff:"index,min=0,max=255"`
}

// NICRef names a NIC of the fabric.
type NICRef struct{ Host, NIC string }

// String is host.nic, as messages write it.
func (r NICRef) String() string { return r.Host + "." + r.NIC }

// Ref names the NIC.
func (n *NIC) Ref() NICRef { return NICRef{n.Host, n.Name} }
