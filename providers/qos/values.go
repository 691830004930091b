package qos

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/fabricform/fabricform/host/dcb"
)

// The attributes of a NIC. Atoms and changes name them, some with a key after the name: a DSCP or a priority.
const (
	attrFlow   = "flow_control" // PFC and pause frames, which exclude each other
	attrETS    = "ets"
	attrBuffer = "buffer"
	attrTrust  = "trust"
	attrDSCP   = "dscp" // with the DSCP as key
	attrECN    = "ecn"  // with the priority as key
	attrCNP    = "cnp_dscp"
	attrRDMACM = "rdma_cm"
	attrDCBX   = "version_of_dcbx" // its name makes it the last one that is undone, because the others need the version of IEEE
)

// The fields of a packet that a NIC may trust.
const (
	trustDSCP = "dscp"
	trustPCP  = "pcp"
)

// none is the value of a list that is empty. "" would mean that the NIC does not have the attribute.
const none = "none"

// keyed is an attribute with a key.
func keyed(attribute string, key int) string { return attribute + " " + strconv.Itoa(key) }

// cut splits an attribute and its key; -1 if it has none.
func cut(attribute string) (name string, key int) {
	name, rest, has := strings.Cut(attribute, " ")
	if !has {
		return name, -1
	}
	key, err := strconv.Atoi(rest)
	if err != nil || key < 0 || keyed(name, key) != attribute {
		return attribute, -1
	}
	return name, key
}

// order is that in which the attributes of a NIC are set: buffers after flow control, because mlx5 may change them when PFC changes. keys is
// how many keys an attribute has; 0: it has none.
var order = []struct {
	name string
	keys int
}{{attrDSCP, dcb.Codepoints}, {attrTrust, 0}, {attrETS, 0}, {attrFlow, 0}, {attrBuffer, 0}, {attrECN, dcb.Priorities}, {attrCNP, 0}, {attrRDMACM, 0},
	{attrDCBX, 0}}

// rank orders a change of an attribute: an entry of a DSCP is added before others are removed, because some drivers trust the DSCP only
// while there is one. The version of IEEE comes before all that needs it.
func rank(attribute, to string) int {
	name, _ := cut(attribute)
	if name == attrDCBX && hasIEEE(to) {
		return -1
	}
	for i, a := range order {
		if a.name == name && (name != attrDSCP || to == "") {
			return i + 1
		}
	}
	return 0
}

// attributesOf lists all attributes that a NIC may have.
func attributesOf() (out []string) {
	for _, a := range order {
		if a.keys == 0 {
			out = append(out, a.name)
		}
		for key := range a.keys {
			out = append(out, keyed(a.name, key))
		}
	}
	return out
}

// dcbxFlags are the flags of a mode of DCBX, by the names that dcb-dcbx(8) gives them.
var dcbxFlags = []struct {
	flag uint8
	name string
}{{dcb.DCBXHost, "host"}, {dcb.DCBXManaged, "lld-managed"}, {dcb.DCBXCEE, "cee"}, {dcb.DCBXIEEE, "ieee"}, {dcb.DCBXStatic, "static"}}

// dcbxText names the flags of a mode of DCBX. Flags without a name are a number at the end.
func dcbxText(mode uint8) string {
	var out []string
	for _, f := range dcbxFlags {
		if mode&f.flag != 0 {
			out = append(out, f.name)
			mode &^= f.flag
		}
	}
	if mode != 0 {
		out = append(out, strconv.Itoa(int(mode)))
	}
	return strings.Join(out, " ")
}

func parseDCBX(text string) (mode uint8, err error) {
fields:
	for _, name := range strings.Fields(text) {
		for _, f := range dcbxFlags {
			if f.name == name {
				mode |= f.flag
				continue fields
			}
		}
		n, err := parseNumbers(name, " ", 256)
		if err != nil {
			return 0, fmt.Errorf("%q is not a mode of DCBX", text)
		}
		mode |= uint8(n[0])
	}
	return mode, nil
}

func hasIEEE(mode string) bool { return slices.Contains(strings.Fields(mode), "ieee") }

// values returns what dcbnl says of a NIC, by attribute. A value is text from which encode makes the same struct again.
func values(d dcb.Settings) map[string]string {
	out := map[string]string{attrTrust: trustText(d)}
	if d.PFC != nil {
		out[attrFlow] = flow{pfc: maskText(d.PFC[dcb.PFCMask])}.String()
	}
	if d.ETS != nil {
		out[attrETS] = etsText(d.ETS)
	}
	if d.Buffer != nil {
		out[attrBuffer] = bufferText(d.Buffer)
	}
	for dscp, list := range dscps(d) {
		out[keyed(attrDSCP, dscp)] = numbers(list, ",")
	}
	return out
}

// dscps returns the priorities of each DSCP that has an entry.
func dscps(d dcb.Settings) map[int][]int {
	out := map[int][]int{}
	for _, a := range d.Apps {
		if a.IsDSCP() {
			out[int(a.Protocol)] = append(out[int(a.Protocol)], int(a.Priority))
		}
	}
	for _, list := range out {
		slices.Sort(list)
	}
	return out
}

