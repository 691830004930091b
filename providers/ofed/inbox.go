package ofed

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/packagemanager"
	"github.com/fabricform/fabricform/resource"
)

// Attributes of changes, which Apply reads again.
const (
	installation = "installation"
	lists        = "package lists"
	rebooting    = "reboot"
	packagePart  = "package " // before its name
	newest       = "the newest that its repositories have"
	ofBundle     = "the bundle's" // what a vendor's installer brings
)

// refuseInbox says why the distribution's stack cannot be had here.
func refuseInbox(got *Status, want Spec) error {
	s := got.Stack
	switch {
	case s.Name != Inbox:
		return fmt.Errorf("%s is installed here: its packages and the distribution's exclude each other. Remove it first (`/usr/sbin/ofed_uninstall.sh --force`, then reboot), and plan again", s)
	case s.Manager == "":
		return fmt.Errorf("this host (%s %s) has no package manager that is known: %s", s.Release.ID, s.Release.Version, packagemanager.Known())
	}
	if err := refusePackages(s); err != nil {
		return err
	}
	if len(s.Missing) == 0 {
		return nil
	}
	name, reboot := s.KernelPackage(got.System)
	switch {
	case name == "":
		return fmt.Errorf("the kernel %s of this host has no module %s, and no package of %s %s is known that has it", got.System.Kernel, strings.Join(s.Missing, ", "), s.Release.ID, s.Release.Version)
	case reboot && !want.Reboot:
		return fmt.Errorf("the module %s comes with another kernel (package %s), which the host must boot: set reboot = \"allow\" in its ofed block", strings.Join(s.Missing, ", "), name)
	case s.Has(name) && !reboot:
		return fmt.Errorf("the package %s is installed, and the kernel %s still has no module %s: is it broken, or no part of this kernel?", name, got.System.Kernel, strings.Join(s.Missing, ", "))
	}
	return nil
}

// refusePackages says why the package manager would not.
func refusePackages(s *Stack) error {
	if s.Simulated != nil && s.Simulated.Failed != "" {
		return fmt.Errorf("%s cannot install %s: %s", s.Manager, strings.Join(s.Wanted, ", "), s.Simulated.Failed)
	}
	return nil
}

// rebootPending says whether the plan itself has the reboot that a module needs.
func rebootPending(got *Status) bool {
	if got.Want.Stack != Inbox {
		return false
	}
	_, reboot := got.Stack.KernelPackage(got.System)
	return len(got.Stack.Missing) > 0 && reboot
}

// diffInbox is what makes the stack whole.
func diffInbox(got *Status) []resource.Change {
	s := got.Stack
	out := diffPackages(s, false)
	if rebootPending(got) {
		out = append(out, resource.Change{Attribute: rebooting, From: "kernel " + got.System.Kernel, To: "a kernel with " + strings.Join(s.Missing, ", "), Disruption: resource.Reboot})
	}
	return out
}

// diffPackages is what the package manager would do; bundled: before a bundle is installed.
func diffPackages(s *Stack, bundled bool) []resource.Change {
	var out []resource.Change
	for _, name := range slices.Sorted(maps.Keys(s.Packages)) {
		if p := s.Packages[name]; p.Unfinished != "" {
			out = append(out, resource.Change{Attribute: packagePart + name, From: p.Unfinished, To: finished(s, name, bundled)})
		}
	}
	if sim := s.Simulated; sim != nil {
		if len(sim.Unknown) > 0 {
			out = append(out, resource.Change{Attribute: lists, From: "do not know " + strings.Join(sim.Unknown, ", "), To: "read anew"})
			out = append(out, blind(s)...)
		}
		for _, step := range sim.Steps {
			if s.Packages[step.Name].Unfinished == "" {
				out = append(out, resource.Change{Attribute: packagePart + step.Name, From: step.From, To: step.To})
			}
		}
	}
	return out
}

// finished is the version in which an unfinished package ends. One that is half installed is installed
// anew, which may be in a later one, and dpkg may not know yet which it was. A vendor's is in no
// repository until its bundle is installed.
func finished(s *Stack, name string, bundled bool) string {
	p := s.Packages[name]
	if p.Unfinished == packagemanager.HalfInstalled {
		if s.Simulated != nil {
			for _, step := range s.Simulated.Steps {
				if step.Name == name && step.To != "" {
					return step.To
				}
			}
		}
		if bundled {
			return ofBundle
		}
	}
	return cmp.Or(p.Version, newest)
}

// blind is what is installed where the package manager cannot say more before its lists were read.
func blind(s *Stack) (out []resource.Change) {
	for _, w := range s.Wanted {
		if name, version, pinned := strings.Cut(w, "="); !s.Has(w) {
			if !pinned {
				version = newest
			}
			out = append(out, resource.Change{Attribute: packagePart + name, From: s.Packages[name].Version, To: version})
		}
	}
	return out
}
