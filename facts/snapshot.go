// Package facts is what a host is, read once: system, NICs, addresses, routes, rules, sysctls, RDMA
// devices with their GIDs, and the path that carries the operator's own connection.
package facts

import (
	"net/netip"
	"slices"

	"github.com/fabricform/fabricform/host"
)

// Needs says what a snapshot is to hold beside what each does: reading all costs more than all the rest.
type Needs struct {
	Sysctls     []string `json:"sysctls,omitempty"`      // paths below /proc/sys
	LinkSysctls []string `json:"link_sysctls,omitempty"` // "ipv4.conf.arp_ignore": read for every link
	Modules     []string `json:"modules,omitempty"`      // kernel modules, such as "rdma_rxe"
	Folders     []string `json:"folders,omitempty"`      // where to look for files of our own
	Managers    bool     `json:"managers,omitempty"`     // who configures links at boot
	NCCL        bool     `json:"nccl,omitempty"`         // GPUs, and which NCCL is installed
	// Homes has NCCL's settings looked for beside /etc/nccl.conf, in homes, too. These may lie beyond
	// the fabric: a read that a change's way back waits for must never ask for them. They are not
	// Gather's, but Homes.NCCLElse's.
	Homes bool `json:"homes,omitempty"`
	// Stack is what of the RDMA driver stack is looked at; nil: nothing.
	Stack *StackNeeds `json:"stack,omitempty"`
}

// And adds needs up.
func (n Needs) And(m Needs) Needs {
	return Needs{Sysctls: append(n.Sysctls, m.Sysctls...), LinkSysctls: append(n.LinkSysctls, m.LinkSysctls...), Modules: append(n.Modules, m.Modules...),
		Folders: append(n.Folders, m.Folders...), Managers: n.Managers || m.Managers, NCCL: n.NCCL || m.NCCL, Homes: n.Homes || m.Homes, Stack: n.Stack.And(m.Stack)}
}

// Compact sorts the needs and leaves out what stands twice.
func (n Needs) Compact() Needs {
	slices.Sort(n.Sysctls)
	slices.Sort(n.LinkSysctls)
	slices.Sort(n.Modules)
	slices.Sort(n.Folders)
	return Needs{Sysctls: slices.Compact(n.Sysctls), LinkSysctls: slices.Compact(n.LinkSysctls), Modules: slices.Compact(n.Modules),
		Folders: slices.Compact(n.Folders), Managers: n.Managers, NCCL: n.NCCL, Homes: n.Homes, Stack: n.Stack}
}

// Snapshot is one host at one moment.
type Snapshot struct {
	System     System            `json:"system"`
	Links      []host.Link       `json:"links"`
	Addrs      []host.Addr       `json:"addrs"`
	Routes     []host.Route      `json:"routes"`
	Rules      []host.Rule       `json:"rules"`
	Sysctls    map[string]string `json:"sysctls,omitempty"` // path below /proc/sys -> value; missing keys are absent
	Modules    map[string]Module `json:"modules,omitempty"` // those that were needed
	RDMA       []RDMADevice      `json:"rdma,omitempty"`
	GPUs       []GPU             `json:"gpus,omitempty"`
	GPUDriver  string            `json:"gpu_driver,omitempty"` // version of NVIDIA's kernel driver
	NCCL       []Library         `json:"nccl,omitempty"`       // found in the usual folders
	Managers   *Managers         `json:"managers,omitempty"`   // nil: not needed
	Stack      *Stack            `json:"stack,omitempty"`      // nil: not needed
	Folders    []string          `json:"folders,omitempty"`    // those of the needed ones that are there
	Files      map[string]File   `json:"files,omitempty"`      // our own in them, by path
	NCCLElse   []NCCLPlace       `json:"nccl_else,omitempty"`  // where else NCCL takes settings from; nil: not needed, too
	Management Management        `json:"management"`
}

// System is what the machine is.
type System struct {
	Hostname   string `json:"hostname"`
	Kernel     string `json:"kernel"`
	Arch       string `json:"arch"`         // as Go names it: amd64, arm64
	OS         string `json:"os,omitempty"` // PRETTY_NAME of os-release
	BootID     string `json:"boot_id,omitempty"`
	Lab        bool   `json:"lab,omitempty"`        // the helper is not in process 1's namespaces
	Congestion string `json:"congestion,omitempty"` // net.ipv4.tcp_congestion_control
}

// Module is whether a kernel module can be used.
type Module string

// The states of a module.
const (
	ModuleLoaded    Module = "loaded"    // or built in
	ModuleAvailable Module = "available" // modprobe would find it
	ModuleAbsent    Module = "absent"
)

// RDMADevice is one port of one RDMA device, as /sys/class/infiniband shows it.
type RDMADevice struct {
	Name      string `json:"name"`
	Port      int    `json:"port"`
	State     string `json:"state"`                // "ACTIVE", "DOWN", …
	PhysState string `json:"phys_state,omitempty"` // "LinkUp", "Disabled", "Polling", …
	LinkLayer string `json:"link_layer"`           // "Ethernet" or "InfiniBand"
	Netdev    string `json:"netdev,omitempty"`
	Driver    string `json:"driver,omitempty"`   // "mlx5_core", "rxe", …
	Virtual   bool   `json:"virtual,omitempty"`  // made of software
	Firmware  string `json:"firmware,omitempty"` // fw_ver
	HCA       string `json:"hca,omitempty"`      // hca_type: "MT4127"
	Board     string `json:"board,omitempty"`    // board_id: the PSID, by which firmware is chosen
	Rate      string `json:"rate,omitempty"`     // "100 Gb/sec (4X EDR)"
	LID       string `json:"lid,omitempty"`      // "0x0" is right for Ethernet, which has no subnet manager
	Slot      Slot   `json:"slot,omitzero"`
	GIDs      []GID  `json:"gids,omitempty"` // empty slots left out
}

// GID is one filled slot of a port's GID table.
type GID struct {
	Index   int        `json:"index"`
	Addr    netip.Addr `json:"addr"`    // 16 bytes; v4-mapped for IPv4
	Version int        `json:"version"` // 1: RoCE v1 or IB, 2: RoCE v2
	Netdev  string     `json:"netdev,omitempty"`
}

// Management is the path of the connection that this snapshot came over. Zero when there is none
// (a local stream).
type Management struct {
	Client  netip.Addr `json:"client,omitzero"`   // the operator's address, as the host sees it
	Server  netip.Addr `json:"server,omitzero"`   // the host's address that was connected to
	Devices []string   `json:"devices,omitempty"` // netdevs under the path: route's device, the address's device, their masters, members and parents
	Route   host.Route `json:"route,omitzero"`    // what the kernel answers for Client
	Unknown string     `json:"unknown,omitempty"` // why the path could not be found, when it should have been
}

// Link returns the link of that name, alternative names included; nil when there is none.
func (s *Snapshot) Link(name string) *host.Link {
	for i := range s.Links {
		if s.Links[i].Name == name {
			return &s.Links[i]
		}
	}
	for i := range s.Links {
		for _, a := range s.Links[i].AltNames {
			if a == name {
				return &s.Links[i]
			}
		}
	}
	return nil
}

// LinkByIndex returns the link of that index, or nil.
func (s *Snapshot) LinkByIndex(index int) *host.Link {
	for i := range s.Links {
		if s.Links[i].Index == index {
			return &s.Links[i]
		}
	}
	return nil
}
