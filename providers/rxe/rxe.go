// Package rxe provides Soft-RoCE devices: RDMA on a plain NIC by the kernel module rdma_rxe.
package rxe

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/retry"
)

// Names of the kinds of this package.
const (
	Kind       = "rxe"
	KindModule = "module"
)

// Spec is a declared device.
type Spec struct {
	Device string         `json:"device"`
	On     facts.Selector `json:"on"` // the NIC below it
}

// Status is the device that was found.
type Status struct {
	Netdev string // the declared NIC
	On     string // the NIC below the device now; "" if there is no such device
}

// Absent reports whether the device does not exist.
func (s *Status) Absent() bool { return s.On == "" }

// Kinds returns the kinds of this package. The module comes first, because devices need it.
func Kinds() resource.Kinds {
	return resource.Kinds{
		resource.Erase[ModuleSpec, ModuleStatus](KindModule, moduleProvider{}),
		resource.Erase[Spec, Status](Kind, provider{}),
	}
}

// Desired returns the resources that the files declare for one host.
func Desired(_ *fabric.Fabric, h *fabric.Host) []resource.Resource {
	if len(h.RXE) == 0 {
		return nil
	}
	out := []resource.Resource{resource.New(h.Name, KindModule, module, h.RXE[0].Pos, ModuleSpec{Name: module})}
	for _, d := range h.RXE {
		s := Spec{Device: d.Name, On: facts.Selector{Netdev: d.Netdev}}
		after := []resource.Addr{out[0].Addr}
		if n := h.NIC(d.NIC.NIC); n != nil {
			s.On = facts.Selector{Netdev: n.Netdev, MAC: n.Match.MAC, PCI: n.Match.PCI, RDMA: n.Match.RDMA}
			// The NIC comes first, because the GIDs and the RDMA MTU follow from its addresses and MTU.
			after = append(after, resource.Addr{Host: h.Name, Kind: "nic", Name: n.Name})
		}
		out = append(out, resource.New(h.Name, Kind, d.Name, d.Pos, s, after...))
	}
	return out
}

type provider struct{}

// Observe finds the device. It returns an error if the device conflicts with another RDMA device.
func (provider) Observe(snap *facts.Snapshot, want Spec) (*Status, error) {
	l, err := snap.Find(want.On)
	if err != nil {
		return nil, err
	}
	if l.Kind == "vlan" { // rxe_newlink in the kernel's drivers/infiniband/sw/rxe/rxe.c
		return nil, fmt.Errorf(
			"Soft-RoCE cannot be added to %s, which is a VLAN: add the device to the NIC below it, which also serves its VLANs", l.Name)
	}
	s := &Status{Netdev: l.Name}
	for _, d := range snap.RDMA {
		switch {
		case d.Name == want.Device && d.Driver != Kind:
			return nil, fmt.Errorf("RDMA device %s exists already and is not Soft-RoCE: choose another name", d.Name)
		case d.Name == want.Device:
			s.On = d.Netdev
		case d.Netdev == l.Name && !d.Virtual:
			return nil, fmt.Errorf("%s has an RDMA device in hardware (%s), and Soft-RoCE would be slower: remove the rxe block",
				l.Name, d.Name)
		case d.Netdev == l.Name:
			return nil,
				fmt.Errorf("%s already has the software RDMA device %s, and only one is possible: "+
					"run `rdma link delete %s`, or give the block its name", l.Name, d.Name, d.Name)
		}
	}
	return s, nil
}

// Diff returns no change if the device is on its NIC.
func (provider) Diff(want Spec, got *Status) []resource.Change {
	if got == nil || got.On == got.Netdev {
		return nil
	}
	c := resource.Change{Attribute: "netdev", From: got.On, To: got.Netdev, Atom: atom(want.Device)}
	if got.On != "" {
		c.Refusal = fmt.Sprintf("Soft-RoCE device %s exists on %s, and fabricform did not add it: "+
			"run `rdma link delete %s`, or choose another name", want.Device, got.On, want.Device)
	}
	return []resource.Change{c}
}

