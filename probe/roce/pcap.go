package roce

import (
	"encoding/binary"
	"fmt"
	"io"
	"time"
)

// The classic capture format, https://www.ietf.org/archive/id/draft-ietf-opsawg-pcap-04.html.
const (
	magicNano = 0xa1b23c4d // times have nanoseconds
	// linkEthernet is LINKTYPE_ETHERNET.
	linkEthernet = 1
	// maxFrame is the longest record that readers accept: libpcap's MAXIMUM_SNAPLEN.
	maxFrame = 262144
)

// Record is one captured frame.
type Record struct {
	Time time.Time
	// Length is the frame's length on the wire, in bytes; Frame may be shorter.
	Length int
	Frame  []byte
}

// Writer writes a capture of Ethernet frames with nanosecond timestamps. It does not buffer.
type Writer struct {
	w io.Writer
	b []byte
}

// NewWriter writes the header of a capture. snapLen is the maximum length of a record in bytes; longer frames are cut
// off.
func NewWriter(w io.Writer, snapLen int) (*Writer, error) {
	if snapLen < 1 || snapLen > maxFrame {
		return nil, fmt.Errorf("begin capture: invalid snap length %d: use 1 to %d", snapLen, maxFrame)
	}
	head := make([]byte, 24)
	le := binary.LittleEndian
	le.PutUint32(head, magicNano)
	le.PutUint16(head[4:], 2) // version 2.4
	le.PutUint16(head[6:], 4)
	le.PutUint32(head[16:], uint32(snapLen))
	le.PutUint32(head[20:], linkEthernet)
	if _, err := w.Write(head); err != nil {
		return nil, fmt.Errorf("begin capture: %w", err)
	}
	return &Writer{w: w, b: make([]byte, 0, 16+snapLen)}, nil
}

// Write writes one record with one call of the underlying writer.
func (w *Writer) Write(r Record) error {
	frame := r.Frame[:min(len(r.Frame), cap(w.b)-16)]
	le := binary.LittleEndian
	b := le.AppendUint32(w.b[:0], uint32(r.Time.Unix()))
	b = le.AppendUint32(b, uint32(r.Time.Nanosecond()))
	b = le.AppendUint32(b, uint32(len(frame)))
	b = le.AppendUint32(b, uint32(max(r.Length, len(r.Frame))))
	if _, err := w.w.Write(append(b, frame...)); err != nil {
		return fmt.Errorf("write capture: %w", err)
	}
	return nil
}