// trustText is the order of trust. Without a table of trust, the whole map is part of the value, because giving back the trust gives back
// all entries.
func trustText(d dcb.Settings) string {
	if d.HasTrust {
		var out []string
		for _, s := range d.Trust {
			out = append(out, selectorName(s))
		}
		if out == nil {
			return none
		}
		return strings.Join(out, ",")
	}
	if !d.TrustsDSCP() {
		return trustPCP
	}
	table := dscps(d)
	out := []string{trustDSCP}
	for _, dscp := range slices.Sorted(maps.Keys(table)) {
		list := numbers(table[dscp], ",")
		last := dscp
		for last+1 < dcb.Codepoints && table[last+1] != nil && numbers(table[last+1], ",") == list {
			last++
			delete(table, last)
		}
		switch {
		case table[dscp] == nil: // part of the range before
		case last == dscp:
			out = append(out, fmt.Sprintf("%d:%s", dscp, list))
		default:
			out = append(out, fmt.Sprintf("%d-%d:%s", dscp, last, list))
		}
	}
	return strings.Join(out, " ")
}

// parseTable is the inverse of trustText for a driver without a table of trust: the entries of all DSCPs.
func parseTable(text string) (map[int][]int, error) {
	out := map[int][]int{}
	fields := strings.Fields(text)
	if text == trustPCP {
		return out, nil
	}
	if len(fields) == 0 || fields[0] != trustDSCP {
		return nil, fmt.Errorf("%q is not a map of DSCPs", text)
	}
	for _, f := range fields[1:] {
		span, list, _ := strings.Cut(f, ":")
		first, last, ranged := strings.Cut(span, "-")
		if !ranged {
			last = first
		}
		ps, err := parseNumbers(list, ",", dcb.Priorities)
		ends, errEnds := parseNumbers(first+","+last, ",", dcb.Codepoints)
		if err != nil || errEnds != nil || len(ends) != 2 {
			return nil, fmt.Errorf("%q is not a map of DSCPs", text)
		}
		for dscp := ends[0]; dscp <= ends[1]; dscp++ {
			out[dscp] = ps
		}
	}
	return out, nil
}

func selectorName(s uint8) string {
	switch s {
	case dcb.SelectorDSCP:
		return trustDSCP
	case dcb.SelectorPCP:
		return trustPCP
	}
	return strconv.Itoa(int(s))
}

func parseSelectors(text string) (out []uint8, err error) {
	if text == none {
		return nil, nil
	}
	for name := range strings.SplitSeq(text, ",") {
		switch name {
		case trustDSCP:
			out = append(out, dcb.SelectorDSCP)
		case trustPCP:
			out = append(out, dcb.SelectorPCP)
		default:
			n, err := parseNumbers(name, ",", 256)
			if err != nil {
				return nil, fmt.Errorf("%q is not an order of trust", text)
			}
			out = append(out, uint8(n[0]))
		}
	}
	return out, nil
}

// maskText lists the priorities of a mask.
func maskText(mask uint8) string {
	var list []int
	for p := range dcb.Priorities {
		if mask&(1<<p) != 0 {
			list = append(list, p)
		}
	}
	if list == nil {
		return none
	}
	return numbers(list, ",")
}

func parseMask(text string) (mask uint8, err error) {
	if text == none {
		return 0, nil
	}
	list, err := parseNumbers(text, ",", dcb.Priorities)
	for _, p := range list {
		mask |= 1 << p
	}
	return mask, err
}

// algorithms are the names of the ways to choose a traffic class to send from, but ETS, which has a share.
var algorithms = map[uint8]string{dcb.TSAStrict: "strict", dcb.TSACBS: "cbs", dcb.TSAVendor: "vendor"}

// idle is the share of a traffic class without ETS, if its driver does nothing unusual: mlx5 shows 100 for an algorithm of the vendor.
var idle = map[uint8]uint8{dcb.TSAVendor: 100}

// etsText is the way of each traffic class, and the traffic class of each priority.
func etsText(ets []byte) string {
	var ways []string
	for tc := range dcb.Priorities {
		tsa, share := ets[dcb.ETSTSA+tc], ets[dcb.ETSShares+tc]
		way := algorithms[tsa]
		if way == "" {
			way = strconv.Itoa(int(tsa))
		}
		switch {
		case tsa == dcb.TSAETS:
			way = fmt.Sprintf("%d%%", share)
		case share != idle[tsa]:
			way = fmt.Sprintf("%s=%d", way, share)
		}
		ways = append(ways, way)
	}
	return strings.Join(ways, " ") + " / " + digits(ets[dcb.ETSClasses:dcb.ETSClasses+dcb.Priorities])
}

