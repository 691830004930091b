package roce

import (
	"hash/crc32"
	"math/bits"
)

// checkICRC checks the last four bytes of a segment, which begins with the BTH.
func (d *decoder) checkICRC(segment []byte) {
	if d.ipHeader == nil {
		return
	}
	d.p.ICRCState = Bad
	if icrc(d.ipHeader, d.udpHeader, segment[:len(segment)-icrcLength]) == d.p.ICRC {
		d.p.ICRCState = Good
	}
}

// icrc returns the invariant CRC over an IP header without options, a UDP header, and the rest up to the ICRC itself
// (annex A17.3.4; the kernel's drivers/infiniband/sw/rxe/rxe_icrc.c). Fields that routers and checksum offloads may
// change count as all ones, and so do the 8 bytes for InfiniBand's local route header. The first byte on the wire is
// the highest of the result.
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
	return bits.ReverseBytes32(crc) // the least significant byte is sent first
}
