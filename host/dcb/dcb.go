// Package dcb is the language of dcbnl, by which the kernel tells and changes how a NIC sorts packets into priorities: the numbers, the
// attributes and the messages (include/uapi/linux/dcbnl.h). It asks no kernel.
package dcb

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// The numbers of dcbnl: enum dcbnl_commands, dcbnl_attrs, ieee_attrs, ieee_attrs_app and dcbnl_attrs_apptrust, the selectors and the
// flags of DCBX in the kernel's include/uapi/linux/dcbnl.h.
const (
	CmdIEEESet = 20 // DCB_CMD_IEEE_SET
	CmdIEEEGet = 21 // DCB_CMD_IEEE_GET
	CmdGetDCBX = 22 // DCB_CMD_GDCBX
	CmdSetDCBX = 23 // DCB_CMD_SDCBX
	CmdIEEEDel = 27 // DCB_CMD_IEEE_DEL

	AttrName = 1  // DCB_ATTR_IFNAME
	AttrIEEE = 13 // DCB_ATTR_IEEE
	AttrDCBX = 14 // DCB_ATTR_DCBX

	IEEEETS    = 1  // DCB_ATTR_IEEE_ETS
	IEEEPFC    = 2  // DCB_ATTR_IEEE_PFC
	IEEEApps   = 3  // DCB_ATTR_IEEE_APP_TABLE
	IEEEBuffer = 10 // DCB_ATTR_DCB_BUFFER
	IEEETrust  = 11 // DCB_ATTR_DCB_APP_TRUST_TABLE, from Linux 6.2 on

	appIEEE = 1 // DCB_ATTR_IEEE_APP: selectors of IEEE 802.1Qaz
	appDCB  = 2 // DCB_ATTR_DCB_APP: selectors of the kernel's own

	SelectorDSCP = 5   // IEEE_8021QAZ_APP_SEL_DSCP
	SelectorPCP  = 255 // DCB_APP_SEL_PCP

	DCBXHost    = 0x01 // DCB_CAP_DCBX_HOST
	DCBXManaged = 0x02 // DCB_CAP_DCBX_LLD_MANAGED
	DCBXCEE     = 0x04 // DCB_CAP_DCBX_VER_CEE
	DCBXIEEE    = 0x08 // DCB_CAP_DCBX_VER_IEEE
	DCBXStatic  = 0x10 // DCB_CAP_DCBX_STATIC

	TSAStrict = 0   // IEEE_8021QAZ_TSA_STRICT
	TSACBS    = 1   // IEEE_8021QAZ_TSA_CB_SHAPER
	TSAETS    = 2   // IEEE_8021QAZ_TSA_ETS
	TSAVendor = 255 // IEEE_8021QAZ_TSA_VENDOR
)

// Priorities is how many priorities, traffic classes and buffers the structs have (IEEE_8021QAZ_MAX_TCS, DCBX_MAX_BUFFERS).
const Priorities = 8

// Codepoints is how many DSCPs there are.
const Codepoints = 64

// Sizes and offsets in bytes of struct ieee_ets, ieee_pfc and dcbnl_buffer.
const (
	SizeETS, ETSCap, ETSShares, ETSTSA, ETSClasses        = 59, 1, 3, 19, 27
	SizePFC, PFCCap, PFCMask, PFCRequests, PFCIndications = 136, 0, 1, 8, 72
	SizeBuffer, BufferSizes, BufferTotal                  = 44, 8, 40
)

// App is one entry of the table that leads values of packets to priorities (struct dcb_app).
type App struct {
	Selector, Priority uint8
	Protocol           uint16
}

// Settings are what dcbnl says of a NIC. A part that the driver does not have is nil. The structs stay as the kernel sent them, so that
// what this program does not know is sent back unchanged.
type Settings struct {
	ETS, PFC, Buffer []byte
	Apps             []App
	Trust            []uint8 // selectors
	HasTrust         bool    // the driver has a table of trust, which may be empty
}

var errShort = errors.New("the kernel's answer is cut off")

