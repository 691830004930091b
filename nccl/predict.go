// Package nccl derives NCCL's settings for a host from the host's hardware and the declared fabric, with
// a reason for each setting, and predicts which GID NCCL will choose. It is pure.
package nccl

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/nccl/env"
)

// GIDSelection holds the settings that control NCCL's automatic choice of a GID. The zero value is NCCL's
// default: IPv4, RoCE v2, any address.
type GIDSelection struct {
	IPv6    bool         // NCCL_IB_ADDR_FAMILY=AF_INET6
	Range   netip.Prefix // NCCL_IB_ADDR_RANGE; invalid: any
	Version int          // NCCL_IB_ROCE_VERSION_NUM; 0: 2
}

// version returns the wanted RoCE version.
func (s GIDSelection) version() int {
	if s.Version == 0 {
		return 2
	}
	return s.Version
}

// selection returns the settings for a NIC: those of nccl.env, as NCCL parses them, come before those of the NIC. ranged
// reports whether nccl.env sets a range, which NCCL may ignore. Versions that do not choose a GID do not read them.
func selection(f *fabric.Fabric, h *fabric.Host, n *fabric.NIC, at env.Version) (s GIDSelection, ranged bool) {
	s = GIDSelection{IPv6: n.GID.Family == "ipv6", Version: n.GID.Version}
	set := f.NCCLOf(h).Env
	if at.Known() && at.Before(choosesGID) {
		return s, false
	}
	value := func(name string) string { return f.Secrets.Value(set[name]) }
	return s.With(value), value("NCCL_IB_ADDR_RANGE") != ""
}

// With returns the selection as NCCL's variables change it, parsed as NCCL does. value returns the value of a variable; "": it is
// not set.
func (s GIDSelection) With(value func(name string) string) GIDSelection {
	if v := value("NCCL_IB_ADDR_FAMILY"); v != "" {
		s.IPv6 = v == "AF_INET6" // anything else is IPv4 (envIbAddrFamily)
	}
	if v := env.ParseNumber(value("NCCL_IB_ROCE_VERSION_NUM")); v.Digits && !v.Overflow {
		s.Version = int(v.Value)
		if s.Version != 1 && s.Version != 2 {
			s.Version = noVersion
		}
	}
	s.Range = parseRange(value("NCCL_IB_ADDR_RANGE"), s.IPv6)
	return s
}

// noVersion is a RoCE version that no GID has.
const noVersion = -1

// parseRange parses NCCL_IB_ADDR_RANGE as envIbAddrRange does (src/transport/net_ib/connect.cc, 2.30.7). NCCL ignores a range
// without a slash, of the other family or with too long a prefix, and reads a prefix that is not a number as 0: then the
// result is invalid, which allows all addresses.
func parseRange(v string, ipv6 bool) netip.Prefix {
	text, length, found := strings.Cut(v, "/")
	a, err := netip.ParseAddr(text)
	if !found || err != nil || a.Is6() != ipv6 || a.Zone() != "" {
		return netip.Prefix{}
	}
	bits := decimal(length)
	switch {
	case bits < 0: // NCCL compares nothing, and then takes no address
		return netip.PrefixFrom(a, a.BitLen())
	case bits == 0 || bits > a.BitLen():
		return netip.Prefix{}
	}
	return netip.PrefixFrom(a, bits)
}

// decimal parses the number at the beginning of a text as strtol with base 10 does, up to a limit beyond any prefix.
func decimal(s string) int {
	s = strings.TrimLeft(s, " \t\n\v\f\r")
	sign := 1
	if s != "" && (s[0] == '-' || s[0] == '+') {
		if s[0] == '-' {
			sign = -1
		}
		s = s[1:]
	}
	n := 0
	for _, c := range []byte(s[:digits(s)]) {
		n = min(n*10+int(c-'0'), 1<<16)
	}
	return sign * n
}

// PredictGID returns the GID index that NCCL 2.21 and later choose on an Ethernet port, and the problem with
// that choice, if any. It follows ncclIbGetGidIndex in src/transport/net_ib/connect.cc (2.30.7). The
// table need not be sorted; missing slots are empty.
func PredictGID(table []facts.GID, s GIDSelection) (index int, wrong string) {
	s.Version = s.version()
	slots := map[int]facts.GID{}
	last := 0
	for _, g := range table {
		slots[g.Index] = g
		last = max(last, g.Index)
	}
	for c := 1; c <= last+1; c++ { // the empty slots after the last filled one are all alike
		index = s.better(index, c, slots)
	}
	wrong = judge(index, slots[index], s.Version)
	if wrong == "" && isV6(slots[index]) != s.IPv6 {
		wrong = fmt.Sprintf("GID %d is %s: the NIC has no address of the family that NCCL uses", index, slots[index].Addr.Unmap())
	}
	return index, wrong
}

func (s GIDSelection) better(current, c int, slots map[int]facts.GID) int {
	now, candidate := slots[current], slots[c]
	match := !s.Range.IsValid() || s.Range.Masked().Contains(candidate.Addr.Unmap())
	wanted := isV6(candidate) == s.IPv6
	if isV6(now) != isV6(candidate) && wanted && match {
		return c // NCCL checks neither version nor validity here
	}
	if wanted && valid(candidate) && match && (now.Version != candidate.Version || !valid(now)) && candidate.Version == s.Version {
		return c
	}
	return current
}

// isV6 follows NCCL, which treats everything that is not v4-mapped as IPv6, including empty slots.
func isV6(g facts.GID) bool { return !g.Addr.Is4In6() && !g.Addr.Is4() }

// valid follows NCCL's validGid: neither empty nor an IPv6 link-local address. IPv4 link-local is valid.
func valid(g facts.GID) bool {
	return g.Addr.IsValid() && (!isV6(g) || !g.Addr.IsLinkLocalUnicast())
}

// judge returns the problem with a GID, or "". version is the wanted RoCE version; 0 means 2.
func judge(index int, g facts.GID, version int) string {
	switch {
	case !g.Addr.IsValid():
		return fmt.Sprintf("GID %d is empty: the NIC has no usable address", index)
	case !valid(g):
		return fmt.Sprintf("GID %d is link-local (RoCE v%d): the NIC has no address of the family that NCCL uses", index, g.Version)
	case g.Version == 1 && version != 1:
		return fmt.Sprintf("GID %d is RoCE v1, which cannot cross routers and which most switches cannot prioritize", index)
	}
	return ""
}
