package roce

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

// The classic capture format, https://www.ietf.org/archive/id/draft-ietf-opsawg-pcap-04.html.
const (
	magicMicro = 0xa1b2c3d4
	magicNano  = 0xa1b23c4d
	// linkEthernet is LINKTYPE_ETHERNET.
	linkEthernet = 1
	// maxFrame bounds what a reader allocates for a record: libpcap's MAXIMUM_SNAPLEN.
	maxFrame = 262144
)

// Record is one captured frame.
type Record struct {
	Time time.Time
	// Length is the frame's on the wire, in bytes; Frame may be shorter.
	Length int
	Frame  []byte
}

// Writer writes a capture of Ethernet frames with nanoseconds. It buffers nothing.
type Writer struct {
	w io.Writer
	b []byte
}

// NewWriter writes a capture's head. snapLen is the most bytes that a record may have, for readers to
// know; longer frames are cut to it.
func NewWriter(w io.Writer, snapLen int) (*Writer, error) {
	if snapLen < 1 || snapLen > maxFrame {
		return nil, fmt.Errorf("begin capture: a snap length of %d: from 1 to %d are possible", snapLen, maxFrame)
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

// Write adds one record with one call of the underlying writer.
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

// Reader reads a capture of Ethernet frames, of either byte order and resolution.
type Reader struct {
	r     *bufio.Reader
	order binary.ByteOrder
	unit  time.Duration
	frame []byte
}

// NewReader reads a capture's head.
func NewReader(r io.Reader) (*Reader, error) {
	p := &Reader{r: bufio.NewReader(r)}
	var head [24]byte
	if _, err := io.ReadFull(p.r, head[:]); err != nil {
		return nil, fmt.Errorf("read capture's head: %w", err)
	}
	for _, p.order = range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		switch p.order.Uint32(head[:]) {
		case magicMicro:
			p.unit = time.Microsecond
		case magicNano:
			p.unit = time.Nanosecond
		default:
			continue
		}
		// The high bits tell of an FCS behind the frames, which Decode does not expect.
		if link := p.order.Uint32(head[20:]); link != linkEthernet {
			return nil, fmt.Errorf("read capture: link type %#x: only Ethernet (1) is understood", link)
		}
		return p, nil
	}
	return nil, errors.New("read capture: it begins with none of pcap's magic numbers")
}

// Next reads one record; io.EOF is the clean end. The frame is valid until the next call.
func (r *Reader) Next() (Record, error) {
	var head [16]byte
	if _, err := io.ReadFull(r.r, head[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return Record{}, io.EOF
		}
		return Record{}, fmt.Errorf("read capture's record: %w", err)
	}
	length := r.order.Uint32(head[8:])
	if length > maxFrame {
		return Record{}, fmt.Errorf("read capture's record: a frame of %d bytes", length)
	}
	if uint32(cap(r.frame)) < length {
		r.frame = make([]byte, length)
	}
	frame := r.frame[:length]
	if _, err := io.ReadFull(r.r, frame); err != nil {
		return Record{}, fmt.Errorf("read capture's record: %w", noEOF(err))
	}
	at := time.Unix(int64(r.order.Uint32(head[:])), int64(r.order.Uint32(head[4:]))*int64(r.unit))
	return Record{Time: at, Length: int(min(r.order.Uint32(head[12:]), 1<<30)), Frame: frame}, nil
}

// noEOF keeps an end in the middle from looking like a clean one.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
