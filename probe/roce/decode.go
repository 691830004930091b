package roce

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
)

// ErrOther is the error for frames that are not RoCE v2; callers skip them.
var ErrOther = errors.New("not RoCE v2")

// Lengths of headers, in bytes.
const (
	etherLength = 14
	ipv4Length  = 20
	ipv6Length  = 40
	udpLength   = 8
	bthLength   = 12
	icrcLength  = 4
)

// Decode decodes an Ethernet frame without its FCS. The frame may be cut off after the headers, by a capture's snap
// length: Decode then trusts the lengths in the headers. It keeps no reference to the frame.
//
// The error is ErrOther for other traffic. For a malformed packet to UDP port 4791, it says what is wrong.
func Decode(frame []byte) (*Packet, error) {
	p := &Packet{}
	d := decoder{p: p}
	packet, ethertype, err := d.ethernet(frame)
	if err != nil {
		return nil, err
	}
	var datagram []byte
	switch ethertype {
	case 0x0800:
		datagram, err = d.ipv4(packet)
	case 0x86dd:
		datagram, err = d.ipv6(packet)
	case 0x8915:
		return nil, fmt.Errorf("%w, but v1 (ethertype 0x8915), which does not use UDP", ErrOther)
	default:
		return nil, ErrOther
	}
	if err != nil {
		return nil, err
	}
	segment, err := d.udp(datagram)
	if err != nil {
		return nil, err
	}
	if err := d.transport(segment); err != nil {
		return nil, err
	}
	return p, nil
}

type decoder struct {
	p *Packet
	// ipHeader and udpHeader are for the ICRC; ipHeader is nil if the ICRC cannot be computed.
	ipHeader, udpHeader []byte
	// length is the length of the rest according to the previous header; the frame may have less.
	length int
}

func (d *decoder) ethernet(frame []byte) (rest []byte, ethertype uint16, err error) {
	if len(frame) < etherLength {
		return nil, 0, ErrOther
	}
	ethertype, rest = binary.BigEndian.Uint16(frame[12:]), frame[etherLength:]
	for ethertype == 0x8100 || ethertype == 0x88a8 {
		if len(rest) < 4 {
			return nil, 0, ErrOther
		}
		d.p.VLANs = append(d.p.VLANs, binary.BigEndian.Uint16(rest)&0x0fff)
		ethertype, rest = binary.BigEndian.Uint16(rest[2:]), rest[4:]
	}
	return rest, ethertype, nil
}

func (d *decoder) ipv4(b []byte) ([]byte, error) {
	if len(b) < ipv4Length || b[0]>>4 != 4 {
		return nil, ErrOther
	}
	header := int(b[0]&0x0f) * 4
	total := int(binary.BigEndian.Uint16(b[2:]))
	if b[9] != 17 || header < ipv4Length || total < header || len(b) < header {
		return nil, ErrOther
	}
	// Only the first fragment has a UDP header that shows it is RoCE, so only that one is reported.
	fragment := binary.BigEndian.Uint16(b[6:])
	if fragment&0x1fff != 0 {
		return nil, ErrOther
	}
	d.p.Source, d.p.Target = netip.AddrFrom4([4]byte(b[12:16])), netip.AddrFrom4([4]byte(b[16:20]))
	d.p.TrafficClass, d.p.TTL = b[1], b[8]
	if header == ipv4Length {
		d.ipHeader = b[:header]
	}
	d.length = total - header
	rest := b[header:min(len(b), total)]
	if fragment&0x2000 != 0 && toPort(rest) {
		return nil, errors.New("an IPv4 fragment: RoCE v2 must not be fragmented")
	}
	return rest, nil
}

func (d *decoder) ipv6(b []byte) ([]byte, error) {
	if len(b) < ipv6Length || b[0]>>4 != 6 {
		return nil, ErrOther
	}
	switch next := b[6]; next {
	case 17:
	case 0, 43, 44, 51, 60: // hop-by-hop, routing, fragment, authentication, destination
		return nil, fmt.Errorf("%w: cannot decode the IPv6 extension header %d before it", ErrOther, next)
	default:
		return nil, ErrOther
	}
	d.p.Source, d.p.Target = netip.AddrFrom16([16]byte(b[8:24])), netip.AddrFrom16([16]byte(b[24:40]))
	d.p.TrafficClass, d.p.TTL = b[0]<<4|b[1]>>4, b[7]
	d.ipHeader = b[:ipv6Length]
	d.length = int(binary.BigEndian.Uint16(b[4:]))
	return b[ipv6Length:min(len(b), ipv6Length+d.length)], nil
}

