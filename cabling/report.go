package cabling

import (
	"strings"
	"time"
)

// End is one physical port: a host and its netdevs, several if the port is several functions.
type End struct {
	Host    string   `json:"host"`
	Netdevs []string `json:"netdevs"`
}

// String is host:netdev, with the further functions behind a plus sign.
func (e End) String() string { return e.Host + ":" + strings.Join(e.Netdevs, "+") }

// Report is what a run found out. What was not heard is not claimed: a port in Silent may be cabled to a device that says nothing.
type Report struct {
	Listened time.Duration `json:"listened"`
	// Sent is how many frames each port has sent.
	Sent map[string]int `json:"sent,omitempty"`
	// Cables are direct cables. Both ends heard both kinds of the other's frames, nobody else heard either, and no other device was heard.
	Cables [][2]End `json:"cables,omitempty"`
	// Segments are ports that hear each other's broadcasts over a bridge or a switch.
	Segments []Segment `json:"segments,omitempty"`
	// Switches are devices that described themselves to ports.
	Switches []Switch `json:"switches,omitempty"`
	// Rails are ports of several hosts that belong together, by the switches that they share.
	Rails []Rail `json:"rails,omitempty"`
	// Unclear are ports that heard something which is neither a cable nor a segment.
	Unclear []Unclear `json:"unclear,omitempty"`
	// Silent are ports with a carrier that heard nothing and whose frames nobody heard.
	Silent []End `json:"nothing_heard,omitempty"`
	// Management are ports that may carry the operator's connection, and sent nothing.
	Management []End `json:"management,omitempty"`
	NoCarrier  []End `json:"no_carrier,omitempty"`
	Down       []End `json:"down,omitempty"` // they were not tried
	// LeftAlone says why ports that are down are not set up with -raise, by HOST:NETDEV.
	LeftAlone map[string]string `json:"left_alone,omitempty"`
	// Raised are ports that were down, and were up for the run alone.
	Raised []Port `json:"raised,omitempty"`
	// TakesLLDP are ports whose NIC's firmware takes the frames of LLDP for itself.
	TakesLLDP []LLDPTaken `json:"firmware_takes_lldp,omitempty"`
	// Failed are the hosts and ports that did not take part, and why.
	Failed map[string]string `json:"failed,omitempty"`
}

// Segment is a set of ports that hear each other's broadcasts.
type Segment struct {
	Ends []End `json:"ends"`
	// Forwards: frames to the address that bridges must not forward also arrived at all of them.
	Forwards bool `json:"forwards_link_local,omitempty"`
}

// Switch is a device that described itself.
type Switch struct {
	Name    string       `json:"name"` // its system name, else its chassis ID or the ID of its bridge
	Chassis string       `json:"chassis,omitempty"`
	System  string       `json:"system,omitempty"`
	Ports   []SwitchPort `json:"ports"`
}

// SwitchPort is a port of a switch, and what is cabled to it.
type SwitchPort struct {
	End   End    `json:"end"`
	Port  string `json:"port,omitempty"`  // the switch's name of it
	About string `json:"about,omitempty"` // the switch's description of it
}

// Rail is one rail of a fabric.
type Rail struct {
	Name string `json:"name"`
	// By is what shows the rail: the names of a switch's ports, or one switch with one port of each host.
	By   string `json:"by"`
	Ends []End  `json:"ends"`
}

// Unclear says what was heard where no rule fits.
type Unclear struct {
	Ends  []End    `json:"ends"`
	Heard []string `json:"heard"`
}

// LLDPTaken is a port whose firmware takes the frames of LLDP.
type LLDPTaken struct {
	Port Port   `json:"port"`
	Flag string `json:"private_flag"` // of ethtool
}
