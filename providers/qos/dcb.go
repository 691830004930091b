package qos

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// The numbers of dcbnl: enum dcbnl_commands, dcbnl_attrs, ieee_attrs, ieee_attrs_app and dcbnl_attrs_apptrust, the selectors and the
// flags of DCBX in the kernel's include/uapi/linux/dcbnl.h.
const (
	cmdIEEESet = 20 // DCB_CMD_IEEE_SET
	cmdIEEEGet = 21 // DCB_CMD_IEEE_GET
	cmdGetDCBX = 22 // DCB_CMD_GDCBX
	cmdIEEEDel = 27 // DCB_CMD_IEEE_DEL

	attrName = 1  // DCB_ATTR_IFNAME
	attrIEEE = 13 // DCB_ATTR_IEEE
	attrDCBX = 14 // DCB_ATTR_DCBX

	ieeeETS    = 1  // DCB_ATTR_IEEE_ETS
	ieeePFC    = 2  // DCB_ATTR_IEEE_PFC
	ieeeApps   = 3  // DCB_ATTR_IEEE_APP_TABLE
	ieeeBuffer = 10 // DCB_ATTR_DCB_BUFFER
	ieeeTrust  = 11 // DCB_ATTR_DCB_APP_TRUST_TABLE, from Linux 6.2 on

	appIEEE = 1 // DCB_ATTR_IEEE_APP: selectors of IEEE 802.1Qaz
	appDCB  = 2 // DCB_ATTR_DCB_APP: selectors of the kernel's own

	selectorDSCP = 5   // IEEE_8021QAZ_APP_SEL_DSCP
	selectorPCP  = 255 // DCB_APP_SEL_PCP

	dcbxHost    = 0x01 // DCB_CAP_DCBX_HOST
	dcbxManaged = 0x02 // DCB_CAP_DCBX_LLD_MANAGED

	tsaStrict = 0   // IEEE_8021QAZ_TSA_STRICT
	tsaCBS    = 1   // IEEE_8021QAZ_TSA_CB_SHAPER
	tsaETS    = 2   // IEEE_8021QAZ_TSA_ETS
	tsaVendor = 255 // IEEE_8021QAZ_TSA_VENDOR
)

// priorities is how many priorities, traffic classes and buffers the structs have (IEEE_8021QAZ_MAX_TCS, DCBX_MAX_BUFFERS).
const priorities = 8

// Sizes and offsets of struct ieee_ets, ieee_pfc and dcbnl_buffer.
const (
	sizeETS, etsCap, etsShares, etsTSA, etsClasses = 59, 1, 3, 19, 27
	sizePFC, pfcCap, pfcMask                       = 136, 0, 1
	sizeBuffer, bufferSizes, bufferTotal           = 44, 8, 40
)

// app is one entry of the table that leads values of packets to priorities (struct dcb_app).
type app struct {
	selector, priority uint8
	protocol           uint16
}

// dcb is what dcbnl says of a NIC. A part that the driver does not have is nil. The structs stay as the kernel sent them, so that
// what this program does not know is sent back unchanged.
type dcb struct {
	ets, pfc, buffer []byte
	apps             []app
	trust            []uint8 // selectors
	hasTrust         bool    // the driver has a table of trust, which may be empty
}

var errShort = errors.New("the kernel's answer is cut off")

// attributes calls visit for each attribute of a netlink message, without the flags of its type.
func attributes(raw []byte, visit func(kind uint16, value []byte) error) error {
	for len(raw) >= 4 {
		size, kind := int(binary.NativeEndian.Uint16(raw)), binary.NativeEndian.Uint16(raw[2:])
		if size < 4 || size > len(raw) {
			return errShort
		}
		if err := visit(kind&0x3fff, raw[4:size]); err != nil { // without NLA_F_NESTED and NLA_F_NET_BYTEORDER
			return err
		}
		raw = raw[min(len(raw), (size+3)&^3):]
	}
	return nil
}

// find returns the first attribute of a kind, and whether there is one.
func find(raw []byte, kind uint16) (value []byte, has bool, err error) {
	err = attributes(raw, func(k uint16, v []byte) error {
		if k == kind && !has {
			value, has = v, true
		}
		return nil
	})
	return value, has, err
}

// attribute encodes an attribute, padded to four bytes.
func attribute(kind uint16, value []byte) []byte {
	out := binary.NativeEndian.AppendUint16(nil, uint16(4+len(value)))
	out = binary.NativeEndian.AppendUint16(out, kind)
	out = append(out, value...)
	return append(out, make([]byte, -len(out)&3)...)
}

// message encodes a request about an interface: struct dcbmsg, its name, and more attributes.
func message(command uint8, netdev string, more ...[]byte) []byte {
	out := append([]byte{0, command, 0, 0}, attribute(attrName, append([]byte(netdev), 0))...)
	return append(out, slices.Concat(more...)...)
}

// payload returns the attributes of an answer, without struct dcbmsg.
func payload(answer []byte) ([]byte, error) {
	if len(answer) < 4 {
		return nil, errShort
	}
	return answer[4:], nil
}

