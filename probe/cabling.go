package probe

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/fabricform/fabricform/agent"
)

var (
	// ListenCabling begins to listen on ports for probe frames, and for what other devices say about themselves.
	ListenCabling = agent.Method[CablingListenSpec, CablingListening]("cabling.listen")
	// SendCabling sends the probe frames of ports.
	SendCabling = agent.Method[CablingSendSpec, []CablingSent]("cabling.send")
	// CollectCabling ends to listen, by the ID of the listening, and returns what was heard.
	CollectCabling = agent.Method[string, CablingHeard]("cabling.collect")
)

// CablingFrames is how many frames SendCabling sends from one port: two rounds, each to both destinations.
const CablingFrames = 4

// The limits of a listening.
const (
	// MaxCablingPorts is how many ports of one host take part.
	MaxCablingPorts  = 1024
	maxCablingListen = 5 * time.Minute
	// maxCablingProbes is how many probes one port may have heard: those of all ports of a large segment.
	maxCablingProbes = 8192
	// maxCablingOthers is how many different frames of other devices are kept for one port, and maxCablingFrame how many bytes
	// of each: a frame of LLDP fits into one Ethernet frame (IEEE 802.1AB, 8.1).
	maxCablingOthers = 16
	maxCablingFrame  = 1522
)

// CablingListenSpec asks to listen on ports until CollectCabling.
type CablingListenSpec struct {
	Token    string        `json:"token"` // of the run, 32 hexadecimal digits: other frames of this type are somebody else's
	Netdevs  []string      `json:"netdevs"`
	Duration time.Duration `json:"duration"` // the longest time to listen, if nobody collects
}

func (s CablingListenSpec) check() ([cablingTokenSize]byte, error) {
	token, err := cablingToken(s.Token)
	if err == nil && (len(s.Netdevs) > MaxCablingPorts || s.Duration <= 0 || s.Duration > maxCablingListen) {
		err = fmt.Errorf("listen on %d ports for %s: too much", len(s.Netdevs), s.Duration)
	}
	return token, err
}

// CablingListening is an open listening.
type CablingListening struct {
	ID    string                 `json:"id"`
	Ports []CablingListeningPort `json:"ports"`
}

// CablingListeningPort is one port of a listening.
type CablingListeningPort struct {
	Netdev string `json:"netdev"`
	Failed string `json:"failed,omitempty"` // why nothing can be heard on the port
	// Eats names the private flag of the driver by which the NIC's firmware takes the frames of LLDP for itself; "" if it
	// does not, or the driver has no such flag.
	Eats string `json:"eats,omitempty"`
}

// CablingSendSpec asks for the frames of ports. Each port has a number of its own within the run.
type CablingSendSpec struct {
	Token string        `json:"token"`
	Ports []CablingPort `json:"ports"`
}

// CablingPort is a port that sends.
type CablingPort struct {
	Netdev string `json:"netdev"`
	Number uint32 `json:"number"`
}

// CablingSent says how many frames a port has sent.
type CablingSent struct {
	Netdev string `json:"netdev"`
	Frames int    `json:"frames"`
	Failed string `json:"failed,omitempty"`
}

// CablingHeard is what the ports of a listening have heard.
type CablingHeard struct {
	Probes []CablingProbe `json:"probes,omitempty"`
	Others []CablingOther `json:"others,omitempty"`
	// Full names the ports that heard more than is kept.
	Full []string `json:"full,omitempty"`
}

// Check returns an error if a host answers more than a listening keeps.
func (h CablingHeard) Check() error {
	probes, others := map[string]int{}, map[string]int{}
	for _, p := range h.Probes {
		probes[p.Netdev]++
		if probes[p.Netdev] > maxCablingProbes || len(probes) > MaxCablingPorts {
			return errors.New("its answer holds more probes than a port keeps")
		}
	}
	for _, o := range h.Others {
		others[o.Netdev]++
		if others[o.Netdev] > maxCablingOthers || len(others) > MaxCablingPorts || len(o.Data) > maxCablingFrame {
			return errors.New("its answer holds more frames of other devices than a port keeps")
		}
	}
	return nil
}

