package probe

import (
	"fmt"
	"time"

	"github.com/fabricform/fabricform/agent"
)

var (
	// StartCapture starts a capture of RoCE v2 packets, and returns its ID.
	StartCapture = agent.Method[CaptureSpec, string]("capture.start")
	// CollectCapture stops a capture and returns its packets.
	CollectCapture = agent.Method[string, CaptureReport]("capture.collect")
)

// CaptureSpec asks for the RoCE v2 packets of one netdev, in both directions. The capture ends at the first
// limit that it reaches.
type CaptureSpec struct {
	Netdev     string        `json:"netdev"`
	MaxPackets int           `json:"max_packets"`
	SnapLen    int           `json:"snap_len"` // bytes to keep of each frame; at least 64
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
	if s.Netdev == "" || s.MaxPackets < 1 || s.MaxPackets > maxCapture || s.SnapLen < minSnapLen || s.SnapLen > maxSnapLen ||
		s.Duration <= 0 || s.Duration > longCapture {
		return fmt.Errorf("capture on %q: invalid limits: %d packets of %d bytes in %s", s.Netdev, s.MaxPackets, s.SnapLen, s.Duration)
	}
	return nil
}

// Frame is one captured Ethernet frame, without its FCS. VLAN tags are in their place as on the wire.
type Frame struct {
	Time     time.Time // the kernel's timestamp
	Length   int       // on the wire, in bytes
	Data     []byte    // the frame's beginning, valid until the callback returns
	Outgoing bool
}

// CaptureResult is the summary of a capture.
type CaptureResult struct {
	Packets int   `json:"packets"`
	Bytes   int64 `json:"bytes"` // on the wire
	// Dropped is the number of packets that the kernel dropped because the ring was full.
	Dropped int        `json:"dropped,omitempty"`
	Ended   CaptureEnd `json:"ended"`
}

// CaptureEnd is why a capture ended.
type CaptureEnd string

// The reasons why a capture ends.
const (
	EndedByPackets  CaptureEnd = "packets"
	EndedByDuration CaptureEnd = "duration"
	EndedByCaller   CaptureEnd = "caller"
)

// maxKept limits the bytes of one capture, so that its answer fits into a protocol frame.
const maxKept = 5 << 20

// CaptureRecord is one captured frame.
type CaptureRecord struct {
	Time     time.Time `json:"time"`
	Length   int       `json:"length"` // on the wire, in bytes
	Data     []byte    `json:"data"`
	Outgoing bool      `json:"outgoing,omitempty"`
}

// CaptureReport is the result of a capture, with its frames.
type CaptureReport struct {
	CaptureResult
	Records []CaptureRecord `json:"records"`
}
