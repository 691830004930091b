// Package vm builds rehearsal fabrics of virtual machines in QEMU. Each has a stock Debian kernel and systemd,
// so RDMA, reboots and network managers are real. It needs neither root nor KVM, and no packet leaves the
// machine: management is forwarded from loopback, and cables are Unix sockets that a process of the lab
// connects.
package vm

import (
	"maps"
	"slices"
)

// DefaultOwner is the default network manager of the guests.
const DefaultOwner = "networkd"

// owners are the network managers that guests can have, with their packages. image.sh sets them up.
var owners = map[string][]string{
	DefaultOwner:             nil,
	"networkmanager":         {"network-manager"},
	"netplan-networkd":       {"netplan.io"},
	"netplan-networkmanager": {"netplan.io", "network-manager"},
	"ifupdown":               {"ifupdown"},
}

// Owners returns the network managers that guests can have.
func Owners() []string { return slices.Sorted(maps.Keys(owners)) }
