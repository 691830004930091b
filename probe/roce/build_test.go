package roce

import (
	"encoding/binary"
	"net/netip"
)

// frame is what build makes a RoCE v2 frame of; the transport's bytes are given as they are.
type frame struct {
	source, target string
	vlans          []uint16
	tos            byte
	options        []byte // of IPv4
	bth            BTH
	extension      []byte
	payload        []byte
	badICRC        bool
}

func (f frame) build() []byte {
	be := binary.BigEndian
	b := []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1}
	for _, v := range f.vlans {
		b = be.AppendUint16(be.AppendUint16(b, 0x8100), 3<<13|v)
	}
	src, dst := netip.MustParseAddr(f.source), netip.MustParseAddr(f.target)
	transport := append(f.head(), f.extension...)
	transport = append(transport, f.payload...)
	transport = append(transport, make([]byte, int(f.bth.Pad))...)
	udp := be.AppendUint16(nil, 0xc000)
	udp = be.AppendUint16(udp, Port)
	udp = be.AppendUint16(udp, uint16(8+len(transport)+4))
	udp = be.AppendUint16(udp, 0)
	var ip []byte
	if src.Is4() {
		b = be.AppendUint16(b, 0x0800)
		ip = []byte{0x45 + byte(len(f.options)/4), f.tos, 0, 0, 0, 7, 0x40, 0, 64, 17, 0, 0}
		be.PutUint16(ip[2:], uint16(20+len(f.options)+len(udp)+len(transport)+4))
		ip = append(append(append(ip, src.AsSlice()...), dst.AsSlice()...), f.options...)
		be.PutUint16(ip[10:], sum(ip))
	} else {
		b = be.AppendUint16(b, 0x86dd)
		ip = []byte{0x60 | f.tos>>4, f.tos << 4, 0x12, 0x34, 0, 0, 17, 64}
		be.PutUint16(ip[4:], uint16(len(udp)+len(transport)+4))
		ip = append(append(ip, src.AsSlice()...), dst.AsSlice()...)
	}
	crc := icrc(ip, udp, transport)
	if f.badICRC {
		crc++
	}
	b = append(append(append(b, ip...), udp...), transport...)
	return be.AppendUint32(b, crc)
}

func (f frame) head() []byte {
	bit := func(set bool, b byte) byte {
		if set {
			return b
		}
		return 0
	}
	h := f.bth
	b := []byte{byte(h.Opcode), bit(h.Solicited, 0x80) | bit(h.Migrated, 0x40) | h.Pad<<4 | h.Version}
	b = binary.BigEndian.AppendUint16(b, h.PKey)
	b = binary.BigEndian.AppendUint32(b, h.TargetQP)
	b[4] = bit(h.FECN, 0x80) | bit(h.BECN, 0x40)
	b = binary.BigEndian.AppendUint32(b, h.PSN)
	b[8] = bit(h.AckRequest, 0x80)
	return b
}

func sum(b []byte) uint16 {
	var s uint32
	for i := 0; i+1 < len(b); i += 2 {
		s += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for s > 0xffff {
		s = s&0xffff + s>>16
	}
	return ^uint16(s)
}

func words(v ...uint32) []byte {
	var b []byte
	for _, w := range v {
		b = binary.BigEndian.AppendUint32(b, w)
	}
	return b
}

// extensionOf is bytes for all headers that an opcode has, each different.
func extensionOf(o Opcode) []byte {
	h := o.headers()
	var b []byte
	for _, e := range []struct {
		bit   headers
		bytes []byte
	}{
		{hasRDETH, words(0x00000102)}, {hasXRCETH, words(0x00000304)}, {hasDETH, words(0x80010000, 0x21)}, {hasFETH, words(0x31)},
		{hasRETH, words(0x7f3c, 0x5a2e1000, 0x1a2b, 65536)}, {hasAtomicETH, words(0x7f3c, 0x5a2e1008, 0x1a2c, 0, 41, 0, 42)},
		{hasAETH, words(0x1f000007)}, {hasAtomicAckETH, words(1, 2)}, {hasImm, words(0xcafe)}, {hasIETH, words(0xbeef)},
	} {
		if h&e.bit != 0 {
			b = append(b, e.bytes...)
		}
	}
	return b
}

// knownOpcodes are all opcodes with names.
func knownOpcodes() []Opcode {
	var out []Opcode
	for o := range 256 {
		if Opcode(o).known() {
			out = append(out, Opcode(o))
		}
	}
	return out
}
