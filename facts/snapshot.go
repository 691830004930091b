// Package facts reads the state of a host into one snapshot: system, NICs, addresses, routes, rules, sysctls, RDMA
// devices with their GIDs, and the path that carries the operator's own connection.
package facts

import (
	"net/netip"
	"slices"

	"github.com/fabricform/fabricform/host"
)

// Snapshot is the state of one host at one moment. Gather reads the facts that many kinds need. The kinds read the other
// facts, and only on hosts where they need them, to save time.
type Snapshot struct {
	System     System             `json:"system"`
	Links      []host.Link        `json:"links"`
	Addrs      []host.Addr        `json:"addrs"`
	Routes     []host.Route       `json:"routes"`
	Rules      []host.Rule        `json:"rules"`
	Sysctls    map[string]string  `json:"sysctls,omitempty"` // path below /proc/sys -> value; missing keys are absent
	RDMA       []RDMADevice       `json:"rdma,omitempty"`
	GPUs       []GPU              `json:"gpus,omitempty"`
	GPUDriver  string             `json:"gpu_driver,omitempty"` // version of NVIDIA's kernel driver
	NCCL       []Library          `json:"nccl,omitempty"`       // found in the usual folders
	Versions   map[string]Version `json:"versions,omitempty"`   // versions that should be the same on all hosts, by name; kinds add them
	Folders    []string           `json:"folders,omitempty"`    // the folders that were read and exist
	Files      map[string]File    `json:"files,omitempty"`      // our own files in Folders, by path
	Parts      Parts              `json:"parts,omitempty"`      // facts that kinds read for themselves
	Management Management         `json:"management"`
}

// System identifies the machine and its operating system.
type System struct {
	Hostname   string `json:"hostname"`
	Kernel     string `json:"kernel"`
	Arch       string `json:"arch"`         // as Go names it: amd64, arm64
	OS         string `json:"os,omitempty"` // PRETTY_NAME of os-release
	BootID     string `json:"boot_id,omitempty"`
	Lab        bool   `json:"lab,omitempty"`        // the helper is not in process 1's namespaces
	Congestion string `json:"congestion,omitempty"` // net.ipv4.tcp_congestion_control
}

// DriverStack is the key of the RDMA driver stack in Snapshot.Versions. The other keys are names of packages.
const DriverStack = "driver stack"

// Version is the installed version of one package or stack.
type Version struct {
	Installed  string `json:"installed,omitempty"`  // "" if it is not installed
	Unfinished string `json:"unfinished,omitempty"` // state after an interrupted installation
}

// RDMADevice is one port of one RDMA device, as /sys/class/infiniband shows it.
type RDMADevice struct {
	Name      string `json:"name"`
	Port      int    `json:"port"`
	State     string `json:"state"`                // "ACTIVE", "DOWN", …
	PhysState string `json:"phys_state,omitempty"` // "LinkUp", "Disabled", "Polling", …
	LinkLayer string `json:"link_layer"`           // "Ethernet" or "InfiniBand"
	Netdev    string `json:"netdev,omitempty"`     // the port's own; VLANs on it are in GIDs
	Driver    string `json:"driver,omitempty"`     // "mlx5_core", "rxe", …
	Virtual   bool   `json:"virtual,omitempty"`    // made of software
	Firmware  string `json:"firmware,omitempty"`   // fw_ver
	HCA       string `json:"hca,omitempty"`        // hca_type: "MT4127"
	Board     string `json:"board,omitempty"`      // board_id: the PSID, by which firmware is chosen
	Rate      string `json:"rate,omitempty"`       // "100 Gb/sec (4X EDR)"
	LID       string `json:"lid,omitempty"`        // always "0x0" for Ethernet, which has no subnet manager
	Slot      Slot   `json:"slot,omitzero"`
	GIDs      []GID  `json:"gids,omitempty"` // empty slots left out; only ReadGIDs fills it
}

// GID is one filled slot of a port's GID table. One table has the addresses of the port's own netdev and of the VLANs and
// macvlans on it.
type GID struct {
	Index   int        `json:"index"`
	Addr    netip.Addr `json:"addr"`             // 16 bytes; v4-mapped for IPv4
	Version int        `json:"version"`          // 1: RoCE v1 or IB, 2: RoCE v2
	Netdev  string     `json:"netdev,omitempty"` // the netdev with the address, such as a VLAN on the port's own
}

