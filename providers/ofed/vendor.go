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

// refuseVendor says why the bundle cannot be installed here.
func refuseVendor(got *Status, want Spec) error {
	s := got.Stack
	if installed(want, s) {
		return refuseReload(got, want)
	}
	b, ok := fabric.ParseBundle(want.Bundle)
	switch {
	case !ok && is(want, s):
		return fmt.Errorf("the installation of %s broke off here, and the block names no bundle to finish it from", s)
	case !ok:
		return fmt.Errorf("this host has %s, and the block names no bundle to install %s from", s, want.Stack)
	case s.Name != Inbox && s.Name != want.Stack:
		return fmt.Errorf("%s is installed here: remove it first (`/usr/sbin/ofed_uninstall.sh --force`, then reboot), and plan again", s)
	case s.Manager == "":
		return fmt.Errorf("this host (%s %s) has no package manager that is known: %s", s.Release.ID, s.Release.Version, packagemanager.Known())
	}
	if why := fits(b, s.Release, got.System); why != "" {
		return fmt.Errorf("%s does not fit this host: %s", want.Bundle, why)
	}
	if s.Lacking() { // what else apt cannot finish, the bundle brings
		if err := refusePackages(s); err != nil {
			return err
		}
	}
	if builds(b) && !s.Headers && !headersCome(got) {
		return fmt.Errorf("DOCA-OFED's modules are built on the host, and the headers of its kernel %s are not there (/lib/modules/%[1]s/build), and no package of the plan brings them: boot a kernel whose headers are there, or install those of this one", got.System.Kernel)
	}
	return refuseReload(got, want)
}

// builds says whether modules come as source only: DOCA's do since 3.2 (its release notes, general
// support).
func builds(b fabric.Bundle) bool {
	return b.Stack == DOCAOFED && compareVersions(b.Version, "3.2") >= 0
}

// headersCome says whether the plan installs the running kernel's headers, or asks for them once the lists
// are read.
func headersCome(got *Status) bool {
	s := got.Stack
	wanted := packagemanager.Lookup(s.Manager).Headers(got.System.Kernel)
	if s.Simulated == nil || !slices.Contains(s.Wanted, wanted) || s.Has(wanted) {
		return false
	}
	name, _, _ := strings.Cut(wanted, "=")
	return len(s.Simulated.Unknown) > 0 || slices.ContainsFunc(s.Simulated.Steps, func(p packagemanager.PackageStep) bool { return p.Name == name && p.To != "" })
}

// is says whether the host tells of the wanted stack.
func is(want Spec, s *Stack) bool {
	if s.Name != want.Stack {
		return false
	}
	b, _ := fabric.ParseBundle(want.Bundle)
	switch {
	case want.Bundle != "" && want.Stack == DOCAOFED: // ofed_info tells the OFED, not DOCA
		return strings.HasPrefix(s.Version, b.OFED+"-") || s.Version == b.OFED
	case want.Bundle != "":
		return s.Version == b.Version
	case want.Stack == DOCAOFED && strings.HasPrefix(s.Version, want.Version+"-"): // "25.07" is "25.07-0.9.7"
		return true
	}
	return want.Version == "" || s.Version == want.Version
}

// reloadStep is how the reload is announced: what broke off in it has installed all before it.
var reloadStep = step(reload)

// installed says whether the wanted stack is there whole. An installer that was cut off may have left
// what tells of it, and not the modules or the initramfs.
func installed(want Spec, s *Stack) bool {
	broke := s.Job.InterruptedFor(want.Stack)
	return is(want, s) && (broke == "" || broke == reloadStep)
}

// reloads says whether an installed driver is still to be loaded.
func reloads(s *Stack) bool { return stale(s) || s.Job.InterruptedFor(s.Name) == reloadStep }

// installsBundle says whether changes install a bundle, which the host must have before.
func installsBundle(changes []resource.Change) bool {
	return slices.ContainsFunc(changes, func(c resource.Change) bool { return c.Attribute == stackOf })
}

// stale says whether another driver runs than is installed.
func stale(s *Stack) bool {
	return slices.ContainsFunc(s.Modules, func(m Module) bool {
		return m.Differs() && (strings.HasPrefix(m.Name, "mlx5") || m.Name == "ib_core")
	})
}

// diffVendor is what an installation of the bundle does.
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
			out = append(out, resource.Change{Attribute: firmwareOf, From: "the cards' own", To: "the bundle's, where it has a later one"})
		}
	}
	if len(out) == 0 && !reloads(s) {
		return nil
	}
	if want.Reboot {
		return append(out, resource.Change{Attribute: rebooting, From: "kernel " + got.System.Kernel, To: "with the new driver", Disruption: resource.Reboot})
	}
	return append(out, resource.Change{Attribute: driverReload, From: "the running one", To: "the installed one", Disruption: resource.DriverReload})
}
