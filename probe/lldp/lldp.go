// Package lldp decodes what Ethernet devices say about themselves: frames of LLDP (IEEE 802.1AB) and of the Spanning Tree Protocol
// (IEEE 802.1D). Frames come from any device on the wire, so nothing in them is trusted: decoding is bounded by the frame, never
// panics, and returns only text that is fit to print.
package lldp

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Neighbour is a device at the other end of a cable, as it describes itself. Empty fields were not said.
type Neighbour struct {
	Source   string `json:"source"`           // MAC address that sent the frame
	Chassis  string `json:"chassis"`          // its chassis ID
	Port     string `json:"port"`             // its port ID
	About    string `json:"about,omitempty"`  // its description of the port
	Name     string `json:"name,omitempty"`   // its system name
	System   string `json:"system,omitempty"` // its description of itself
	Bridge   bool   `json:"bridge,omitempty"` // it says that it forwards as a bridge
	Router   bool   `json:"router,omitempty"` // it says that it forwards as a router
	Seconds  int    `json:"seconds"`          // how long this is valid; 0: the device says that it goes away
	ChassisM string `json:"-"`                // the chassis ID, if it is a MAC address
}

// Frame is what a frame says.
type Frame struct {
	Source string // MAC address
	Type   int    // EtherType; 0: the frame has a length and LLC instead
	// LLDP is set if the frame is one of LLDP that keeps to the standard.
	LLDP *Neighbour
	// Root and Bridge are set if the frame is a BPDU of a spanning tree: the bridge IDs of the root and of the sender.
	Root, Bridge string
}

const (
	header    = 14
	typeLLDP  = 0x88cc
	longest   = 0x0600 // smaller values are lengths (IEEE 802.3, 3.2.6)
	textLimit = 255    // of an LLDP text
)

// Decode decodes a frame that begins with its Ethernet header. ok is false if the frame has no such header. A frame of LLDP that breaks
// the standard has no LLDP.
func Decode(b []byte) (f Frame, ok bool) {
	if len(b) < header {
		return f, false
	}
	f.Source = net.HardwareAddr(b[6:12]).String()
	kind := int(binary.BigEndian.Uint16(b[12:]))
	body := b[header:]
	if kind < longest {
		f.Root, f.Bridge = bpdu(body[:min(kind, len(body))])
		return f, true
	}
	f.Type = kind
	if kind == typeLLDP {
		if n, err := parse(body); err == nil {
			n.Source = f.Source
			f.LLDP = n
		}
	}
	return f, true
}

// bpdu reads a configuration BPDU, of STP or RSTP (IEEE 802.1D-2004, 9.3), behind LLC's header 42 42 03.
func bpdu(b []byte) (root, bridge string) {
	const llc, ids = 3, 5
	if len(b) < llc+ids+8+4+8 || b[0] != 0x42 || b[1] != 0x42 || b[2] != 3 || b[llc] != 0 || b[llc+1] != 0 || b[llc+3] != 0 && b[llc+3] != 2 {
		return "", ""
	}
	id := func(b []byte) string {
		return fmt.Sprintf("%04x.%s", binary.BigEndian.Uint16(b), net.HardwareAddr(b[2:8]))
	}
	b = b[llc+ids:]
	return id(b), id(b[8+4:])
}

// The types of TLVs (IEEE 802.1AB-2016, table 8-1).
const (
	endOfPDU = iota
	chassisID
	portID
	timeToLive
	portDescription
	systemName
	systemDescription
	capabilities
)

// parse reads the TLVs of an LLDPDU. The first three are the chassis ID, the port ID and the time to live, in this order (8.2).
func parse(b []byte) (*Neighbour, error) {
	n := &Neighbour{}
	for i := 0; ; i++ {
		if len(b) < 2 {
			if i > timeToLive-1 {
				return n, nil // the end may be left out where the frame ends
			}
			return nil, fmt.Errorf("ends before its TLV %d", i+1)
		}
		head := binary.BigEndian.Uint16(b)
		kind, length := int(head>>9), int(head&0x1ff)
		if len(b) < 2+length {
			return nil, fmt.Errorf("TLV %d of %d bytes is longer than the frame", i+1, length)
		}
		value := b[2 : 2+length]
		b = b[2+length:]
		if i < timeToLive && kind != i+1 {
			return nil, fmt.Errorf("TLV %d has type %d", i+1, kind)
		}
		switch kind {
		case endOfPDU:
			return n, nil
		case chassisID, portID:
			if i >= timeToLive || len(value) < 2 {
				return nil, fmt.Errorf("TLV %d of type %d is not allowed", i+1, kind)
			}
			if kind == chassisID {
				n.Chassis, n.ChassisM = identifier(value, 4, 5)
			} else {
				n.Port, _ = identifier(value, 3, 4)
			}
		case timeToLive:
			if len(value) < 2 {
				return nil, fmt.Errorf("TLV %d has no time", i+1)
			}
			n.Seconds = int(binary.BigEndian.Uint16(value))
		case portDescription:
			n.About = text(value)
		case systemName:
			n.Name = text(value)
		case systemDescription:
			n.System = text(value)
		case capabilities:
			if len(value) >= 4 {
				on := binary.BigEndian.Uint16(value[2:])
				n.Bridge, n.Router = on&(1<<2) != 0, on&(1<<4) != 0
			}
		}
	}
}

// identifier reads an ID behind its subtype: mac and address are the subtypes of MAC addresses and of network addresses (tables 8-2
// and 8-3).
func identifier(b []byte, mac, address byte) (id, hardware string) {
	kind, value := b[0], b[1:]
	switch {
	case kind == mac && len(value) == 6:
		m := net.HardwareAddr(value).String()
		return m, m
	case kind == address && len(value) > 1: // a family of IANA's list, then the address
		if a, ok := netip.AddrFromSlice(value[1:]); ok && (value[0] == 1 && a.Is4() || value[0] == 2 && a.Is6()) {
			return a.String(), ""
		}
	}
	if s := text(value); s != "" && kind != mac && kind != address {
		return s, ""
	}
	return fmt.Sprintf("%x", value[:min(len(value), textLimit)]), ""
}

// text returns a text without what is not printable; "" if it is no text.
func text(b []byte) string {
	b = b[:min(len(b), textLimit)]
	s := strings.TrimSpace(strings.TrimRight(string(b), "\x00"))
	if !utf8.ValidString(s) {
		return ""
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, s)
}