// Present returns the device.
func (provider) Present(want Spec, got *Status) map[resource.Atom]string {
	return map[resource.Atom]string{atom(want.Device): got.On}
}

// Apply creates the device and waits until its port is active.
func (provider) Apply(ctx context.Context, h host.Host, want Spec, changes []resource.Change) error {
	for _, c := range changes {
		if c.From != "" {
			if err := remove(ctx, h, want.Device); err != nil {
				return err
			}
		}
		if err := h.AddRXE(want.Device, c.To); err != nil {
			return err
		}
		if err := awaitActive(ctx, h, want.Device, c.To); err != nil {
			return err
		}
	}
	return nil
}

// remove removes a device unless a process uses it: the kernel would disconnect its users.
func remove(ctx context.Context, h host.Host, device string) error {
	users, err := h.RDMAUsers(ctx, device)
	if err != nil {
		return err
	}
	if len(users) > 0 {
		var names []string
		for _, u := range users {
			names = append(names, u.String())
		}
		return fmt.Errorf("RDMA device %s is in use by %s: stop these processes first", device, strings.Join(names, ", "))
	}
	return h.DelRDMA(device)
}

// patience is how long a port may take to become active. The driver follows its NIC at once, and the GIDs follow a
// moment later.
const patience = 5 * time.Second

// awaitActive waits until the port is active. The port of a NIC without a carrier stays down. It reads these two files only:
// a snapshot has 1,024 GIDs of each device.
func awaitActive(ctx context.Context, h host.Host, device, netdev string) error {
	return retry.Until(ctx, 50*time.Millisecond, patience, func() (bool, error) {
		state := facts.PortState(ctx, h, device, 1)
		if state == "ACTIVE" || state != "" && host.Text(ctx, h, "/sys/class/net/"+netdev+"/carrier") != "1" {
			return true, nil
		}
		return false, fmt.Errorf("RDMA device %s did not become ACTIVE, although %s has a carrier", device, netdev)
	})
}

// atom returns the atom "rxe DEVICE netdev". Its value is the netdev below the device.
func atom(device string) resource.Atom { return resource.NewAtom(Kind, device, "netdev") }

// Claims reports whether the atom is this device.
func (provider) Claims(_ *facts.Snapshot, want Spec, a resource.Atom) bool {
	return a.Thing() == want.Device
}

// live returns the netdev below the device; "" if there is no such device.
func (provider) live(snap *facts.Snapshot, a resource.Atom) string {
	for _, d := range snap.RDMA {
		if d.Name == a.Thing() && d.Driver == Kind {
			return d.Netdev
		}
	}
	return ""
}

// Undo never touches the operator's connection, because SSH does not use RDMA.
func (p provider) Undo(snap *facts.Snapshot, a resource.Atom, to string) (resource.Change, string) {
	return a.Change(p.live(snap, a), to), ""
}

// ApplyUndo removes the device, or adds it to its earlier NIC again. The module stays loaded, because others may use
// it.
func (provider) ApplyUndo(ctx context.Context, h host.Host, _ *facts.Snapshot, a resource.Atom, to string) error {
	if err := remove(ctx, h, a.Thing()); err != nil || to == "" {
		return err
	}
	return h.AddRXE(a.Thing(), to)
}

// Vanishing returns the devices that the fabric made on the host, by its records, and that are no longer declared.
func Vanishing(f *fabric.Fabric, h *fabric.Host, records []resource.Record) (gone []string) {
	for _, r := range records {
		for a, o := range r.Atoms {
			declared := slices.ContainsFunc(h.RXE, func(x *fabric.RXE) bool { return x.Name == a.Thing() })
			if r.Fabric == f.Name && a.Kind() == Kind && !declared && o.Earlier == "" {
				gone = append(gone, a.Thing())
			}
		}
	}
	return gone
}

// Local marks what is read from the kernel alone.
func (moduleProvider) Local() {}

// Local is as that of the module.
func (provider) Local() {}
