package facts

import (
	"strings"

	"github.com/fabricform/fabricform/host"
)

// OnePort reports whether two NICs of a host are functions of one physical port. A port of a DGX Spark is two PCI functions in
// different PCI domains, each with half of the lanes. Both have the same address within their domain, and neighbouring MAC addresses.
func OnePort(a, b host.Link) bool {
	domainA, restA, okA := strings.Cut(a.PCI, ":")
	domainB, restB, okB := strings.Cut(b.PCI, ":")
	macA, macB := a.PermMAC, b.PermMAC
	if macA == "" || macB == "" {
		macA, macB = a.MAC, b.MAC
	}
	const block = len("aa:bb:cc:dd:ee:f") // all but the last four bits
	return okA && okB && domainA != domainB && restA == restB && a.Driver == b.Driver && len(macA) > block && len(macB) > block &&
		macA[:block] == macB[:block]
}