// Of reports whether the GID is an address of the netdev; also true if its netdev could not be read.
func (g GID) Of(netdev string) bool { return g.Netdev == "" || g.Netdev == netdev }

// Management is the path of the connection that this snapshot came over. It is zero for a pipe.
type Management struct {
	Client netip.Addr `json:"client,omitzero"` // the operator's address, as the host sees it
	Server netip.Addr `json:"server,omitzero"` // the address of the host that the operator connected to
	Port   int        `json:"port,omitempty"`  // of the SSH server
	// Dialled is the address of the host to which the operator's side connected; invalid if a jump host or a forwarded port hides
	// it. The operator's side adds it: Server is only what the host says, and behind a translation of addresses it is another.
	Dialled netip.Addr `json:"dialled,omitzero"`
	// HostKey is the key with which the SSH server proved itself to the operator: type and key, as in known_hosts. The
	// operator's side adds it.
	HostKey string `json:"host_key,omitempty"`
	// netdevs under the path: route's device, the address's device, their masters, members and parents
	Devices []string   `json:"devices,omitempty"`
	Route   host.Route `json:"route,omitzero"`    // the kernel's route to Client
	Unknown string     `json:"unknown,omitempty"` // why the path could not be found; "" if it was found or a pipe needs none
	By      string     `json:"by,omitempty"`      // what made the connection; "" for SSH
	// Others are further paths that must not be cut. They have none themselves.
	Others []Management `json:"others,omitempty"`
}

// Connection names the connection for people.
func (m Management) Connection() string {
	if m.By == "" {
		return "SSH connection"
	}
	return "connection by " + m.By
}

// Fenced calls why with the snapshot once for each path that must not be cut, as if that were the only one, and returns the first reason.
func (s *Snapshot) Fenced(why func(*Snapshot) string) string {
	reason := why(s)
	for _, other := range s.Management.Others {
		if reason == "" {
			one := *s
			one.Management = other
			reason = why(&one)
		}
	}
	return reason
}

// DialledNetwork returns the address at which we reached the host, with the network that the host says it is in: that address alone if
// it says none, and an invalid one if we do not know the address.
func (s *Snapshot) DialledNetwork() netip.Prefix {
	at := s.Management.Dialled
	for _, a := range s.Addrs {
		if a.Prefix.Addr() == at {
			return a.Prefix
		}
	}
	return netip.PrefixFrom(at, at.BitLen())
}

// Link returns the link of that name, alternative names included; nil when there is none.
func (s *Snapshot) Link(name string) *host.Link {
	for i := range s.Links {
		if s.Links[i].Name == name {
			return &s.Links[i]
		}
	}
	for i := range s.Links {
		if slices.Contains(s.Links[i].AltNames, name) {
			return &s.Links[i]
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

// maxNested is the kernel's limit for netdevs on top of each other (MAX_NEST_DEV in include/linux/netdevice.h).
const maxNested = 8

// RDMAOn returns the RDMA ports that carry the RDMA traffic of a netdev. A VLAN or macvlan has no RDMA device of its own: the
// device below has its addresses as GIDs (is_eth_port_of_netdev_filter in the kernel's
// drivers/infiniband/core/roce_gid_mgmt.c).
func (s *Snapshot) RDMAOn(netdev string) (out []*RDMADevice) {
	l := s.Link(netdev)
	for i := 0; l != nil && len(out) == 0 && i < maxNested; i++ {
		for d := range s.RDMA {
			if s.RDMA[d].Serves(l.Name) {
				out = append(out, &s.RDMA[d])
			}
		}
		if !l.OnParent() {
			break
		}
		l = s.LinkByIndex(l.Parent)
	}
	return out
}

// Serves reports whether the port belongs to the netdev, or has GIDs of it.
func (d RDMADevice) Serves(netdev string) bool {
	return d.Netdev == netdev || slices.ContainsFunc(d.GIDs, func(g GID) bool { return g.Netdev == netdev })
}
