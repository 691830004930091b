package env

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// Number is what NCCL makes of an integer's text (ncclLoadParam in src/misc/param.cc: strtoll with
// base 0, whose end is not looked at).
type Number struct {
	Value    int64
	Rest     string // what follows the number, and is not looked at
	Digits   bool   // there is a number; without one NCCL takes 0
	Octal    bool   // a leading 0 made it base 8
	Overflow bool   // does not fit: NCCL takes its default
}

// ParseNumber reads an integer as NCCL does.
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

// NameList is a list of devices or interfaces as NCCL takes it apart (parseStringList and its callers
// in src/misc/utils.cc).
type NameList struct {
	Exclude bool // ^: all but these
	Exact   bool // =: whole names; without it every name that begins so
	Entries []Entry
}

// Entry is one element of a list: name[:port[:rail[:plane]]]. -1 stands for what is not given.
type Entry struct {
	Name              string
	Port, Rail, Plane int
}

// ParseList reads a list as NCCL does: ^ and then = count at the very beginning only, blanks belong
// to names, and empty elements are skipped.
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

// atoi is C's: the number at the beginning, or 0.
func atoi(s string) int {
	s = strings.TrimLeft(s, " \t")
	end := len(s) - len(strings.TrimLeft(s, "0123456789"))
	n, err := strconv.Atoi(s[:end])
	if err != nil {
		return 0
	}
	return min(n, math.MaxInt32)
}

// Selects says whether NCCL would use the device or interface. port -1: of any port.
func (l NameList) Selects(name string, port int) bool {
	hit := len(l.Entries) == 0 // an empty list means all
	for _, e := range l.Entries {
		named := e.Name == name || !l.Exact && strings.HasPrefix(name, e.Name)
		hit = hit || named && (port == -1 || e.Port == -1 || port == e.Port)
	}
	return hit != l.Exclude
}

// legacyLevels are what numbers meant for NCCL_P2P_LEVEL and NCCL_NET_GDR_LEVEL (levelsOldToNew in
// src/graph/paths.cc).
var legacyLevels = []string{"LOC", "PIX", "PXB", "PHB", "SYS"}

// LegacyLevel is the level that a number means; "" for what is no number.
func LegacyLevel(s string) string {
	if s == "" || s[0] < '0' || s[0] > '9' {
		return ""
	}
	n := ParseNumber(s)
	return legacyLevels[min(max(n.Value, 0), int64(len(legacyLevels)-1))]
}

// devicePrefixes begin the names of RDMA devices: the drivers' own, and those that rdma-core's
// persistent naming gives.
var devicePrefixes = []string{"mlx4_", "mlx5_", "rocep", "roceP", "roceo", "roces", "ibp", "ibP", "ibs", "bnxt_re", "irdma", "rxe", "siw", "hns_", "cxgb4_", "qedr", "efa_", "erdma_", "mana_", "ionic_"}

// LooksLikeDevice says whether a name is one that RDMA devices have. IPoIB interfaces (ibp…, ibs…) look
// the same.
func LooksLikeDevice(name string) bool {
	for _, p := range devicePrefixes {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}
