package probe

import (
	"encoding/binary"
	"fmt"
)

// echo is an answer to one of our echo requests, or an ICMP error about one.
type echo struct {
	id, seq uint16
	token   uint64 // the payload's first bytes; 0 in an ICMP error, which may not quote them
	problem string
}

// unreachable is the message for an unanswered address resolution.
const unreachable = "host unreachable: no host on the link answers for this address"

// parseEcho parses a packet from a raw ICMP socket: IPv4 with its IP header, IPv6 without. Any bytes are
// allowed: they can come from any host.
func parseEcho(b []byte, v6 bool) (echo, bool) {
	if !v6 {
		var ok bool
		if b, ok = afterIPv4(b); !ok {
			return echo{}, false
		}
	}
	if len(b) < 8 {
		return echo{}, false
	}
	kind, code := b[0], b[1]
	switch {
	case !v6 && kind == 0, v6 && kind == 129:
		e := echo{id: binary.BigEndian.Uint16(b[4:]), seq: binary.BigEndian.Uint16(b[6:])}
		if len(b) >= 16 {
			e.token = binary.BigEndian.Uint64(b[8:])
		}
		return e, true
	case !v6 && kind == 3, v6 && (kind == 1 || kind == 2):
		return refusal(b, v6, kind, code)
	}
	return echo{}, false
}

func afterIPv4(b []byte) ([]byte, bool) {
	if len(b) < 20 || b[0]>>4 != 4 {
		return nil, false
	}
	n := int(b[0]&15) * 4
	if n < 20 || len(b) < n {
		return nil, false
	}
	return b[n:], true
}

// refusal parses an ICMP error, which quotes the packet that caused it (RFC 792, RFC 4443).
func refusal(b []byte, v6 bool, kind, code byte) (echo, bool) {
	quoted := b[8:]
	if v6 {
		if len(quoted) < 40 || quoted[6] != 58 {
			return echo{}, false
		}
		quoted = quoted[40:]
	} else {
		var ok bool
		if quoted, ok = afterIPv4(quoted); !ok {
			return echo{}, false
		}
	}
	if len(quoted) < 8 {
		return echo{}, false
	}
	e := echo{id: binary.BigEndian.Uint16(quoted[4:]), seq: binary.BigEndian.Uint16(quoted[6:])}
	switch {
	case !v6 && code == 4:
		e.problem = fmt.Sprintf("too large for the path: a router reports a next-hop MTU of %d", binary.BigEndian.Uint16(b[6:]))
	case v6 && kind == 2:
		e.problem = fmt.Sprintf("too large for the path: a router reports a next-hop MTU of %d", binary.BigEndian.Uint32(b[4:]))
	case !v6 && code == 1, v6 && code == 3:
		e.problem = unreachable
	default:
		e.problem = fmt.Sprintf("unreachable (ICMP code %d)", code)
	}
	return e, true
}

// checksum returns the Internet checksum (RFC 1071).
func checksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(b[i])<<8 | uint32(b[i+1])
	}
	if len(b)%2 == 1 {
		sum += uint32(b[len(b)-1]) << 8
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}