// parseWay is the way and the share of one traffic class.
func parseWay(way string) (tsa, share uint8, err error) {
	if text, is := strings.CutSuffix(way, "%"); is {
		n, err := parseNumbers(text, " ", 256)
		if err != nil {
			return 0, 0, err
		}
		return dcb.TSAETS, uint8(n[0]), nil
	}
	name, text, has := strings.Cut(way, "=")
	known := false
	for number, of := range algorithms {
		if of == name {
			tsa, known = number, true
		}
	}
	if !known {
		n, err := parseNumbers(name, " ", 256)
		if err != nil {
			return 0, 0, fmt.Errorf("%q is not a way to share a link", way)
		}
		tsa = uint8(n[0])
	}
	if !has {
		return tsa, idle[tsa], nil
	}
	n, err := parseNumbers(text, " ", 256)
	if err != nil {
		return 0, 0, err
	}
	return tsa, uint8(n[0]), nil
}

// encodeETS changes a struct to what the text says.
func encodeETS(ets []byte, text string) ([]byte, error) {
	ways, classes, _ := strings.Cut(text, " / ")
	tcs, err := parseNumbers(classes, " ", dcb.Priorities)
	list := strings.Fields(ways)
	if err != nil || len(tcs) != dcb.Priorities || len(list) != dcb.Priorities {
		return nil, fmt.Errorf("%q are not shares of traffic classes", text)
	}
	out := slices.Clone(ets)
	for i, way := range list {
		out[dcb.ETSClasses+i] = uint8(tcs[i])
		if out[dcb.ETSTSA+i], out[dcb.ETSShares+i], err = parseWay(way); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// bufferText is the size of each buffer in bytes, and the buffer of each priority.
func bufferText(b []byte) string {
	var sizes []int
	for i := range dcb.Priorities {
		sizes = append(sizes, int(binary.NativeEndian.Uint32(b[dcb.BufferSizes+4*i:])))
	}
	return numbers(sizes, " ") + " / " + digits(b[:dcb.Priorities])
}

// encodeBuffer changes a struct to what the text says.
func encodeBuffer(b []byte, text string) ([]byte, error) {
	sizes, of, _ := strings.Cut(text, " / ")
	bytes, err := parseNumbers(sizes, " ", 1<<32)
	buffers, errOf := parseNumbers(of, " ", dcb.Priorities)
	if err != nil || errOf != nil || len(bytes) != dcb.Priorities || len(buffers) != dcb.Priorities {
		return nil, fmt.Errorf("%q are not buffers", text)
	}
	out := slices.Clone(b)
	for i := range dcb.Priorities {
		out[i] = uint8(buffers[i])
		binary.NativeEndian.PutUint32(out[dcb.BufferSizes+4*i:], uint32(bytes[i]))
	}
	return out, nil
}

// flow is the flow control of a port: the priorities with PFC, and the directions of pause frames. "" is not supported.
type flow struct{ pfc, pause string }

// valueParts splits a value into the parts that are set one after another.
func valueParts(text string) []string {
	return strings.Split(strings.ReplaceAll(text, " / ", ", "), ", ")
}

// String is the inverse of parseFlow.
func (f flow) String() string {
	var out []string
	if f.pfc != "" {
		out = append(out, "pfc "+f.pfc)
	}
	if f.pause != "" {
		out = append(out, "pause "+f.pause)
	}
	return strings.Join(out, ", ")
}

func parseFlow(text string) (f flow) {
	for part := range strings.SplitSeq(text, ", ") {
		if value, is := strings.CutPrefix(part, "pfc "); is {
			f.pfc = value
		}
		if value, is := strings.CutPrefix(part, "pause "); is {
			f.pause = value
		}
	}
	return f
}

// directions are the names of what a NIC does with pause frames, by whether it obeys and whether it sends them.
var directions = map[[2]bool]string{{false, false}: off, {true, true}: "on", {true, false}: "rx", {false, true}: "tx"}

// off is the state without pause frames.
const off = "off"

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// numbers joins numbers.
func numbers(list []int, by string) string {
	var out []string
	for _, n := range list {
		out = append(out, strconv.Itoa(n))
	}
	return strings.Join(out, by)
}

func digits(raw []byte) string {
	var out []int
	for _, b := range raw {
		out = append(out, int(b))
	}
	return numbers(out, " ")
}

// parseNumbers splits numbers from 0 to below.
func parseNumbers(text, by string, below int) (out []int, err error) {
	for s := range strings.SplitSeq(text, by) {
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 || n >= below {
			return nil, fmt.Errorf("%q is not a number from 0 to %d", s, below-1)
		}
		out = append(out, n)
	}
	return out, nil
}

// The numbers of ethtool's pause: enum ETHTOOL_A_PAUSE_* in include/uapi/linux/ethtool_netlink.h.
const (
	pauseRX = 3 // ETHTOOL_A_PAUSE_RX
	pauseTX = 4 // ETHTOOL_A_PAUSE_TX
)

// parsePause reads whether a NIC obeys and sends pause frames; has is false if the answer does not say both.
func parsePause(raw []byte) (rx, tx, has bool, err error) {
	seen := 0
	err = dcb.Attributes(raw, func(kind uint16, v []byte) error {
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
	return append(dcb.Attribute(pauseRX, []byte{bit[rx]}), dcb.Attribute(pauseTX, []byte{bit[tx]})...)
}
