// Package ofed provides RDMA driver stacks: the distribution's own (inbox), installed by its package
// manager, and a vendor's, installed from a bundle. All its changes belong to the stack stage, which has its
// own transaction before the network's. The next plan reports an interrupted installation, and the next apply
// completes it.
package ofed

import (
	"context"
	"fmt"
	"path"
	"slices"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// Kind is the resource kind "ofed": at most one resource for each host.
const Kind = "ofed"

// Spec is the stack that the files declare for a host.
type Spec struct {
	Stack    string   `json:"stack"`              // Inbox, …
	Version  string   `json:"version,omitempty"`  // of the vendor's stack; for inbox, of rdma-core
	Packages []string `json:"packages,omitempty"` // more packages of the distribution; "name=version" pins one
	Modules  []string `json:"modules,omitempty"`  // kernel modules that the host's other blocks need
	Reboot   bool     `json:"reboot,omitempty"`   // the host may be rebooted
	Bundle   string   `json:"bundle,omitempty"`   // file name of the vendor's bundle
	Firmware bool     `json:"firmware,omitempty"` // the installer may change the cards' firmware
}

// Status is the stack found on a host, and the parts of the snapshot that decide whether it can be changed.
type Status struct {
	Stack  *Stack
	System facts.System
	Want   Spec
	Path   []string // NICs of the stack's drivers that may carry the operator's own connection
	RXE    []string // Soft-RoCE devices
}

// Kinds returns the kind that this package provides.
func Kinds() resource.Kinds {
	return resource.Kinds{resource.Erase[Spec, Status](Kind, provider{})}
}

// Desired returns the resource that the files declare for one host; nil without an ofed block.
func Desired(_ *fabric.Fabric, h *fabric.Host) []resource.Resource {
	o := h.OFED
	if o == nil {
		return nil
	}
	s := Spec{Stack: o.Stack, Version: o.Version, Packages: slices.Clone(o.Packages), Reboot: o.Reboot == "allow",
		Firmware: o.Firmware == "update"}
	if o.Bundle != "" {
		s.Bundle = path.Base(o.Bundle)
	}
	if o.Stack == Inbox && o.Version != "" {
		s.Packages = append(s.Packages, "rdma-core="+o.Version)
	}
	if len(h.RXE) > 0 {
		s.Modules = []string{"rdma_rxe"}
	}
	r := resource.New(h.Name, Kind, o.Stack, o.Pos, s)
	if o.Bundle != "" {
		r.Payload = &resource.Payload{Path: o.Bundle, SHA256: o.SHA256, Relay: o.Relay, Attribute: stackOf,
			Origin: "NVIDIA offers the bundle for download in a browser only, so it must be a local file here"}
	}
	return []resource.Resource{r}
}

type provider struct{}

// Stage returns the stage of all changes of this kind.
func (provider) Stage() string { return resource.StageStack }

// Looks asks for the versions by which hosts are compared, whether or not a host declares a stack.
func Looks(h *fabric.Host) []resource.Resource {
	return []resource.Resource{resource.New(h.Name, Kind, "versions", fabric.Pos{}, Spec{})}
}

// part is the snapshot's part with the driver stack.
const part = facts.Part[*Stack](Kind)

// Part returns the snapshot's part with the driver stack.
func (provider) Part() facts.AnyPart { return part }

// Gather reads the whole stack if one is declared, and only its versions otherwise.
func (provider) Gather(ctx context.Context, r host.Reader, look resource.Look[Spec]) error {
	n := &needs{}
	for _, want := range look.Wants {
		if want.Stack != "" {
			n = needsOf(want)
		}
	}
	s := readStack(ctx, r, look.Snapshot.System, n)
	part.Put(look.Snapshot, s)
	look.Snapshot.Versions = s.versions()
	return nil
}

func needsOf(want Spec) *needs {
	n := &needs{Full: true, Inbox: want.Stack == Inbox, Install: want.Packages, Modules: want.Modules}
	if !n.Inbox {
		n.Vendor, n.Reload = want.Stack, !want.Reboot
	}
	return n
}

// Observe returns the stack that was found, or an error when the declared one cannot be installed.
func (provider) Observe(snap *facts.Snapshot, want Spec) (*Status, error) {
	s := &Status{Stack: part.Of(snap), System: snap.System, Want: want, Path: pathOf(snap), RXE: softRoCE(snap)}
	switch {
	case snap.System.Lab:
		return nil,
			fmt.Errorf("a namespace lab shares its machine's packages and kernel, so nothing can be installed in it: " +
				"use `fabricform lab up -backend vm`")
	case s.Stack.Job != nil && s.Stack.Job.Alive && s.Stack.Job.State == resource.JobRunning:
		j := s.Stack.Job
		return nil, fmt.Errorf("%s is installing the stack of fabric %q on this host (%s): wait until that ends, and plan again",
			j.Who, j.Fabric, j.Step)
	}
	if want.Stack != Inbox {
		return s, refuseVendor(s, want)
	}
	return s, refuseInbox(s, want)
}

// Diff returns the changes that an installation would make.
func (provider) Diff(want Spec, got *Status) []resource.Change {
	var out []resource.Change
	if step := got.Stack.Job.Interrupted(); step != "" {
		out = append(out, resource.Change{Attribute: installation, From: "interrupted during: " + step, To: "finished"})
	}
	if want.Stack == Inbox {
		out = append(out, diffInbox(got)...)
	} else {
		out = append(out, diffVendor(want, got)...)
	}
	for i := range out {
		out[i].Stage = resource.StageStack
	}
	return out
}

// Notes returns facts that need no change but that the operator should know.
func (provider) Notes(got *Status) []string {
	var out []string
	s := got.Stack
	if s.SecureBoot == "on" && got.Want.Stack == DOCAOFED && !installed(got.Want, s) {
		out = append(out, "Secure Boot is on, and DOCA-OFED's modules are built on the host without a trusted signature. "+
			"They load only with an enrolled machine owner key (`mokutil --import /var/lib/dkms/mok.pub`, then a reboot at the console).")
	}
	if s.RebootDue != "" && !rebootPending(got) {
		out = append(out, "A reboot is due: "+s.RebootDue+".")
	}
	for _, m := range s.Modules {
		if s.SecureBoot == "on" && m.Origin() != "" && m.Origin() != "kernel" && m.Signer == "" {
			out = append(out,
				fmt.Sprintf("Secure Boot is on, and the module %s (%s) is not signed: the kernel refuses to load it. "+
					"Sign it with an enrolled machine owner key.", m.Name, m.File))
		}
		if m.Differs() {
			out = append(out, fmt.Sprintf(
				"The loaded module %s differs from the installed file (%s): reboot the host, or reload the driver.", m.Name, m.Origin()))
		}
	}
	return out
}

// Stable returns the status without the parts that change on their own: users of the driver and the installer's
// journal. A saved plan stays valid when only these have changed.
func (provider) Stable(got *Status) any {
	s := *got.Stack
	s.Modules, s.Job, s.Reload = nil, nil, nil
	return s
}

// Apply makes all changes except the reboot. The caller reboots hosts itself, because both ends of a link must not
// go down at once.
func (p provider) Apply(ctx context.Context, h host.Host, want Spec, changes []resource.Change) error {
	snap, err := resource.Gather(ctx, h, p, want)
	if err != nil {
		return err
	}
	log := resource.Log(ctx)
	if err := applyPackages(ctx, h, snap, changes, log); err != nil || want.Stack == Inbox {
		return err
	}
	return applyVendor(ctx, h, snap, want, changes, log)
}
