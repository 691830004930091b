// Package vm builds rehearsal fabrics of virtual machines in QEMU. Each has a stock Debian kernel and systemd,
// so RDMA, reboots and network managers are real. It needs neither root nor KVM, and no packet leaves the
// machine: management is forwarded from loopback, and cables are Unix sockets that a process of the lab
// connects.
package vm

import (
	"maps"
	"slices"
)

// DefaultManager is the default network manager of the guests.
const DefaultManager = "networkd"

// managers are the network managers that guests can have, with their packages. image.sh sets them up.
var managers = map[string][]string{
	DefaultManager:           nil,
	"networkmanager":         {"network-manager"},
	"netplan-networkd":       {"netplan.io"},
	"netplan-networkmanager": {"netplan.io", "network-manager"},
	"ifupdown":               {"ifupdown"},
}

// Managers returns the network managers that guests can have.
func Managers() []string { return slices.Sorted(maps.Keys(managers)) }
