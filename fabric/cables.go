package fabric

import "fmt"

// Cable is one physical cable: between two ports, or from a port to a switch. Ports are NICs that exist without us: a bond has the cables of its
// members, and a VLAN those of the NIC below it.
type Cable struct {
	Name    string // the link or network:host, and the port after it if there are several
	Ports   []NICRef
	Link    *Link    // nil: Network is set
	Network *Network // the switch; of several networks whose members share a port, the first
	Member  NICRef   // the member of the network that needs the cable
	Segment int      // cables of one switch have the same number
}

// Span returns the declared distance of the cable's link or network.
func (c Cable) Span() Span {
	if c.Link != nil {
		return c.Link.Span
	}
	return c.Network.Span
}

// Cables returns the cables that the links and networks need, each once. It returns an error if a port would need two cables, or if the two ends
// of a link have different numbers of ports.
func (f *Fabric) Cables() (out []Cable, err error) {
	at := map[NICRef]int{} // segment of a port
	segments := 0
	for _, l := range f.Links {
		a, z := f.ports(l.Endpoints[0]), f.ports(l.Endpoints[1])
		if len(a) != len(z) {
			return nil, fmt.Errorf("link %s has %d cables at %s and %d at %s", l.Name, len(a), l.Endpoints[0], len(z), l.Endpoints[1])
		}
		for i := range a {
			name := l.Name
			if len(a) > 1 {
				name += ":" + a[i].NIC
			}
			here, laid := at[a[i]]
			there, also := at[z[i]]
			if laid && also && here == there { // two VLANs of one cable
				continue
			}
			if laid || also {
				return nil, fmt.Errorf("link %s needs a cable from %s to %s, and one of them has another cable", l.Name, a[i], z[i])
			}
			at[a[i]], at[z[i]] = segments, segments
			out = append(out, Cable{Name: name, Ports: []NICRef{a[i], z[i]}, Link: l, Segment: segments})
			segments++
		}
	}
	for _, n := range f.Networks {
		segment := segments
		for _, m := range n.Members {
			for _, p := range f.ports(m) {
				if s, laid := at[p]; laid { // networks of VLANs may share a switch
					segment = s
				}
			}
		}
		segments = max(segments, segment+1)
		for _, m := range n.Members {
			ports := f.ports(m)
			for _, p := range ports {
				s, laid := at[p]
				if laid && s != segment {
					return nil, fmt.Errorf("%s needs a cable to the switch of network %s, and has another one", p, n.Name)
				}
				if laid {
					continue
				}
				name := n.Name + ":" + n.MemberName(m)
				if len(ports) > 1 {
					name += ":" + p.NIC
				}
				at[p] = segment
				out = append(out, Cable{Name: name, Ports: []NICRef{p}, Network: n, Member: m, Segment: segment})
			}
		}
	}
	return out, nil
}

// ports returns the ports that carry a NIC's traffic.
func (f *Fabric) ports(r NICRef) (out []NICRef) {
	h := f.Host(r.Host)
	if n := f.NIC(r); n != nil {
		for _, p := range h.Ports(n) {
			out = append(out, p.Ref())
		}
	}
	return out
}