// Attributes calls visit for each attribute of a netlink message, without the flags of its type. It returns visit's error, or one if the
// message is cut off.
func Attributes(raw []byte, visit func(kind uint16, value []byte) error) error {
	for len(raw) > 0 {
		if len(raw) < 4 {
			return errShort
		}
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

// Find returns the first attribute of a kind, and whether there is one.
func Find(raw []byte, kind uint16) (value []byte, has bool, err error) {
	err = Attributes(raw, func(k uint16, v []byte) error {
		if k == kind && !has {
			value, has = v, true
		}
		return nil
	})
	return value, has, err
}

// Attribute encodes an attribute, padded to four bytes.
func Attribute(kind uint16, value []byte) []byte {
	out := binary.NativeEndian.AppendUint16(nil, uint16(4+len(value)))
	out = binary.NativeEndian.AppendUint16(out, kind)
	out = append(out, value...)
	return append(out, make([]byte, -len(out)&3)...)
}

// Message encodes a request about an interface: struct dcbmsg, its name, and more attributes.
func Message(command uint8, netdev string, more ...[]byte) []byte {
	out := append([]byte{0, command, 0, 0}, Attribute(AttrName, append([]byte(netdev), 0))...)
	return append(out, slices.Concat(more...)...)
}

// payload returns the attributes of an answer, without struct dcbmsg.
func payload(answer []byte) ([]byte, error) {
	if len(answer) < 4 {
		return nil, errShort
	}
	return answer[4:], nil
}

// ParseIEEE reads the answer to DCB_CMD_IEEE_GET. The error says what of it is missing or cut off.
func ParseIEEE(answer []byte) (d Settings, err error) {
	raw, err := payload(answer)
	if err != nil {
		return d, err
	}
	ieee, has, err := Find(raw, AttrIEEE)
	if err != nil || !has {
		return d, errors.Join(err, missing(has, "DCB_ATTR_IEEE"))
	}
	sized := func(value []byte, size int, what string) ([]byte, error) {
		if len(value) < size {
			return nil, fmt.Errorf("%s of the kernel's answer has %d bytes, not %d", what, len(value), size)
		}
		return slices.Clone(value), nil
	}
	err = Attributes(ieee, func(kind uint16, value []byte) (err error) {
		switch kind {
		case IEEEETS:
			d.ETS, err = sized(value, SizeETS, "ieee_ets")
		case IEEEPFC:
			d.PFC, err = sized(value, SizePFC, "ieee_pfc")
		case IEEEBuffer:
			d.Buffer, err = sized(value, SizeBuffer, "dcbnl_buffer")
		case IEEEApps:
			d.Apps, err = ParseApps(value)
		case IEEETrust:
			d.HasTrust = true
			d.Trust, err = ParseTrust(value)
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

// ParseApps reads DCB_ATTR_IEEE_APP_TABLE.
func ParseApps(raw []byte) (out []App, err error) {
	err = Attributes(raw, func(_ uint16, v []byte) error {
		if len(v) < 4 {
			return errShort
		}
		out = append(out, App{Selector: v[0], Priority: v[1], Protocol: binary.NativeEndian.Uint16(v[2:])})
		return nil
	})
	return out, err
}

// ParseTrust reads DCB_ATTR_DCB_APP_TRUST_TABLE: selectors, the first one first.
func ParseTrust(raw []byte) (out []uint8, err error) {
	err = Attributes(raw, func(_ uint16, v []byte) error {
		if len(v) < 1 {
			return errShort
		}
		out = append(out, v[0])
		return nil
	})
	return out, err
}

// ParseDCBX reads the flags of an answer to DCB_CMD_GDCBX.
func ParseDCBX(answer []byte) (uint8, error) {
	return firstByte(answer, AttrDCBX, "DCB_ATTR_DCBX")
}

// firstByte reads the first byte of an answer's attribute, which what names.
func firstByte(answer []byte, kind uint16, what string) (uint8, error) {
	raw, err := payload(answer)
	if err != nil {
		return 0, err
	}
	value, _, err := Find(raw, kind)
	if err != nil || len(value) < 1 {
		return 0, errors.Join(err, missing(false, what))
	}
	return value[0], nil
}

// Result returns the error that an answer to DCB_CMD_IEEE_SET or DCB_CMD_IEEE_DEL holds: the kernel puts the lowest byte of the
// driver's negative errno into an attribute (dcbnl_ieee_set in net/dcb/dcbnl.c). Small positive results are of ice, and mean that the
// change was accepted (ICE_DCB_NO_HW_CHG in ice_dcb_lib.h).
func Result(answer []byte) (errno uint8, err error) {
	errno, err = firstByte(answer, AttrIEEE, "result")
	if errno <= 2 {
		errno = 0
	}
	return -errno, err
}

// Nested marks an attribute that holds attributes (NLA_F_NESTED).
const Nested = 0x8000

// Change encodes a change of one part, such as DCB_ATTR_IEEE_PFC.
func Change(kind uint16, value []byte) []byte {
	return Attribute(AttrIEEE|Nested, Attribute(kind, value))
}

// OfDSCP is the entry that gives a DSCP a priority.
func OfDSCP(dscp, priority int) App {
	return App{Selector: SelectorDSCP, Priority: uint8(priority), Protocol: uint16(dscp)}
}

// IsDSCP reports whether the entry gives a DSCP a priority.
func (a App) IsDSCP() bool { return a.Selector == SelectorDSCP && a.Protocol < Codepoints }

// TrustsDSCP reports whether packets have the priority of their DSCP; otherwise that of the PCP in their VLAN tag. A driver without a table
// of trust, such as mlx5, trusts the DSCP while any DSCP has an entry (mlx5e_dcbnl_ieee_setapp and _delapp in en_dcbnl.c).
func (d Settings) TrustsDSCP() bool {
	if d.HasTrust {
		return slices.Contains(d.Trust, SelectorDSCP)
	}
	return slices.ContainsFunc(d.Apps, App.IsDSCP)
}

// Encode encodes the entry.
func (a App) Encode() []byte {
	value := binary.NativeEndian.AppendUint16([]byte{a.Selector, a.Priority}, a.Protocol)
	return Change(IEEEApps|Nested, Attribute(AppKind(a.Selector), value))
}

// AppKind is the kind of attribute that holds a selector.
func AppKind(selector uint8) uint16 {
	if selector == SelectorPCP {
		return appDCB
	}
	return appIEEE
}

// EncodeTrust encodes a table of trust.
func EncodeTrust(selectors []uint8) []byte {
	var table []byte
	for _, s := range selectors {
		table = append(table, Attribute(AppKind(s), []byte{s})...)
	}
	return Change(IEEETrust|Nested, table)
}
