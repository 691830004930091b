package rxe

import (
	"context"
	"fmt"
	"strings"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// module is the kernel module of Soft-RoCE. It stays loaded without devices, because others may use it.
const module = "rdma_rxe"

// ModuleSpec is a kernel module that must be loaded.
type ModuleSpec struct {
	Name string `json:"name"`
}

// ModuleStatus is the state of the module on the host.
type ModuleStatus struct{ State Module }

// Module is the state of a kernel module.
type Module string

// States of a kernel module.
const (
	ModuleLoaded    Module = "loaded"    // or built in
	ModuleAvailable Module = "available" // modprobe would find it
	ModuleAbsent    Module = "absent"
)

type moduleProvider struct{}

// modules is the snapshot's part with the states of the wanted modules.
const modules = facts.Part[map[string]Module](KindModule)

// Part returns the snapshot's part with the states of modules.
func (moduleProvider) Part() facts.AnyPart { return modules }

// Gather finds loaded modules in /sys/module, and others in the files that depmod(8) wrote for the running kernel.
func (moduleProvider) Gather(ctx context.Context, r host.Reader, look resource.Look[ModuleSpec]) error {
	var known string
	for _, list := range []string{"modules.dep", "modules.builtin"} {
		if text, err := r.ReadFile(ctx, "/lib/modules/"+look.Snapshot.System.Kernel+"/"+list); err == nil {
			known += "\n" + string(text)
		}
	}
	found := map[string]Module{}
	for _, want := range look.Wants {
		found[want.Name] = ModuleAbsent
		switch _, err := r.ReadDir(ctx, "/sys/module/"+want.Name); {
		case err == nil:
			found[want.Name] = ModuleLoaded
		case strings.Contains(known, "/"+want.Name+".ko"):
			found[want.Name] = ModuleAvailable
		}
	}
	modules.Put(look.Snapshot, found)
	return nil
}

// Observe returns an error that names the package of a missing module.
func (moduleProvider) Observe(snap *facts.Snapshot, want ModuleSpec) (*ModuleStatus, error) {
	s := &ModuleStatus{State: modules.Of(snap)[want.Name]}
	switch {
	case snap.System.Lab && s.State != ModuleLoaded:
		return nil, fmt.Errorf("a namespace lab shares the kernel of its machine, so it cannot load %s: "+
			"use `fabricform lab up -backend vm`, whose hosts have their own kernels", want.Name)
	case s.State == ModuleAbsent:
		return nil,
			&resource.MissingDriver{Why: fmt.Sprintf("the kernel %s of this host lacks the module %s: %s; "+
				"or declare ofed { stack = \"inbox\" }", snap.System.Kernel, want.Name, whoHasIt(snap.System))}
	}
	return s, nil
}

// whoHasIt names the package that has the module, by distribution.
func whoHasIt(s facts.System) string {
	switch {
	case strings.HasPrefix(s.OS, "Ubuntu"):
		return "on Ubuntu, install the package linux-modules-extra-" + s.Kernel
	case strings.HasPrefix(s.OS, "Debian"):
		return "Debian's cloud kernel lacks it; install the package linux-image-" + s.Arch + " and boot its kernel"
	case strings.Contains(s.OS, "Red Hat") || strings.Contains(s.OS, "Rocky") || strings.Contains(s.OS, "Alma"):
		return "release 8 has it in the package kernel-modules-extra; later releases do not have it"
	}
	return "look for a package with extra modules for this kernel"
}

// Diff returns no change if the module is loaded.
func (moduleProvider) Diff(_ ModuleSpec, got *ModuleStatus) []resource.Change {
	if got == nil || got.State == ModuleLoaded {
		return nil
	}
	return []resource.Change{{Attribute: "state", From: string(got.State), To: string(ModuleLoaded)}}
}

// Apply loads the module.
func (moduleProvider) Apply(_ context.Context, h host.Host, want ModuleSpec, changes []resource.Change) error {
	for range changes {
		if err := h.LoadModule(want.Name); err != nil {
			return err
		}
	}
	return nil
}
