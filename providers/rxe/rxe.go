// Package rxe provides Soft-RoCE devices: RDMA over a plain NIC, carried by the kernel's rdma_rxe.
package rxe

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/retry"
)

// The kinds of this room.
const (
	Kind       = "rxe"
	KindModule = "module"
)

// Spec is a wanted device.
type Spec struct {
	Device string         `json:"device"`
	On     facts.Selector `json:"on"` // the NIC below it
}

// Status is what is there in the device's place.
type Status struct {
	Netdev string // wanted below the device
	On     string // netdev below the device now; "": there is no such device
}

// Absent says that there is no such device.
func (s *Status) Absent() bool { return s.On == "" }

// Kinds is the room's table. The module comes first: without it there are no devices.
func Kinds() resource.Kinds {
	return resource.Kinds{
		resource.Erase[ModuleSpec, ModuleStatus](KindModule, moduleProvider{}),
		resource.Erase[Spec, Status](Kind, provider{}),
	}
}

// Desired turns what the files declare for one host into resources.
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
			// Address and MTU first: the GIDs and the RDMA MTU come from them.
			after = append(after, resource.Addr{Host: h.Name, Kind: "nic", Name: n.Name})
		}
		out = append(out, resource.New(h.Name, Kind, d.Name, d.Pos, s, after...))
	}
	return out
}

type provider struct{}

// Observe finds the device, and refuses conflicts with other RDMA devices.
func (provider) Observe(snap *facts.Snapshot, want Spec) (*Status, error) {
	l, err := snap.Find(want.On)
	if err != nil {
		return nil, err
	}
	s := &Status{Netdev: l.Name}
	for _, d := range snap.RDMA {
		switch {
		case d.Name == want.Device && d.Driver != Kind:
			return nil, fmt.Errorf("RDMA device %s exists already and is not Soft-RoCE: choose another name", d.Name)
		case d.Name == want.Device:
			s.On = d.Netdev
		case d.Netdev == l.Name && !d.Virtual:
			return nil, fmt.Errorf("%s has an RDMA device in hardware (%s), and Soft-RoCE would be slower: remove the rxe block", l.Name, d.Name)
		case d.Netdev == l.Name:
			return nil, fmt.Errorf("%s already has the software RDMA device %s, and only one is possible: run `rdma link delete %s`, or give the block its name", l.Name, d.Name, d.Name)
		}
	}
	return s, nil
}

// Diff is empty when the device is on its NIC.
func (provider) Diff(want Spec, got *Status) []resource.Change {
	if got == nil || got.On == got.Netdev {
		return nil
	}
	c := resource.Change{Attribute: "netdev", From: got.On, To: got.Netdev, Atom: atom(want.Device)}
	if got.On != "" {
		c.Takes = fmt.Sprintf("Soft-RoCE device %s exists on %s, and fabricform did not add it: run `rdma link delete %s`, or choose another name", want.Device, got.On, want.Device)
	}
	return []resource.Change{c}
}

// Apply makes the device, and waits until its port is up.
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

// patience with a port: the driver follows its NIC at once, the GIDs a moment later.
const patience = 5 * time.Second

// awaitActive waits until the port is active. The port of a NIC without a carrier stays down.
func awaitActive(ctx context.Context, h host.Host, device, netdev string) error {
	return retry.Until(ctx, 50*time.Millisecond, patience, func() (bool, error) {
		snap, err := facts.Gather(ctx, h, "")
		if err != nil {
			return true, err
		}
		for _, d := range snap.RDMA {
			l := snap.Link(netdev)
			if d.Name == device && (d.State == "ACTIVE" || l == nil || !l.Carrier) {
				return true, nil
			}
		}
		return false, fmt.Errorf("RDMA device %s did not become ACTIVE, although %s has a carrier", device, netdev)
	})
}

// atom is "rxe DEVICE netdev"; its value is the netdev below the device.
func atom(device string) resource.Atom { return resource.NewAtom(Kind, device, "netdev") }

// Claims says whether the atom is this device.
func (provider) Claims(_ *facts.Snapshot, want Spec, a resource.Atom) bool {
	return a.Thing() == want.Device
}

// live is the netdev below the device.
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

// Revert removes the device, or adds it to its earlier NIC again. The module stays loaded, because others may use
// it.
func (provider) Revert(ctx context.Context, h host.Host, _ *facts.Snapshot, a resource.Atom, to string) error {
	if err := remove(ctx, h, a.Thing()); err != nil || to == "" {
		return err
	}
	return h.AddRXE(a.Thing(), to)
}
