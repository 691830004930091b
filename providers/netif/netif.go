package netif

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/resource"
)

// Names of the kinds of this package.
const (
	KindNIC         = "nic"
	KindBond        = "bond"
	KindVLAN        = "vlan"
	KindRoute       = "route"
	KindPolicyRoute = "policy_route"
	KindSysctl      = "sysctl"
)

// Kinds returns the kinds of this package. NICs come first, because rules and routes refer to them. Undos come in reverse order: a member
// leaves its bond before it gets its addresses back.
func Kinds() resource.Kinds {
	return resource.Kinds{
		resource.Erase[NICSpec, NICStatus](KindNIC, nic{}),
		resource.Erase[DeviceSpec, DeviceStatus](KindBond, bond{}),
		resource.Erase[DeviceSpec, DeviceStatus](KindVLAN, vlan{}),
		resource.Erase[SysctlSpec, SysctlStatus](KindSysctl, sysctl{}),
		resource.Erase[MainRouteSpec, MainRouteStatus](KindRoute, mainRoute{}),
		resource.Erase[PolicyRouteSpec, PolicyRouteStatus](KindPolicyRoute, policyRoute{}),
	}
}

// Desired returns the resources that the files declare for one host, in a stable order.
func Desired(_ *fabric.Fabric, h *fabric.Host) []resource.Resource {
	var out []resource.Resource
	for _, n := range h.NICs {
		out = append(out, nicResources(h, n)...)
	}
	for _, key := range slices.Sorted(maps.Keys(h.Sysctl)) {
		out = append(out, resource.New(h.Name, KindSysctl, key, h.Pos, SysctlSpec{Key: key, Value: h.Sysctl[key]}))
	}
	for _, m := range h.Routes {
		spec := MainRouteSpec{NIC: nicOf(h, m.NIC), Route: routeSpec(m.Route)}
		out = append(out, resource.New(h.Name, KindRoute, m.Name, m.Pos, spec, after(h, m.NIC, m.Src)...))
	}
	for _, p := range h.Policy {
		addresses := []netip.Addr{p.From.Addr()}
		for _, r := range p.Routes {
			addresses = append(addresses, r.Src)
		}
		out = append(out, resource.New(h.Name, KindPolicyRoute, p.Name, p.Pos, policySpec(h, p), after(h, p.NIC, addresses...)...))
	}
	return out
}

// nicResources returns the NIC, and before it the device if it is a bond or VLAN. A bond comes after its members, which lose their addresses
// first, and a VLAN after what carries it.
func nicResources(h *fabric.Host, n *fabric.NIC) []resource.Resource {
	spec := nicSpec(h, n)
	if spec.Device == nil {
		return []resource.Resource{resource.New(h.Name, KindNIC, n.Name, n.Pos, spec)}
	}
	below := h.Members(n)
	if n.VLAN != nil {
		below = []*fabric.NIC{h.NIC(n.VLAN.On.NIC)}
	}
	var after []resource.Addr
	for _, b := range below {
		if b != nil {
			after = append(after, resource.Addr{Host: h.Name, Kind: KindNIC, Name: b.Name})
		}
	}
	d := resource.New(h.Name, spec.Device.Kind(), n.Name, n.Pos, *spec.Device, after...)
	return []resource.Resource{d, resource.New(h.Name, KindNIC, n.Name, n.Pos, spec, d.Addr)}
}

// after returns the NICs that come before a route or rule: its own, and those that get its source addresses.
func after(h *fabric.Host, own fabric.NICRef, addresses ...netip.Addr) []resource.Addr {
	out := []resource.Addr{{Host: h.Name, Kind: KindNIC, Name: own.NIC}}
	for _, n := range h.NICs {
		gets := func(p netip.Prefix) bool { return slices.Contains(addresses, p.Addr()) }
		if n.Name != own.NIC && slices.ContainsFunc(n.Addresses, gets) {
			out = append(out, resource.Addr{Host: h.Name, Kind: KindNIC, Name: n.Name})
		}
	}
	return out
}

func selector(n *fabric.NIC) facts.Selector {
	return facts.Selector{Netdev: n.Netdev, MAC: n.Match.MAC, PCI: n.Match.PCI, RDMA: n.Match.RDMA}
}

func nicSpec(h *fabric.Host, n *fabric.NIC) NICSpec {
	s := NICSpec{
		Select: selector(n), MTU: n.MTU, Up: n.Up, Addresses: slices.Clone(n.Addresses), AddressesSet: n.AddressesSet,
		AcceptRA: n.AcceptRA, IPv6LinkLocal: n.IPv6LinkLocal, Sysctl: n.Sysctl, Device: deviceSpec(h, n),
	}
	if b := h.BondOf(n); b != nil {
		s.Bond, s.AddressesSet = b.Netdev, true // a member has no addresses
	}
	return s
}

// deviceSpec returns the device of a bond or VLAN; nil for any other NIC.
func deviceSpec(h *fabric.Host, n *fabric.NIC) *DeviceSpec {
	switch b, v := n.Bond, n.VLAN; {
	case b != nil:
		s := BondSpec{Mode: b.Mode, LACPRate: b.LACPRate, XmitHash: b.XmitHash, MIIMon: b.MIIMon, MinLinks: b.MinLinks}
		for _, m := range h.Members(n) {
			s.Members = append(s.Members, selector(m))
		}
		return &DeviceSpec{Name: n.Netdev, MTU: n.MTU, Bond: &s}
	case v != nil:
		s := VLANSpec{On: nicOf(h, v.On), ID: v.ID, PriorityMap: v.PriorityMap}
		if on := h.NIC(v.On.NIC); on != nil {
			s.OnMade, s.OnMTU = on.Bond != nil, on.MTU
		}
		return &DeviceSpec{Name: n.Netdev, MTU: n.MTU, VLAN: &s}
	}
	return nil
}

func policySpec(h *fabric.Host, p *fabric.PolicyRoute) PolicyRouteSpec {
	s := PolicyRouteSpec{NIC: nicOf(h, p.NIC), From: p.From, To: p.To, Table: p.Table, Priority: p.Priority}
	for _, r := range p.Routes {
		s.Routes = append(s.Routes, routeSpec(r))
	}
	return s
}

func nicOf(h *fabric.Host, ref fabric.NICRef) facts.Selector {
	if n := h.NIC(ref.NIC); n != nil {
		return selector(n)
	}
	return facts.Selector{} // matches nothing; the plan reports the error
}

func routeSpec(r fabric.Route) RouteSpec {
	return RouteSpec{To: r.To, Via: r.Via, Src: r.Src, OnLink: r.OnLink, Metric: r.Metric}
}

// Local marks what is read from the kernel alone.
func (nic) Local() {}

// Local is as that of nic.
func (bond) Local() {}

// Local is as that of nic.
func (vlan) Local() {}

// Local is as that of nic.
func (sysctl) Local() {}

// Local is as that of nic.
func (mainRoute) Local() {}

// Local is as that of nic.
func (policyRoute) Local() {}
