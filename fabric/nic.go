package fabric

import "net/netip"

// NIC is one network interface of a host, identified by exactly one of Netdev and Match.
type NIC struct {
	Block
	Name string
	Host string

	// Interface name, at most 15 bytes; also that of an existing VLAN, macvlan or bond. Exactly one of `netdev` and `match` is required.
	Netdev string `ff:"netdev"`
	// Finds the interface by a property that does not depend on its name. Exactly one interface must match.
	Match Match `ff:"match"`
	// The exact set of the NIC's global addresses, each with its prefix length, such as `["192.168.88.1/30"]`.
	Addresses []netip.Prefix `ff:"addresses"`
	// Assigns the address with this number in every subnet of the NIC's network. Adding a host does not change the addresses of others.
	HostNumber int `ff:"host_number,min=1,max=4294967294"`
	// Largest IP packet, in bytes. 9000 suits RDMA.
	MTU int `ff:"mtu,min=68,max=65535"`
	// Whether the interface is administratively up.
	Up bool `ff:"up,default=true"`
	// Whether the settings survive a reboot, with those of `qos`.
	Persist bool `ff:"persist,default=true"`
	// Whether the interface accepts IPv6 router advertisements. Default: false if addresses are declared, otherwise unchanged.
	AcceptRA *bool `ff:"accept_ra"`
	// How the interface gets its IPv6 link-local address. `"keep"` leaves it unchanged.
	IPv6LinkLocal string `ff:"ipv6_link_local,one=keep|eui64|none,default=keep"`
	// Kernel settings of the interface, without its name in the key, such as `"ipv4.conf.arp_ignore" = 1`.
	Sysctl map[string]string `ff:"sysctl"`
	// The desired RoCE GID of the NIC.
	GID GID `ff:"gid"`
	// The class of traffic: `qos.lossless`. Default: the host's `qos`.
	Class QoSRef `ff:"qos"`
	// Set to true if this half of a two-function port is used without the other half.
	Single bool `ff:"single"`

	AddressesSet bool // Addresses was set, by addresses, host_number or the subnet of a link

	Bond *Bond `json:",omitempty"` // the block is a bond; Netdev is its name
	VLAN *VLAN `json:",omitempty"` // the block is a VLAN; Netdev is its name

	QoS *QoS `json:",omitempty"` // the block that holds for the NIC: its own or its host's; nil: none
}

// Match identifies a NIC by exactly one of its fields.
type Match struct {
	// Permanent MAC address.
	MAC string `ff:"mac,shape=mac"`
	// PCI address: domain:bus:slot.function.
	PCI string `ff:"pci,shape=pci"`
	// Name of the RDMA device on the NIC, such as `rocep39s0f0`.
	RDMA string `ff:"rdma,shape=device"`
}

// GID is the desired RoCE GID of a NIC. Zero fields are derived.
type GID struct {
	// RoCE version.
	Version int `ff:"version,min=1,max=2,default=2"`
	// Address family.
	Family string `ff:"family,one=ipv4|ipv6,default=ipv4"`
	// GID index, pinned. It is checked on the device.
	Index *int `ff:"index,min=0,max=255"`
}

// NICRef refers to a NIC of the fabric.
type NICRef struct{ Host, NIC string }

// String returns host.nic.
func (r NICRef) String() string { return r.Host + "." + r.NIC }

// Ref returns a reference to the NIC.
func (n *NIC) Ref() NICRef { return NICRef{n.Host, n.Name} }