// parseIEEE reads the answer to DCB_CMD_IEEE_GET.
func parseIEEE(answer []byte) (d dcb, err error) {
	raw, err := payload(answer)
	if err != nil {
		return d, err
	}
	ieee, has, err := find(raw, attrIEEE)
	if err != nil || !has {
		return d, errors.Join(err, missing(has, "DCB_ATTR_IEEE"))
	}
	sized := func(value []byte, size int, what string) ([]byte, error) {
		if len(value) < size {
			return nil, fmt.Errorf("%s of the kernel's answer has %d bytes, not %d", what, len(value), size)
		}
		return slices.Clone(value), nil
	}
	err = attributes(ieee, func(kind uint16, value []byte) (err error) {
		switch kind {
		case ieeeETS:
			d.ets, err = sized(value, sizeETS, "ieee_ets")
		case ieeePFC:
			d.pfc, err = sized(value, sizePFC, "ieee_pfc")
		case ieeeBuffer:
			d.buffer, err = sized(value, sizeBuffer, "dcbnl_buffer")
		case ieeeApps:
			d.apps, err = parseApps(value)
		case ieeeTrust:
			d.hasTrust = true
			d.trust, err = parseTrust(value)
		}
		return err
	})
	return d, err
}

func missing(has bool, what string) error {
	if has {
		return nil
	}
	return fmt.Errorf("the kernel's answer has no %s", what)
}

func parseApps(raw []byte) (out []app, err error) {
	err = attributes(raw, func(_ uint16, v []byte) error {
		if len(v) < 4 {
			return errShort
		}
		out = append(out, app{selector: v[0], priority: v[1], protocol: binary.NativeEndian.Uint16(v[2:])})
		return nil
	})
	return out, err
}

func parseTrust(raw []byte) (out []uint8, err error) {
	err = attributes(raw, func(_ uint16, v []byte) error {
		if len(v) < 1 {
			return errShort
		}
		out = append(out, v[0])
		return nil
	})
	return out, err
}

// parseDCBX reads the flags of an answer to DCB_CMD_GDCBX.
func parseDCBX(answer []byte) (uint8, error) {
	return firstByte(answer, attrDCBX, "DCB_ATTR_DCBX")
}

// firstByte reads the first byte of an answer's attribute, which what names.
func firstByte(answer []byte, kind uint16, what string) (uint8, error) {
	raw, err := payload(answer)
	if err != nil {
		return 0, err
	}
	value, _, err := find(raw, kind)
	if err != nil || len(value) < 1 {
		return 0, errors.Join(err, missing(false, what))
	}
	return value[0], nil
}

// result returns the error that an answer to DCB_CMD_IEEE_SET or DCB_CMD_IEEE_DEL holds: the kernel puts the lowest byte of the
// driver's negative errno into an attribute (dcbnl_ieee_set in net/dcb/dcbnl.c). Small positive results are of ice, and mean that the
// change was accepted (ICE_DCB_NO_HW_CHG in ice_dcb_lib.h).
func result(answer []byte) (errno uint8, err error) {
	errno, err = firstByte(answer, attrIEEE, "result")
	if errno <= 2 {
		errno = 0
	}
	return -errno, err
}

// nested marks an attribute that holds attributes (NLA_F_NESTED).
const nested = 0x8000

// ieee encodes a change of one part, such as DCB_ATTR_IEEE_PFC.
func ieee(kind uint16, value []byte) []byte {
	return attribute(attrIEEE|nested, attribute(kind, value))
}

// encode encodes the entry.
func (a app) encode() []byte {
	value := binary.NativeEndian.AppendUint16([]byte{a.selector, a.priority}, a.protocol)
	return ieee(ieeeApps|nested, attribute(appKind(a.selector), value))
}

func appKind(selector uint8) uint16 {
	if selector == selectorPCP {
		return appDCB
	}
	return appIEEE
}

// encodeTrust encodes a table of trust.
func encodeTrust(selectors []uint8) []byte {
	var table []byte
	for _, s := range selectors {
		table = append(table, attribute(appKind(s), []byte{s})...)
	}
	return ieee(ieeeTrust|nested, table)
}

// The numbers of ethtool's pause: enum ETHTOOL_A_PAUSE_* in include/uapi/linux/ethtool_netlink.h.
const (
	pauseRX = 3 // ETHTOOL_A_PAUSE_RX
	pauseTX = 4 // ETHTOOL_A_PAUSE_TX
)

// parsePause reads whether a NIC obeys and sends pause frames; has is false if the answer does not say both.
func parsePause(raw []byte) (rx, tx, has bool, err error) {
	seen := 0
	err = attributes(raw, func(kind uint16, v []byte) error {
		if kind != pauseRX && kind != pauseTX || len(v) < 1 {
			return nil
		}
		seen |= 1 << kind
		if kind == pauseRX {
			rx = v[0] != 0
		} else {
			tx = v[0] != 0
		}
		return nil
	})
	return rx, tx, seen == 1<<pauseRX|1<<pauseTX, err
}

// encodePause encodes a change of both.
func encodePause(rx, tx bool) []byte {
	bit := map[bool]byte{true: 1}
	return append(attribute(pauseRX, []byte{bit[rx]}), attribute(pauseTX, []byte{bit[tx]})...)
}
