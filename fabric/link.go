package fabric

import (
	"fmt"
	"net/netip"
	"slices"
)

// Link is one direct cable between two NICs.
type Link struct {
	Block
	Name      string
	BlockName string

	// The two NICs: `[host.a.nic.rail0, host.b.nic.rail0]`.
	Endpoints []NICRef `ff:"endpoints,required"`
	// One subnet, or one for each address family. The ends get its first two usable addresses, in the order of `endpoints`; a /31
	// and a /127 use both addresses.
	Subnet []netip.Prefix `ff:"subnet"`
	// MTU of both ends, in bytes.
	MTU int `ff:"mtu,min=68,max=65535"`
	// Speed that each port must have negotiated, in Gb/s.
	SpeedGbps float64 `ff:"speed_gbps,min=0,least=0.000001,max=1000000"`
	// Speed that `min_fraction` refers to, in Gb/s. Default: `speed_gbps`.
	ExpectGbps float64 `ff:"expect_gbps,min=0,least=0.000001,max=1000000"`
	// Name of the physical port that this link shares with other links. They are measured one by one and all together.
	PortGroup string `ff:"port_group"`
	// Purpose of the link.
	Role string `ff:"role,one=training|inference|checkpoint|storage,default=training"`
	Span
	// Thresholds of this link.
	Validate Validate `ff:"validate,block"`
}

// Network is a switched segment, or a set of routed subnets.
type Network struct {
	Block
	Name      string
	BlockName string

	// The NICs: `[for h in values(host.gpu) : h.nic.rail0]`.
	Members []NICRef `ff:"members,required"`
	// One subnet, or one for each address family. Members get their address by `host_number`, or declare one in the subnet.
	Subnet []netip.Prefix `ff:"subnet"`
	// Whether the members are in different subnets. Each then needs a route to the others, which is checked.
	Routed bool `ff:"routed"`
	// MTU of all members, in bytes.
	MTU int `ff:"mtu,min=68,max=65535"`
	// Speed that each port must have negotiated, in Gb/s.
	SpeedGbps float64 `ff:"speed_gbps,min=0,least=0.000001,max=1000000"`
	// Speed that `min_fraction` refers to, in Gb/s. Default: `speed_gbps`.
	ExpectGbps float64 `ff:"expect_gbps,min=0,least=0.000001,max=1000000"`
	// Purpose of the network.
	Role string `ff:"role,one=training|inference|checkpoint|storage,default=training"`
	Span
	// Thresholds of this network.
	Validate Validate `ff:"validate,block"`
}

// Title names the link in a message: its block, and its key if the block has for_each.
func (l *Link) Title() string { return title(l.BlockName, l.Name) }

// Title names the network in a message: its block, and its key if the block has for_each.
func (n *Network) Title() string { return title(n.BlockName, n.Name) }

func title(block, name string) string {
	if block == "" || block == name {
		return name
	}
	return fmt.Sprintf("%s[%q]", block, name)
}

// Path is a pair of NICs that the live checks measure: a link, or two members of a network.
type Path struct {
	Name       string // name of the link, or network:host-host
	Network    *Network
	Link       *Link
	Endpoints  [2]NICRef
	MTU        int     // bytes; 0: not declared
	SpeedGbps  float64 // 0: not declared
	ExpectGbps float64 // 0: not declared
	PortGroup  string
	Role       string
	Routed     bool
	Span       Span
	Validate   Validate
}

// Role returns the role of the NIC's link or network, or "".
func (f *Fabric) Role(r NICRef) string {
	for _, l := range f.Links {
		if slices.Contains(l.Endpoints, r) {
			return l.Role
		}
	}
	for _, n := range f.Networks {
		if slices.Contains(n.Members, r) {
			return n.Role
		}
	}
	return ""
}

// ringFrom is the number of members above which a network is measured as a ring by default. All pairs of
// n members take n·(n-1)/2 measurements, a ring takes n.
const ringFrom = 4

// Paths lists the paths that the live checks measure: links first, then the pairs of each network.
func (f *Fabric) Paths() []Path {
	var out []Path
	for _, l := range f.Links {
		out = append(out, Path{Name: l.Name, Link: l, Endpoints: [2]NICRef(l.Endpoints), MTU: l.MTU,
			SpeedGbps: l.SpeedGbps, ExpectGbps: l.ExpectGbps,
			PortGroup: l.PortGroup, Role: l.Role, Span: l.Span, Validate: l.Validate})
	}
	for _, n := range f.Networks {
		out = append(out, n.paths()...)
	}
	return out
}

// MemberName returns the name of the member's host, or host.nic if the host has several NICs in the network.
func (n *Network) MemberName(r NICRef) string {
	for _, o := range n.Members {
		if o.Host == r.Host && o != r {
			return r.String()
		}
	}
	return r.Host
}

func (n *Network) paths() []Path {
	var out []Path
	m := n.Members
	names := map[NICRef]string{}
	for _, r := range m {
		names[r] = n.MemberName(r)
	}
	add := func(a, b NICRef) {
		out = append(out, Path{Name: fmt.Sprintf("%s:%s-%s", n.Name, names[a], names[b]), Network: n,
			Endpoints: [2]NICRef{a, b}, MTU: n.MTU,
			SpeedGbps: n.SpeedGbps, ExpectGbps: n.ExpectGbps, Role: n.Role, Routed: n.Routed, Span: n.Span, Validate: n.Validate})
	}
	ring := n.Validate.Pairs == "ring" || n.Validate.Pairs == "" && len(m) > ringFrom
	for i := range m {
		if ring {
			if next := (i + 1) % len(m); next != i && (next > i || len(m) > 2) {
				add(m[i], m[next])
			}
			continue
		}
		for j := i + 1; j < len(m); j++ {
			add(m[i], m[j])
		}
	}
	return out
}
