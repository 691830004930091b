// Package nccl derives NCCL's settings for a host from the host's hardware and the declared fabric, with
// a reason for each setting, and predicts which GID NCCL will choose. It is pure.
package nccl

import (
	"fmt"
	"net/netip"

	"github.com/fabricform/fabricform/facts"
)

// Selection holds the settings that control NCCL's automatic choice of a GID. The zero value is NCCL's
// default: IPv4, RoCE v2, any address.
type Selection struct {
	IPv6    bool         // NCCL_IB_ADDR_FAMILY=AF_INET6
	Range   netip.Prefix // NCCL_IB_ADDR_RANGE; invalid: any
	Version int          // NCCL_IB_ROCE_VERSION_NUM; 0: 2
}

// version returns the wanted RoCE version.
func (s Selection) version() int {
	if s.Version == 0 {
		return 2
	}
	return s.Version
}

// predict returns the GID index that NCCL 2.21 and later choose on an Ethernet port, and the problem with
// that choice, if any. It follows ncclIbGetGidIndex in src/transport/net_ib/connect.cc (2.30.7). The
// table need not be sorted; missing slots are empty.
func predict(table []facts.GID, s Selection) (index int, wrong string) {
	s.Version = s.version()
	slots := map[int]facts.GID{}
	last := 0
	for _, g := range table {
		slots[g.Index] = g
		last = max(last, g.Index)
	}
	for c := 1; c <= last; c++ {
		index = s.better(index, c, slots)
	}
	return index, judge(index, slots[index], s.Version)
}

func (s Selection) better(current, c int, slots map[int]facts.GID) int {
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
