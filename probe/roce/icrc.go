package roce

import (
	"hash/crc32"
	"math/bits"
)

// checkICRC compares the last four bytes of a segment, which begins with the BTH, with what they should
// be.
func (d *decoder) checkICRC(segment []byte) {
	if d.ipHeader == nil {
		return
	}
	d.p.ICRCState = Bad
	if icrc(d.ipHeader, d.udpHeader, segment[:len(segment)-icrcLength]) == d.p.ICRC {
		d.p.ICRCState = Good
	}
}

// icrc is the invariant CRC over an IP header without options, a UDP header and what follows up to the
// ICRC itself (annex A17.3.4; the kernel's drivers/infiniband/sw/rxe/rxe_icrc.c). What routers and
// checksum offloads may change counts as all ones, and so do 8 bytes in place of InfiniBand's local
// route header. The result's first byte on the wire is its highest.
func icrc(ip, udp, rest []byte) uint32 {
	var head [8 + ipv6Length + udpLength + bthLength]byte
	for i := range 8 {
		head[i] = 0xff
	}
	b := head[8:]
	n := copy(b, ip)
	if n == ipv4Length {
		b[1], b[8], b[10], b[11] = 0xff, 0xff, 0xff, 0xff // TOS, TTL, checksum
	} else {
		b[0] |= 0x0f // traffic class and flow label
		b[1], b[2], b[3] = 0xff, 0xff, 0xff
		b[7] = 0xff // hop limit
	}
	n += copy(b[n:], udp)
	b[n-2], b[n-1] = 0xff, 0xff // checksum
	n += copy(b[n:], rest[:bthLength])
	b[n-bthLength+4] = 0xff // FECN, BECN and six reserved bits
	crc := crc32.Update(crc32.ChecksumIEEE(head[:8+n]), crc32.IEEETable, rest[bthLength:])
	return bits.ReverseBytes32(crc) // it is sent least significant byte first
}
