package netif

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/fabricform/fabricform/host"
)

// object is one kernel object as rtnetlink sends it. Its bytes are retained and replayed unchanged, except for the few
// that the kernel reports but does not accept. So attributes that this program does not know are not lost.
type object struct {
	kind  uint16 // host.NewAddr, host.NewRoute, host.NewRule, host.NewNexthop, host.NewNeighbour
	head  []byte
	attrs []attr
}

type attr struct {
	kind  uint16 // with the flags of the two highest bits
	value []byte
}

// attrKind masks NLA_F_NESTED and NLA_F_NET_BYTEORDER (include/uapi/linux/netlink.h).
const attrKind = 0x3fff

// headSizes are the sizes of struct ifaddrmsg, rtmsg, fib_rule_hdr, nhmsg, ndmsg and ifinfomsg.
var headSizes = map[uint16]int{host.NewAddr: 8, host.NewRoute: 12, host.NewRule: 12, host.NewNexthop: 8, host.NewNeighbour: 12,
	host.NewLink: 16}

func parseObject(kind uint16, body []byte) (object, error) {
	size := headSizes[kind]
	if size == 0 || len(body) < size {
		return object{}, fmt.Errorf("kernel object of kind %d has %d bytes", kind, len(body))
	}
	attrs, err := parseAttrs(body[size:])
	return object{kind, bytes.Clone(body[:size]), attrs}, err
}

func parseAttrs(b []byte) ([]attr, error) {
	var out []attr
	for len(b) >= 4 {
		n := int(binary.NativeEndian.Uint16(b))
		if n < 4 || n > len(b) {
			return nil, errors.New("kernel object has an attribute of invalid length")
		}
		out = append(out, attr{binary.NativeEndian.Uint16(b[2:]), bytes.Clone(b[4:n])})
		b = b[min(len(b), (n+3)&^3):]
	}
	if len(b) != 0 {
		return nil, errors.New("kernel object has a truncated attribute at its end")
	}
	return out, nil
}

func (o object) encode() []byte { return append(bytes.Clone(o.head), encodeAttrs(o.attrs)...) }

func encodeAttrs(attrs []attr) []byte {
	var out []byte
	for _, a := range attrs {
		out = binary.NativeEndian.AppendUint16(out, uint16(4+len(a.value)))
		out = binary.NativeEndian.AppendUint16(out, a.kind)
		out = append(out, a.value...)
		out = append(out, make([]byte, (4-len(a.value)%4)%4)...)
	}
	return out
}

// get returns the value of an attribute; nil if it is absent.
func (o object) get(kind uint16) []byte {
	for _, a := range o.attrs {
		if a.kind&attrKind == kind {
			return a.value
		}
	}
	return nil
}

// number returns an attribute of four bytes; 0 if it is absent.
func (o object) number(kind uint16) uint32 { return number(o.get(kind)) }

func number(b []byte) uint32 {
	if len(b) != 4 {
		return 0
	}
	return binary.NativeEndian.Uint32(b)
}

// addr returns an attribute that is an address; invalid if it is absent.
func (o object) addr(kind uint16) netip.Addr {
	a, _ := netip.AddrFromSlice(o.get(kind))
	return a
}

// set replaces an attribute's value, or adds the attribute.
func (o *object) set(kind uint16, value uint32) {
	raw := binary.NativeEndian.AppendUint32(nil, value)
	for i, a := range o.attrs {
		if a.kind&attrKind == kind {
			o.attrs[i].value = raw
			return
		}
	}
	o.attrs = append(o.attrs, attr{kind, raw})
}

// without returns a copy that lacks the attributes.
func (o object) without(kinds ...uint16) object {
	out := object{kind: o.kind, head: bytes.Clone(o.head)}
	for _, a := range o.attrs {
		keep := true
		for _, k := range kinds {
			keep = keep && a.kind&attrKind != k
		}
		if keep {
			out.attrs = append(out.attrs, attr{a.kind, bytes.Clone(a.value)})
		}
	}
	return out
}

func (o object) family() int { return int(o.head[0]) }

// hops calls edit for each part of RTA_MULTIPATH: struct rtnexthop, followed by attributes. edit may change the
// header of 8 bytes in place. A part of invalid length ends the loop.
func hops(multipath []byte, edit func(head, rest []byte)) {
	for b := multipath; len(b) >= 8; {
		n := int(binary.NativeEndian.Uint16(b))
		if n < 8 || n > len(b) {
			return
		}
		edit(b[:8], b[8:n])
		b = b[min(len(b), (n+3)&^3):]
	}
}
