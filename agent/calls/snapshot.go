// Package calls declares the remote calls that read or change a host. The calls that measure are declared in package
// probe.
package calls

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unicode"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// Snapshot reads a host.
var Snapshot = agent.Method[SnapshotParams, SnapshotResult]("snapshot")

// SnapshotParams asks for the host's facts.
type SnapshotParams struct {
	// Resources are the host's declared resources. Each kind reads the facts that it needs for them.
	Resources []resource.Resource `json:"resources,omitempty"`
	// Ask is set for a plan: the host's own programs check whether they would accept the changes, and home
	// folders are searched. Such a snapshot may take some seconds. It is never taken during a transaction.
	Ask bool `json:"ask,omitempty"`
}

// SnapshotResult has the host's facts and the ownership records of its fabrics.
type SnapshotResult struct {
	Snapshot *facts.Snapshot   `json:"snapshot"`
	Records  []resource.Record `json:"records,omitempty"`
	Refused  map[string]string `json:"refused,omitempty"` // why the host's programs would not accept a resource, by its address
	// Transactions are those that the host keeps, the latest last.
	Transactions []TxInfo `json:"transactions,omitempty"`
	// Applied has the digest of what each fabric applied last, by the fabric's name.
	Applied map[string]string `json:"applied,omitempty"`
	// Guardians is how many guardians a transaction has on this host.
	Guardians int `json:"guardians"`
}

// Check returns an error if no host could give this answer: without a snapshot, a host that was not read would look like
// one without differences. Names in it come into commands and files, so each must be one that a device may have or a
// fabric file may declare.
func (r SnapshotResult) Check() error {
	switch {
	case r.Snapshot == nil:
		return errors.New("its answer holds no snapshot")
	case len(r.Snapshot.Links) == 0: // every host has at least lo
		return errors.New("its answer names no network interface: the snapshot is empty")
	}
	for _, l := range r.Snapshot.Links {
		for _, name := range append([]string{l.Name}, l.AltNames...) {
			if !isDevice(name) {
				return fmt.Errorf("its answer has a network interface of the impossible name %.80q", name)
			}
		}
	}
	for _, d := range r.Snapshot.RDMA {
		if !isDevice(d.Name) || d.Netdev != "" && !isDevice(d.Netdev) {
			return fmt.Errorf("its answer has an RDMA device of an impossible name: %.80q of %.80q", d.Name, d.Netdev)
		}
		for _, g := range d.GIDs {
			if g.Netdev != "" && !isDevice(g.Netdev) {
				return fmt.Errorf("its answer has a GID of a network interface of the impossible name %.80q", g.Netdev)
			}
		}
	}
	if err := r.addresses(); err != nil {
		return err
	}
	for _, record := range r.Records {
		for _, m := range record.Roster {
			if !m.Valid() {
				return fmt.Errorf("its record of fabric %.80q lists a host %.80q at %.80q, which no fabric file allows", record.Fabric,
					m.Name, m.Address)
			}
		}
	}
	return nil
}

// mostPaths is how many paths a host may have beside that of the connection: Slurm has few controllers.
const mostPaths = 16

// addresses returns an error unless a kernel could report each address. A prefix has no zone, and an address of a host has none
// here either: a zone is any text for netip.ParseAddr, line ends included, and String returns it.
func (r SnapshotResult) addresses() error {
	m := r.Snapshot.Management
	if len(m.Others) > mostPaths {
		return fmt.Errorf("its answer has %d paths to controllers", len(m.Others))
	}
	all, routes, devices := []netip.Addr{m.Client, m.Server, m.Dialled}, append([]host.Route{m.Route}, r.Snapshot.Routes...), m.Devices
	for _, o := range m.Others {
		if len(o.Others) > 0 {
			return errors.New("its answer has paths within paths")
		}
		all, routes, devices = append(all, o.Client, o.Server), append(routes, o.Route), slices.Concat(devices, o.Devices)
	}
	for _, route := range routes {
		all = append(all, route.Via, route.Src)
	}
	for _, d := range r.Snapshot.RDMA {
		for _, g := range d.GIDs {
			all = append(all, g.Addr)
		}
	}
	for _, a := range all {
		if a.Zone() != "" {
			return fmt.Errorf("its answer has the address %.80q, which has a zone", a)
		}
	}
	if m.Port < 0 || m.Port > 65535 {
		return fmt.Errorf("its answer has an SSH server at the impossible port %d", m.Port)
	}
	for _, name := range devices {
		if !isDevice(name) {
			return fmt.Errorf("its answer has a network interface of the impossible name %.80q under your connection", name)
		}
	}
	return nil
}

// isDevice says whether a device may have the name: the kernel allows no space and no slash (dev_valid_name in
// net/core/dev.c), and alternative names have up to 127 bytes.
func isDevice(name string) bool {
	return name != "" && name != "." && name != ".." && len(name) < 128 && !strings.ContainsFunc(name, func(r rune) bool {
		return r == '/' || r == ' ' || !unicode.IsPrint(r)
	})
}
