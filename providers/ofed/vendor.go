package ofed

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/packagemanager"
	"github.com/fabricform/fabricform/resource"
)

// Attributes of a vendor's stack.
const (
	stackOf      = "stack"
	replaced     = "distribution's packages"
	firmwareOf   = "firmware"
	driverReload = "driver"
)

// refuseVendor returns an error when the declared bundle cannot be installed on this host.
func refuseVendor(got *Status, want Spec) error {
	s := got.Stack
	if installed(want, s) {
		return refuseReload(got, want)
	}
	b, ok := fabric.ParseBundle(want.Bundle)
	switch {
	case !ok && is(want, s):
		return fmt.Errorf(
			"the installation of %s was interrupted on this host, and the ofed block names no bundle: set bundle to finish it", s)
	case !ok:
		return fmt.Errorf("this host has %s, and the ofed block names no bundle: set bundle to install %s", s, want.Stack)
	case s.Name != Inbox && s.Name != want.Stack:
		return fmt.Errorf(
			"%s is installed on this host: remove it first (`/usr/sbin/ofed_uninstall.sh --force`, then reboot), and plan again", s)
	case s.Manager == "":
		return fmt.Errorf("this host (%s %s) has no supported package manager: fabricform knows %s", s.Release.ID, s.Release.Version,
			packagemanager.Known())
	}
	if why := fits(b, s.Release, got.System); why != "" {
		return fmt.Errorf("%s cannot be installed on this host: %s", want.Bundle, why)
	}
	if s.Lacking() { // if nothing is lacking, the bundle brings whatever apt cannot finish
		if err := refusePackages(s); err != nil {
			return err
		}
	}
	if builds(b) && !s.Headers && !headersCome(got) {
		return fmt.Errorf("DOCA-OFED builds its modules on the host, "+
			"but the headers of its kernel %s are missing (/lib/modules/%[1]s/build), and no package of the plan has them: "+
			"install them, or boot a kernel that has its headers", got.System.Kernel)
	}
	return refuseReload(got, want)
}

// builds reports whether the bundle has its modules as source only, as DOCA does since 3.2 (its release notes,
// general support).
func builds(b fabric.Bundle) bool {
	return b.Stack == DOCAOFED && compareVersions(b.Version, "3.2") >= 0
}

// headersCome reports whether the plan installs the running kernel's headers, or asks for them after the package
// lists are refreshed.
func headersCome(got *Status) bool {
	s := got.Stack
	wanted := packagemanager.Lookup(s.Manager).Headers(got.System.Kernel)
	if s.Simulated == nil || !slices.Contains(s.Wanted, wanted) || s.Has(wanted) {
		return false
	}
	name, _, _ := strings.Cut(wanted, "=")
	return len(s.Simulated.Unknown) > 0 || slices.ContainsFunc(s.Simulated.Steps,
		func(p packagemanager.PackageStep) bool { return p.Name == name && p.To != "" })
}

// is reports whether the host names the wanted stack as its own, complete or not.
func is(want Spec, s *Stack) bool {
	if s.Name != want.Stack {
		return false
	}
	b, _ := fabric.ParseBundle(want.Bundle)
	switch {
	case want.Bundle != "" && want.Stack == DOCAOFED: // ofed_info prints the version of OFED, not of DOCA
		return strings.HasPrefix(s.Version, b.OFED+"-") || s.Version == b.OFED
	case want.Bundle != "":
		return s.Version == b.Version
	case want.Stack == DOCAOFED && strings.HasPrefix(s.Version, want.Version+"-"): // "25.07" is "25.07-0.9.7"
		return true
	}
	return want.Version == "" || s.Version == want.Version
}

// reloadStep is the journal's line for the reload. An installation that was interrupted in this step has installed
// everything.
var reloadStep = step(reload)

// installed reports whether the wanted stack is completely installed. An interrupted installer may leave a stack that
// ofed_info names but that lacks modules or the initramfs.
func installed(want Spec, s *Stack) bool {
	interrupted := s.Job.InterruptedFor(want.Stack)
	return is(want, s) && (interrupted == "" || interrupted == reloadStep)
}

// reloads reports whether the installed driver still has to be loaded.
func reloads(s *Stack) bool { return stale(s) || s.Job.InterruptedFor(s.Name) == reloadStep }

// installsBundle reports whether the changes install a bundle, so that the host needs the file first.
func installsBundle(changes []resource.Change) bool {
	return slices.ContainsFunc(changes, func(c resource.Change) bool { return c.Attribute == stackOf })
}

// stale reports whether the loaded driver differs from the installed one.
func stale(s *Stack) bool {
	return slices.ContainsFunc(s.Modules, func(m Module) bool {
		return m.Differs() && (strings.HasPrefix(m.Name, "mlx5") || m.Name == "ib_core")
	})
}

// diffVendor returns the changes that an installation of the bundle makes.
func diffVendor(want Spec, got *Status) []resource.Change {
	s := got.Stack
	var out []resource.Change
	if !installed(want, s) {
		b, _ := fabric.ParseBundle(want.Bundle)
		out = diffPackages(s, true)
		from := s.String()
		if is(want, s) {
			from += ", unfinished"
		}
		out = append(out, resource.Change{Attribute: stackOf, From: from, To: want.Stack + " " + b.Version})

		// The vendor's installer removes the distribution's packages that it replaces.
		var goes []string
		for _, name := range slices.Sorted(maps.Keys(s.Packages)) {
			if slices.Contains(watched, name) && !strings.HasPrefix(name, "libnccl") && s.Name == Inbox {
				goes = append(goes, name)
			}
		}
		if len(goes) > 0 {
			out = append(out, resource.Change{Attribute: replaced, From: strings.Join(goes, ", "), To: ofBundle})
		}
		if want.Firmware {
			out = append(out, resource.Change{Attribute: firmwareOf, From: "the cards' own",
				To: "the bundle's, if it is newer; nothing can interrupt the write"})
		}
	}
	if len(out) == 0 && !reloads(s) {
		return nil
	}
	if want.Reboot {
		return append(out, resource.Change{Attribute: rebooting, From: "kernel " + got.System.Kernel, To: "with the new driver",
			Disruption: resource.Reboot})
	}
	return append(out, resource.Change{Attribute: driverReload, From: "the loaded one", To: "the installed one",
		Disruption: resource.DriverReload})
}
