package probe

import (
	"fmt"
	"time"

	"github.com/fabricform/fabricform/agent"
)

var (
	// StartCapture begins to record RoCE v2 packets, and answers with the capture's ID.
	StartCapture = agent.Method[CaptureSpec, string]("capture.start")
	// CollectCapture ends a capture and answers with what it kept.
	CollectCapture = agent.Method[string, CaptureReport]("capture.collect")
)

// CaptureSpec asks for the RoCE v2 packets, in and out, of one netdev. What ends a capture is whatever
// comes first.
type CaptureSpec struct {
	Netdev     string        `json:"netdev"`
	MaxPackets int           `json:"max_packets"`
	SnapLen    int           `json:"snap_len"` // bytes that are kept of each frame, from 64
	Duration   time.Duration `json:"duration"`
}

// The limits of a capture.
const (
	minSnapLen  = 64
	maxSnapLen  = 65535
	maxCapture  = 10_000_000
	longCapture = time.Hour
)

func (s CaptureSpec) check() error {
	if s.Netdev == "" || s.MaxPackets < 1 || s.MaxPackets > maxCapture || s.SnapLen < minSnapLen || s.SnapLen > maxSnapLen || s.Duration <= 0 || s.Duration > longCapture {
		return fmt.Errorf("capture on %q: %d packets of %d bytes in %s cannot be", s.Netdev, s.MaxPackets, s.SnapLen, s.Duration)
	}
	return nil
}

// Frame is one captured Ethernet frame, without its FCS. VLAN tags are where they are on the wire.
type Frame struct {
	Time     time.Time // of the kernel
	Length   int       // on the wire, in bytes
	Data     []byte    // the frame's beginning, valid until the callback returns
	Outgoing bool
}

// CaptureResult is how a capture went.
type CaptureResult struct {
	Packets int   `json:"packets"`
	Bytes   int64 `json:"bytes"` // on the wire
	// Dropped are packets that the kernel had no room for, because they came faster than they were taken.
	Dropped int        `json:"dropped,omitempty"`
	Ended   CaptureEnd `json:"ended"`
}

// CaptureEnd is why a capture ended.
type CaptureEnd string

// The ends of a capture.
const (
	EndedByPackets  CaptureEnd = "packets"
	EndedByDuration CaptureEnd = "duration"
	EndedByCaller   CaptureEnd = "caller"
)

// maxKept bounds what is kept of one capture in a host's memory, bytes.
const maxKept = 16 << 20

// CaptureRecord is a frame that was kept.
type CaptureRecord struct {
	Time     time.Time `json:"time"`
	Length   int       `json:"length"` // on the wire, in bytes
	Data     []byte    `json:"data"`
	Outgoing bool      `json:"outgoing,omitempty"`
}

// CaptureReport is a capture that has ended.
type CaptureReport struct {
	CaptureResult
	Records []CaptureRecord `json:"records"`
}
