package vm

import "encoding/binary"

// EtherTypes, as in linux/if_ether.h.
const (
	etherIPv4       = 0x0800
	etherVLAN       = 0x8100
	etherIPv6       = 0x86dd
	etherMACControl = 0x8808
	etherOuterVLAN  = 0x88a8
)

// vlanOf returns the VLAN ID in a frame's outer tag; 0 if it has none. A frame has at least the 14 bytes of an Ethernet header.
func vlanOf(frame []byte) int {
	if len(frame) < 16 || binary.BigEndian.Uint16(frame[12:]) != etherVLAN {
		return 0
	}
	return int(binary.BigEndian.Uint16(frame[14:]) & 0x0fff)
}

// remark gives the IP packet in an Ethernet frame another DSCP, as a misconfigured switch does, and keeps the ECN bits.
// Other frames stay as they are. RoCE's checksum (ICRC) leaves out the field that is changed, so RoCE packets stay valid.
func remark(frame []byte, dscp int) {
	at := 12
	for ; at+4 <= len(frame); at += 4 {
		if t := binary.BigEndian.Uint16(frame[at:]); t != etherVLAN && t != etherOuterVLAN {
			break
		}
	}
	if at+2 > len(frame) {
		return
	}
	packet := frame[at+2:]
	switch t := binary.BigEndian.Uint16(frame[at:]); {
	case t == etherIPv4 && len(packet) >= 20:
		before := binary.BigEndian.Uint16(packet)
		after := before&^0xfc | uint16(dscp)<<2
		binary.BigEndian.PutUint16(packet, after)
		// RFC 1624, equation 3: the header's checksum by the difference.
		sum := uint32(^binary.BigEndian.Uint16(packet[10:])) + uint32(^before) + uint32(after)
		for sum > 0xffff {
			sum = sum&0xffff + sum>>16
		}
		binary.BigEndian.PutUint16(packet[10:], ^uint16(sum))
	case t == etherIPv6 && len(packet) >= 40:
		first := binary.BigEndian.Uint16(packet) // version, traffic class, 4 bits of the flow label
		binary.BigEndian.PutUint16(packet, first&^0x0fc0|uint16(dscp)<<6)
	}
}

// pfcFrame returns a frame of IEEE 802.1Qbb that asks the NIC that gets it not to send one priority for the longest time,
// 65,535 times that of 512 bits.
func pfcFrame(priority int) []byte {
	frame := make([]byte, 60)
	copy(frame, []byte{0x01, 0x80, 0xc2, 0x00, 0x00, 0x01, 0x02}) // to MAC control, from a locally administered address
	binary.BigEndian.PutUint16(frame[12:], etherMACControl)
	binary.BigEndian.PutUint16(frame[14:], 0x0101)      // PFC
	binary.BigEndian.PutUint16(frame[16:], 1<<priority) // which of the following times hold
	binary.BigEndian.PutUint16(frame[18+2*priority:], 0xffff)
	return frame
}