// toPort reports whether b begins with a UDP header to RoCE's port.
func toPort(b []byte) bool { return len(b) >= 4 && binary.BigEndian.Uint16(b[2:]) == Port }

func (d *decoder) udp(b []byte) ([]byte, error) {
	if !toPort(b) {
		return nil, ErrOther
	}
	if len(b) < udpLength {
		return nil, errors.New("the frame ends within the UDP header")
	}
	length := int(binary.BigEndian.Uint16(b[4:]))
	if length < udpLength || length > d.length {
		return nil, fmt.Errorf("UDP length %d does not fit %d bytes of IP payload", length, d.length)
	}
	d.p.SourcePort = binary.BigEndian.Uint16(b)
	d.udpHeader = b[:udpLength]
	d.length = length - udpLength
	return b[udpLength:min(len(b), length)], nil
}

// transport decodes the BTH and the headers after it.
func (d *decoder) transport(b []byte) error {
	if d.length < bthLength+icrcLength {
		return fmt.Errorf("%d bytes are too few for a BTH and an ICRC", d.length)
	}
	if len(b) < bthLength {
		return errors.New("the frame ends within the BTH")
	}
	word := binary.BigEndian.Uint32
	d.p.BTH = BTH{
		Opcode: Opcode(b[0]), Solicited: b[1]&0x80 != 0, Migrated: b[1]&0x40 != 0, Pad: b[1] >> 4 & 3, Version: b[1] & 0x0f,
		PKey: binary.BigEndian.Uint16(b[2:]), FECN: b[4]&0x80 != 0, BECN: b[4]&0x40 != 0, TargetQP: word(b[4:]) & 0xffffff,
		AckRequest: b[8]&0x80 != 0, PSN: word(b[8:]) & 0xffffff,
	}
	r := reader{b: b[bthLength:]}
	d.extensions(&r)
	if r.short {
		return fmt.Errorf("the frame ends within the headers of %s", d.p.Opcode)
	}
	d.p.Payload = d.length - bthLength - r.read - int(d.p.Pad) - icrcLength
	if d.p.Payload < 0 {
		return fmt.Errorf("%d bytes are too few for %s", d.length, d.p.Opcode)
	}
	if len(b) == d.length {
		d.p.ICRC = word(b[len(b)-icrcLength:])
		d.checkICRC(b)
	}
	return nil
}

func (d *decoder) extensions(r *reader) {
	p, h := d.p, d.p.Opcode.headers()
	if h&hasRDETH != 0 {
		p.RDETH = new(r.u32() & 0xffffff)
	}
	if h&hasXRCETH != 0 {
		p.XRCETH = new(r.u32() & 0xffffff)
	}
	if h&hasDETH != 0 {
		p.DETH = &DETH{QKey: r.u32(), SourceQP: r.u32() & 0xffffff}
	}
	if h&hasFETH != 0 {
		p.FETH = new(r.u32())
	}
	if h&hasRETH != 0 {
		p.RETH = &RETH{VirtualAddress: r.u64(), RKey: r.u32(), Length: r.u32()}
	}
	if h&hasAtomicETH != 0 {
		p.Atomic = &AtomicETH{VirtualAddress: r.u64(), RKey: r.u32(), SwapOrAdd: r.u64(), Compare: r.u64()}
	}
	if h&hasAETH != 0 {
		v := r.u32()
		p.AETH = &AETH{Syndrome: Syndrome(v >> 24), MSN: v & 0xffffff}
	}
	if h&hasAtomicAckETH != 0 {
		p.AtomicAck = new(r.u64())
	}
	if h&hasImm != 0 {
		p.Immediate = new(r.u32())
	}
	if h&hasIETH != 0 {
		p.Invalidate = new(r.u32())
	}
}

// reader takes numbers from the front. short is set once there are too few bytes.
type reader struct {
	b     []byte
	read  int
	short bool
}

func (r *reader) next(n int) []byte {
	if len(r.b) < n {
		r.short, r.b = true, nil
		return make([]byte, n)
	}
	out := r.b[:n]
	r.b, r.read = r.b[n:], r.read+n
	return out
}

func (r *reader) u32() uint32 { return binary.BigEndian.Uint32(r.next(4)) }
func (r *reader) u64() uint64 { return binary.BigEndian.Uint64(r.next(8)) }
