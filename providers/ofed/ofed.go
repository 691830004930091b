// Package ofed provides RDMA driver stacks: the distribution's own (inbox) through its package
// manager, and vendors' from a bundle. All of its changes are of the stack stage, which has a
// transaction of its own before the network's: a host's stack is installed whole, or is found
// unfinished by the next plan and finished by the next apply.
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

// Kind is this room's resource kind: one resource for each host.
const Kind = "ofed"

// Spec is a host's wanted stack.
type Spec struct {
	Stack    string   `json:"stack"`              // Inbox, …
	Version  string   `json:"version,omitempty"`  // of a vendor's stack; of rdma-core for the inbox one
	Packages []string `json:"packages,omitempty"` // further ones of the distribution; "name=version" pins one
	Modules  []string `json:"modules,omitempty"`  // kernel modules that the host's other blocks need
	Reboot   bool     `json:"reboot,omitempty"`   // the host may be restarted
	Bundle   string   `json:"bundle,omitempty"`   // name of the vendor's file, without its folder
	Firmware bool     `json:"firmware,omitempty"` // the installer may change the cards' firmware
}

// Status is what is there.
type Status struct {
	Stack  *Stack
	System facts.System
	Want   Spec
	Path   []string // devices of the stack's drivers that the operator's own connection may go over
	RXE    []string // Soft-RoCE devices
}

// Kinds is the room's table.
func Kinds() resource.Kinds {
	return resource.Kinds{resource.Erase[Spec, Status](Kind, provider{})}
}

// Desired turns what the files declare for one host into resources.
func Desired(_ *fabric.Fabric, h *fabric.Host) []resource.Resource {
	o := h.OFED
	if o == nil {
		return nil
	}
	s := Spec{Stack: o.Stack, Version: o.Version, Packages: slices.Clone(o.Packages), Reboot: o.Reboot == "allow", Firmware: o.Firmware == "update"}
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
			Origin: "NVIDIA's page gives it to a browser, and here it must be a local file"}
	}
	return []resource.Resource{r}
}

type provider struct{}

// Stage is that of all of the room's changes.
func (provider) Stage() string { return resource.StageStack }

// Looks has the versions read that hosts are compared by, whether a stack is wanted or not.
func Looks(h *fabric.Host) []resource.Resource {
	return []resource.Resource{resource.New(h.Name, Kind, "versions", fabric.Pos{}, Spec{})}
}

// part is the driver stack.
const part = facts.Part[*Stack](Kind)

// Part is the driver stack.
func (provider) Part() facts.AnyPart { return part }

// Gather reads all of the stack where one is wanted, and else its versions.
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

// Observe refuses what could not be carried out.
func (provider) Observe(snap *facts.Snapshot, want Spec) (*Status, error) {
	s := &Status{Stack: part.Of(snap), System: snap.System, Want: want, Path: pathOf(snap), RXE: softRoCE(snap)}
	switch {
	case snap.System.Lab:
		return nil, fmt.Errorf("a lab of namespaces shares its machine's packages and kernel, and installs nothing: `fabricform lab up -backend vm` has its own")
	case s.Stack.Job != nil && s.Stack.Job.Alive && s.Stack.Job.State == resource.JobRunning:
		j := s.Stack.Job
		return nil, fmt.Errorf("an installation by %s of fabric %q is under way here (%s): wait for its end, and plan again", j.Who, j.Fabric, j.Step)
	}
	if want.Stack != Inbox {
		return s, refuseVendor(s, want)
	}
	return s, refuseInbox(s, want)
}

// Diff is what an installation would do.
func (provider) Diff(want Spec, got *Status) []resource.Change {
	var out []resource.Change
	if step := got.Stack.Job.Interrupted(); step != "" {
		out = append(out, resource.Change{Attribute: installation, From: "broke off in: " + step, To: "finished"})
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

// Notes say what is no change and still matters.
func (provider) Notes(got *Status) []string {
	var out []string
	s := got.Stack
	if s.SecureBoot == "on" && got.Want.Stack == DOCAOFED && !installed(got.Want, s) {
		out = append(out, "Secure Boot is on, and DOCA-OFED's modules are built on the host and signed by nobody: they load only with a machine owner key that is enrolled (`mokutil --import /var/lib/dkms/mok.pub`, then a reboot at the console).")
	}
	if s.RebootDue != "" && !rebootPending(got) {
		out = append(out, "A reboot is due: "+s.RebootDue+".")
	}
	for _, m := range s.Modules {
		if s.SecureBoot == "on" && m.Origin() != "" && m.Origin() != "kernel" && m.Signer == "" {
			out = append(out, fmt.Sprintf("Secure Boot is on, and the module %s (%s) is signed by nobody: the kernel refuses it. Sign it with a machine owner key that is enrolled.", m.Name, m.File))
		}
		if m.Differs() {
			out = append(out, fmt.Sprintf("The module %s that runs is not the one of its file (%s): it takes a reboot, or a reload of the driver.", m.Name, m.Origin()))
		}
	}
	return out
}

// Stable leaves out what moves by itself: who uses the driver, the journal's process, and who asks.
func (provider) Stable(got *Status) any {
	s := *got.Stack
	s.Modules, s.Job, s.Reload = nil, nil, nil
	return s
}

// Apply makes the changes, the reboot aside, which the one who asks makes: both ends of a link are
// not to go down at once.
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
