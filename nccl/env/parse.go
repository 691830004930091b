package env

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// Number is an integer as NCCL parses it (ncclLoadParam in src/misc/param.cc: strtoll with base 0, which
// ignores the rest of the text).
type Number struct {
	Value    int64
	Rest     string // the ignored text after the number
	Digits   bool   // the text begins with a number; otherwise NCCL uses 0
	Octal    bool   // base 8, because of a leading 0
	Overflow bool   // does not fit into 64 bits; NCCL uses its default
}

// ParseNumber parses an integer as NCCL does.
func ParseNumber(s string) Number {
	text := strings.TrimLeft(s, " \t\n\v\f\r")
	sign := ""
	if text != "" && (text[0] == '-' || text[0] == '+') {
		sign, text = strings.TrimPrefix(text[:1], "+"), text[1:]
	}
	base, digits := 10, "0123456789"
	switch {
	case len(text) > 2 && (text[:2] == "0x" || text[:2] == "0X") && strings.ContainsRune("0123456789abcdefABCDEF", rune(text[2])):
		base, digits, text = 16, "0123456789abcdefABCDEF", text[2:]
	case strings.HasPrefix(text, "0"):
		base, digits = 8, "01234567"
	}
	end := len(text) - len(strings.TrimLeft(text, digits))
	n := Number{Rest: text[end:], Digits: end > 0}
	if !n.Digits {
		n.Rest = s
		return n
	}
	n.Octal = base == 8 && end > 1
	var err error
	n.Value, err = strconv.ParseInt(sign+text[:end], base, 64)
	n.Overflow = errors.Is(err, strconv.ErrRange)
	return n
}

// NameList is a list of devices or interfaces as NCCL parses it (parseStringList and its callers in
// src/misc/utils.cc).
type NameList struct {
	Exclude bool // ^: all except these
	Exact   bool // =: whole names; without it, names match by prefix
	Entries []Entry
}

// Entry is one element of a list: name[:port[:rail[:plane]]]. Missing numbers are -1.
type Entry struct {
	Name              string
	Port, Rail, Plane int
}

// ParseList parses a list as NCCL does: the prefixes ^ and = (in this order) work only at the very
// beginning, spaces are part of names, and empty elements are skipped.
func ParseList(s string) NameList {
	var l NameList
	s, l.Exclude = strings.CutPrefix(s, "^")
	s, l.Exact = strings.CutPrefix(s, "=")
	for element := range strings.SplitSeq(s, ",") {
		parts := strings.SplitN(element, ":", 5)
		if parts[0] == "" {
			continue
		}
		e := Entry{Name: parts[0], Port: -1, Rail: -1, Plane: -1}
		for i, into := range []*int{&e.Port, &e.Rail, &e.Plane} {
			if i+1 < len(parts) && parts[i+1] != "" {
				*into = atoi(parts[i+1])
			}
		}
		l.Entries = append(l.Entries, e)
	}
	return l
}

// atoi works as in C: it returns the number at the beginning, or 0.
func atoi(s string) int {
	s = strings.TrimLeft(s, " \t")
	end := len(s) - len(strings.TrimLeft(s, "0123456789"))
	n, err := strconv.Atoi(s[:end])
	if err != nil {
		return 0
	}
	return min(n, math.MaxInt32)
}

// Selects reports whether NCCL would use the device or interface. A port of -1 means any port.
func (l NameList) Selects(name string, port int) bool {
	hit := len(l.Entries) == 0 // an empty list means all
	for _, e := range l.Entries {
		named := e.Name == name || !l.Exact && strings.HasPrefix(name, e.Name)
		hit = hit || named && (port == -1 || e.Port == -1 || port == e.Port)
	}
	return hit != l.Exclude
}

// legacyLevels maps numbers to levels of NCCL_P2P_LEVEL and NCCL_NET_GDR_LEVEL (levelsOldToNew in
// src/graph/paths.cc).
var legacyLevels = []string{"LOC", "PIX", "PXB", "PHB", "SYS"}

// legacyLevel returns the level that a number means, or "" if s is not a number.
func legacyLevel(s string) string {
	if s == "" || s[0] < '0' || s[0] > '9' {
		return ""
	}
	n := ParseNumber(s)
	return legacyLevels[min(max(n.Value, 0), int64(len(legacyLevels)-1))]
}

// devicePrefixes are the prefixes of the names of RDMA devices, from the drivers and from rdma-core's
// persistent naming.
var devicePrefixes = []string{"mlx4_", "mlx5_", "rocep", "roceP", "roceo", "roces", "ibp", "ibP", "ibs", "bnxt_re", "irdma", "rxe", "siw",
	"hns_", "cxgb4_", "qedr", "efa_", "erdma_", "mana_", "ionic_"}

// LooksLikeDevice reports whether a name looks like that of an RDMA device. IPoIB interfaces (ibp…, ibs…)
// look the same.
func LooksLikeDevice(name string) bool {
	for _, p := range devicePrefixes {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}
