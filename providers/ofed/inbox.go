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

// Attributes of changes. Diff writes them and Apply reads them.
const (
	installation = "installation"
	lists        = "package lists"
	rebooting    = "reboot"
	packagePart  = "package " // prefix of the package's name
	newest       = "the newest that its repositories have"
	ofBundle     = "the bundle's" // a package that the vendor's installer brings
)

// refuseInbox returns an error when the distribution's stack cannot be installed on this host.
func refuseInbox(got *Status, want Spec) error {
	s := got.Stack
	switch {
	case s.Name != Inbox:
		return fmt.Errorf("%s is installed on this host, and its packages conflict with the distribution's. "+
			"Remove it first (`/usr/sbin/ofed_uninstall.sh --force`, then reboot), and plan again", s)
	case s.Manager == "":
		return fmt.Errorf("this host (%s %s) has no supported package manager: fabricform knows %s", s.Release.ID, s.Release.Version,
			packagemanager.Known())
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
		return fmt.Errorf("the kernel %s of this host has no module %s, and fabricform knows no package of %s %s that has it",
			got.System.Kernel, strings.Join(s.Missing, ", "), s.Release.ID, s.Release.Version)
	case reboot && !want.Reboot:
		return fmt.Errorf("the module %s needs another kernel (package %s), and the host must boot it: "+
			"set reboot = \"allow\" in its ofed block", strings.Join(s.Missing, ", "), name)
	case s.Has(name) && !reboot:
		return fmt.Errorf("the package %s is installed, but the kernel %s still has no module %s: "+
			"check that the package is intact and that it belongs to this kernel", name, got.System.Kernel, strings.Join(s.Missing, ", "))
	}
	return nil
}

// refusePackages returns an error when the package manager's simulation failed.
func refusePackages(s *Stack) error {
	if s.Simulated != nil && s.Simulated.Failed != "" {
		return fmt.Errorf("%s cannot install %s: %s", s.Manager, strings.Join(s.Wanted, ", "), s.Simulated.Failed)
	}
	return nil
}

// rebootPending reports whether the plan already contains the reboot that a module needs.
func rebootPending(got *Status) bool {
	if got.Want.Stack != Inbox {
		return false
	}
	_, reboot := got.Stack.KernelPackage(got.System)
	return len(got.Stack.Missing) > 0 && reboot
}

// diffInbox returns the changes that complete the distribution's stack.
func diffInbox(got *Status) []resource.Change {
	s := got.Stack
	out := diffPackages(s, false)
	if rebootPending(got) {
		out = append(out, resource.Change{Attribute: rebooting, From: "kernel " + got.System.Kernel,
			To: "a kernel with " + strings.Join(s.Missing, ", "), Disruption: resource.Reboot})
	}
	return out
}

// diffPackages returns the changes that the package manager would make. Bundled is true when a bundle is
// installed after them.
func diffPackages(s *Stack, bundled bool) []resource.Change {
	var out []resource.Change
	for _, name := range slices.Sorted(maps.Keys(s.Packages)) {
		if p := s.Packages[name]; p.Unfinished != "" {
			out = append(out, resource.Change{Attribute: packagePart + name, From: p.Unfinished, To: versionAfter(s, name, bundled)})
		}
	}
	if sim := s.Simulated; sim != nil {
		if len(sim.Unknown) > 0 {
			out = append(out, resource.Change{Attribute: lists, From: "do not list " + strings.Join(sim.Unknown, ", "), To: "refreshed"})
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

// versionAfter returns the version that an unfinished package has after apply. A half-installed package is installed
// again, possibly in a later version, and dpkg may not know yet which version it was. A vendor's package is in no
// repository until its bundle is installed.
func versionAfter(s *Stack, name string, bundled bool) string {
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

// blind returns the wanted packages that are missing. The package manager cannot simulate their installation until
// its lists are refreshed, so their dependencies are unknown.
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
