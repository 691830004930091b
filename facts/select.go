package facts

import (
	"fmt"
	"strings"

	"github.com/fabricform/fabricform/host"
)

// Selector selects a NIC on the live host. Exactly one field is set.
type Selector struct {
	Netdev string `json:"netdev,omitempty"`
	MAC    string `json:"mac,omitempty"`  // lower case, colon separated
	PCI    string `json:"pci,omitempty"`  // domain:bus:slot.function, lower case
	RDMA   string `json:"rdma,omitempty"` // name of the RDMA device on it
}

// Find returns the link that the selector matches. The error lists the links of the host.
func (snap *Snapshot) Find(s Selector) (*host.Link, error) {
	if s.Netdev != "" {
		if l := snap.Link(s.Netdev); l != nil {
			return l, nil
		}
		return nil, fmt.Errorf("netdev %q does not exist; there are %s", s.Netdev, snap.candidates())
	}
	if s.RDMA != "" {
		return snap.findRDMA(s.RDMA)
	}
	var hits []*host.Link
	for i := range snap.Links {
		if matches(&snap.Links[i], s) {
			hits = append(hits, &snap.Links[i])
		}
	}
	what := "pci " + s.PCI
	if s.MAC != "" {
		what = "mac " + s.MAC
	}
	switch len(hits) {
	case 1:
		return hits[0], nil
	case 0:
		return nil, fmt.Errorf("match %s: no device matches; there are %s", what, snap.candidates())
	}
	names := make([]string, 0, len(hits))
	for _, l := range hits {
		names = append(names, l.Name)
	}
	return nil, fmt.Errorf("match %s: several devices match (%s); choose one with netdev", what, strings.Join(names, ", "))
}

// findRDMA returns the netdev of an RDMA device.
func (snap *Snapshot) findRDMA(name string) (*host.Link, error) {
	var there []string
	for _, d := range snap.RDMA {
		if d.Name == name {
			if l := snap.Link(d.Netdev); l != nil {
				return l, nil
			}
			return nil, fmt.Errorf("match rdma %s: the device has no netdev in this network namespace; "+
				"check whether the netdev is in another namespace, or whether the device is InfiniBand without IPoIB", name)
		}
		if d.Netdev == "" {
			there = append(there, d.Name)
			continue
		}
		there = append(there, d.Name+" on "+d.Netdev)
	}
	if there == nil {
		return nil, fmt.Errorf("match rdma %s: this host has no RDMA device", name)
	}
	return nil, fmt.Errorf("match rdma %s: the device does not exist; there are %s", name, strings.Join(there, ", "))
}

// matches skips VLANs, bridges and bonds, which have the MAC of the device below them.
func matches(l *host.Link, s Selector) bool {
	if s.PCI != "" {
		return l.PCI == s.PCI
	}
	if l.Kind != "" && l.Kind != "veth" || l.Loopback {
		return false
	}
	if l.PermMAC != "" {
		return l.PermMAC == s.MAC
	}
	return l.MAC == s.MAC
}

func (snap *Snapshot) candidates() string {
	var out []string
	for _, l := range snap.Links {
		if l.Loopback {
			continue
		}
		text := l.Name + " (" + l.MAC
		if l.PCI != "" {
			text += ", pci " + l.PCI
		}
		out = append(out, text+")")
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ", ")
}
