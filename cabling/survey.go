// Package cabling finds out which port is cabled to which, without asking a switch. Every port that is up sends a few frames of our own
// (package probe), and all ports listen. One of the two kinds of frames stops at the first bridge, so that a direct cable and a switched
// segment sound different. Switches also describe themselves, by LLDP.
//
// Plan chooses the ports, Listen sends and listens, and Judge says what was heard. Plan and Judge are pure.
package cabling

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"slices"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/probe"
)

// Port is a port of a host, by the name of its netdev.
type Port struct {
	Host   string `json:"host"`
	Netdev string `json:"netdev"`
}

// String is host:netdev.
func (p Port) String() string { return p.Host + ":" + p.Netdev }

// State is what a port does in a run.
type State string

// The states. Every port that is not down listens.
const (
	Sends      State = "sends"
	Management State = "management" // it may carry the operator's connection, and sends nothing
	Down       State = "down"       // administratively: it can send and hear nothing
	NoCarrier  State = "no_carrier"
	Listens    State = "listens" // the caller did not want it to send
)

// Survey is what a run does, and on which ports.
type Survey struct {
	Ports []SurveyPort
	// Failed are the hosts that take no part, and why.
	Failed map[string]string
	macs   map[string][]string // of all links, and the hosts that say they have them
}

// SurveyPort is one port of a survey. Its number in the run is its place in Survey.Ports.
type SurveyPort struct {
	Port
	State State
	// Twins are the netdevs of the other functions of the same physical port.
	Twins []string
	// Over is the bridge or bond that the port belongs to; "" if none.
	Over string
	// Raisable is set if the port is down and may be set up for a run: it is certain that the operator's path does not need it to be down, and it
	// belongs to no bridge or bond. LeftAlone says why a port that is down may not.
	Raisable  bool
	LeftAlone string
}

// Options select what a survey sends.
type Options struct {
	// IncludeManagement lets the devices of the operator's path send, too.
	IncludeManagement bool
	// Send says which ports send; nil: all.
	Send func(Port) bool
	// LeaveAlone says of ports that are down, by host and netdev, why they are not set up.
	LeaveAlone map[string]map[string]string
}

// Plan chooses the Ethernet ports of the hosts. Virtual devices are left out; in a lab, whose cables are veths, veths are ports.
func Plan(snaps map[string]*facts.Snapshot, o Options) *Survey {
	s := &Survey{Failed: map[string]string{}, macs: map[string][]string{}}
	for _, name := range slices.Sorted(maps.Keys(snaps)) {
		snap := snaps[name]
		var links []host.Link
		for _, l := range snap.Links {
			for _, mac := range []string{l.MAC, l.PermMAC} {
				if mac != "" {
					s.macs[mac] = append(s.macs[mac], name)
				}
			}
			if isPort(l, snap.System.Lab) {
				links = append(links, l)
			}
		}
		if len(links) > probe.MaxCablingPorts {
			s.Failed[name] = fmt.Sprintf("it has %d Ethernet ports, and at most %d of a host take part", len(links), probe.MaxCablingPorts)
			continue
		}
		slices.SortStableFunc(links, func(a, b host.Link) int { return cmp.Or(cmp.Compare(a.PCI, b.PCI), cmp.Compare(a.Name, b.Name)) })
		for _, l := range links {
			p := SurveyPort{Port: Port{name, l.Name}, State: state(l, snap, o)}
			if o.Send != nil && p.State == Sends && !o.Send(p.Port) {
				p.State = Listens
			}
			for _, other := range links {
				if other.Index != l.Index && facts.OnePort(l, other) {
					p.Twins = append(p.Twins, other.Name)
				}
			}
			if over := snap.LinkByIndex(l.Master); over != nil && l.Master != 0 {
				p.Over = over.Name
			}
			if p.State == Down {
				p.LeftAlone = cmp.Or(leftAlone(p, l, snap), o.LeaveAlone[name][l.Name])
				p.Raisable = p.LeftAlone == ""
			}
			s.Ports = append(s.Ports, p)
		}
	}
	return s
}

// leftAlone says why a port that is down is never set up; "" if it may be.
func leftAlone(p SurveyPort, l host.Link, snap *facts.Snapshot) string {
	m := snap.Management
	switch {
	case p.Over != "":
		return "it belongs to " + p.Over
	case m.Unknown != "":
		return "the path of your connection is unknown"
	case slices.Contains(m.Devices, l.Name):
		return "it may carry your connection"
	}
	for _, a := range snap.Addrs {
		if a.Index == l.Index && a.Prefix.Masked().Contains(m.Client) {
			return fmt.Sprintf("its address %s would divert the replies to you", a.Prefix)
		}
	}
	return ""
}

// isPort reports whether a link is an Ethernet port: hardware, or in a lab the end of a cable.
func isPort(l host.Link, lab bool) bool {
	mac, err := net.ParseMAC(l.MAC)
	return err == nil && len(mac) == 6 && !l.Loopback && (l.Kind == "" || lab && l.Kind == "veth")
}

func state(l host.Link, snap *facts.Snapshot, o Options) State {
	m := snap.Management
	switch {
	case !l.Up:
		return Down
	case !l.Carrier:
		return NoCarrier
	case !o.IncludeManagement && (m.Unknown != "" || slices.Contains(m.Devices, l.Name)):
		return Management
	}
	return Sends
}

// Raisable returns the ports that are down and may be set up for a run, by host.
func (s *Survey) Raisable() map[string][]string {
	out := map[string][]string{}
	for _, p := range s.Ports {
		if p.Raisable {
			out[p.Host] = append(out[p.Host], p.Netdev)
		}
	}
	return out
}

// Of returns the ports in a state, by host.
func (s *Survey) Of(state State) map[string][]string {
	out := map[string][]string{}
	for _, p := range s.Ports {
		if p.State == state {
			out[p.Host] = append(out[p.Host], p.Netdev)
		}
	}
	return out
}
