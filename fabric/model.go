// Package fabric is the typed model of a declared fabric: hosts, NICs, links, policy routes and
// thresholds, as one fabric's files say them. It is pure: no files, no hosts, no I/O.
package fabric

import (
	"net/netip"
	"time"
)

// Fabric is everything that the files of one fabric declare. Slices are sorted by name.
type Fabric struct {
	Name        string // scopes ownership on the hosts; "default" without a fabric block
	Description string
	Hosts       []*Host
	Links       []*Link
	NCCL        NCCL     // fleet-wide settings; a host's own settings win per attribute
	Validate    Validate // fleet-wide thresholds, defaults filled in
}

// Pos is a place in a fabric file, for messages about a thing that the file declares.
type Pos struct {
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
}

// Host is one machine. Its name is the block's name, or the for_each key of its instance.
type Host struct {
	Name    string
	Block   string // name of the host block; differs from Name under for_each
	Address string // management address or name, as ssh takes it
	Labels  map[string]string
	Sysctl  map[string]string // keys as sysctl(8) writes them, such as "net.ipv4.ip_forward"
	SSH     SSH
	NICs    []*NIC
	Policy  []*PolicyRoute
	NCCL    NCCL
	Pos     Pos
}

// SSH says how a host is reached. Zero fields fall to ~/.ssh/config and the usual defaults.
type SSH struct {
	User           string
	Port           int
	IdentityFile   string
	KnownHosts     string
	ProxyJump      string
	Sudo           *bool // nil: sudo unless the user is root
	ConnectTimeout time.Duration
}

// NIC is one network interface of a host, found by exactly one of Netdev, MAC and PCI.
type NIC struct {
	Name          string
	Host          string
	Netdev        string         // interface name, at most 15 bytes
	MAC           string         // lower case, colon separated
	PCI           string         // domain:bus:slot.function, lower case
	Addresses     []netip.Prefix // exact set of global addresses; meaningful when AddressesSet
	AddressesSet  bool
	MTU           int // bytes; 0: not declared
	Up            bool
	Persist       bool
	AcceptRA      *bool             // nil: false once addresses are declared, else left alone
	IPv6LinkLocal string            // "keep", "eui64" or "none"
	Sysctl        map[string]string // per-interface keys without the interface: "ipv4.conf.arp_ignore"
	GID           GID
	Single        bool
	Pos           Pos
	AttrPos       map[string]Pos // attribute name -> where it is set
}

// GID is the intent for a NIC's RoCE GID. Zero fields are derived.
type GID struct {
	Version int    // 1 or 2 (RoCE v1, v2); 0: 2
	Family  string // "ipv4" or "ipv6"; "": ipv4
	Index   *int   // a pin: checked, never assumed
}

// PolicyRoute is a rule and the routes of its table.
type PolicyRoute struct {
	Name     string
	Host     string
	From     netip.Prefix // invalid: any
	To       netip.Prefix // invalid: any
	Table    int
	Priority int
	NIC      string // name of the NIC on the same host
	Routes   []Route
	Pos      Pos
	AttrPos  map[string]Pos
}

// Route is one route of a table. Without Via it is on-link on the block's NIC.
type Route struct {
	To     netip.Prefix
	Via    netip.Addr // invalid: none
	Src    netip.Addr // invalid: chosen by the kernel
	OnLink bool
	Metric int // 0: the kernel's default for the family
	Pos    Pos
}

// NICRef names a NIC of the fabric.
type NICRef struct{ Host, NIC string }

// String is host.nic, as messages write it.
func (r NICRef) String() string { return r.Host + "." + r.NIC }

// Link is one direct cable between two NICs.
type Link struct {
	Name       string
	Block      string
	Endpoints  [2]NICRef
	MTU        int     // bytes; 0: not declared
	SpeedGbps  float64 // what the port must have negotiated; 0: not declared
	ExpectGbps float64 // what fractions refer to; SpeedGbps when not declared
	PortGroup  string
	Role       string
	Validate   Validate // merged with the fabric's
	Pos        Pos
	AttrPos    map[string]Pos
}

// NCCL holds declared NCCL settings. Nil and empty mean derived.
type NCCL struct {
	Transport    string // "ib", "socket" or "" (derived)
	HCA          []NICRef
	SocketIfname string // a NIC name of the host, or a netdev name
	GIDIndex     *int
	Env          map[string]string
	Write        *bool
	File         string
	Pos          Pos
}

// Validate holds thresholds of the live checks.
type Validate struct {
	Ping  PingCheck
	TCP   TCPCheck
	Pairs string // "ring", "all" or ""
}

// PingCheck is the ICMP check's thresholds. Nil MaxRTT: not judged.
type PingCheck struct {
	Enabled        bool
	Count          int
	MaxLossPercent float64
	MaxRTT         *time.Duration
}

// TCPCheck is the throughput check's thresholds, per direction.
type TCPCheck struct {
	Enabled     bool
	Duration    time.Duration
	Streams     int
	MinGbps     *float64
	MinFraction *float64 // of Link.ExpectGbps; nil: 0.9 where a speed is declared
}

// Host returns the host of that name, or nil.
func (f *Fabric) Host(name string) *Host {
	for _, h := range f.Hosts {
		if h.Name == name {
			return h
		}
	}
	return nil
}

// NIC returns the NIC of that name, or nil.
func (h *Host) NIC(name string) *NIC {
	for _, n := range h.NICs {
		if n.Name == name {
			return n
		}
	}
	return nil
}

// NIC resolves a reference; nil when it names nothing.
func (f *Fabric) NIC(r NICRef) *NIC {
	if h := f.Host(r.Host); h != nil {
		return h.NIC(r.NIC)
	}
	return nil
}