// CablingProbe is a probe frame of this run that a port has heard.
type CablingProbe struct {
	Netdev string `json:"netdev"`
	Number uint32 `json:"number"` // of the port that sent it
	// Group: it was sent to the address that bridges do not forward. Otherwise, it was a broadcast.
	Group bool `json:"group,omitempty"`
	Count int  `json:"count"`
}

// CablingOther is a frame of another device to an address that bridges do not forward, or a probe of another run.
type CablingOther struct {
	Netdev string `json:"netdev"`
	Data   []byte `json:"data"` // its beginning
	Count  int    `json:"count"`
}

// Addresses of frames. 01:80:c2:00:00:0e is the "nearest bridge" group address: no bridge forwards it (IEEE 802.1Q, table 8-1).
// Linux bridges do so only if group_fwd_mask says it (net/bridge/br_input.c).
var (
	nearestBridge = [6]byte{0x01, 0x80, 0xc2, 0, 0, 0x0e}
	everyone      = [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	// cablingGroups are the group addresses that a port must join to hear them: those of LLDP (IEEE 802.1AB, 7.1), of STP and
	// slow protocols, and of Cisco's CDP and PVST+.
	cablingGroups = [][6]byte{nearestBridge, {0x01, 0x80, 0xc2, 0, 0, 0x03}, {0x01, 0x80, 0xc2, 0, 0, 0x00}, {0x01, 0x80, 0xc2, 0, 0, 0x02},
		{0x01, 0x00, 0x0c, 0xcc, 0xcc, 0xcc}, {0x01, 0x00, 0x0c, 0xcc, 0xcc, 0xcd}}
)

const (
	// probeType is the Local Experimental EtherType 1 (IEEE 802, 9.2.4).
	probeType        = 0x88b5
	cablingTokenSize = 16
	ethernetHeader   = 14
	shortestFrame    = 60 // without its FCS
)

// cablingMark begins the payload of each probe, for people who see it in a capture.
var cablingMark = []byte("fabricform cabling\x00")

func cablingToken(text string) (out [cablingTokenSize]byte, err error) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != len(out) {
		return out, errors.New("the token of a run has 32 hexadecimal digits")
	}
	return [cablingTokenSize]byte(raw), nil
}

// probeFrame is the frame that a port sends.
func probeFrame(to, from [6]byte, token [cablingTokenSize]byte, number uint32) []byte {
	b := append(append([]byte{}, to[:]...), from[:]...)
	b = binary.BigEndian.AppendUint16(b, probeType)
	b = append(append(b, cablingMark...), token[:]...)
	b = binary.BigEndian.AppendUint32(b, number)
	return append(b, make([]byte, max(shortestFrame-len(b), 0))...)
}

// readProbe reads a frame that any device may have sent.
func readProbe(b []byte, token [cablingTokenSize]byte) (number uint32, group, ours bool) {
	if len(b) < ethernetHeader || binary.BigEndian.Uint16(b[12:]) != probeType {
		return 0, false, false
	}
	rest, marked := bytes.CutPrefix(b[ethernetHeader:], cablingMark)
	if !marked || len(rest) < cablingTokenSize+4 || !bytes.Equal(rest[:cablingTokenSize], token[:]) {
		return 0, false, false
	}
	return binary.BigEndian.Uint32(rest[cablingTokenSize:]), bytes.Equal(b[:6], nearestBridge[:]), true
}

// eating are the private flags of drivers whose firmware has an LLDP agent of its own: while it runs, it takes the frames of LLDP, and
// the host sees none. i40e names the flag by which the agent is off (I40E_FLAG_FW_LLDP_DIS, "disable-fw-lldp", in
// drivers/net/ethernet/intel/i40e/i40e_ethtool.c), and ice the flag by which it is on (ICE_FLAG_FW_LLDP_AGENT, "fw-lldp-agent", in
// drivers/net/ethernet/intel/ice/ice_ethtool.c).
var eating = map[string]bool{"disable-fw-lldp": false, "fw-lldp-agent": true}

// eatsLLDP returns the private flag by which the NIC's firmware eats LLDP; "" if none of the flags says so.
func eatsLLDP(flags map[string]bool) string {
	for name, on := range eating {
		if value, has := flags[name]; has && value == on {
			return name
		}
	}
	return ""
}
