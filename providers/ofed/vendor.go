package ofed

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
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
	if is(want, s) {
		return refuseReload(got, want)
	}
	b, ok := fabric.ParseBundle(want.Bundle)
	switch {
	case !ok:
		return fmt.Errorf("this host has %s, and the block names no bundle to install %s from", s, want.Stack)
	case s.Name != facts.Inbox && s.Name != want.Stack:
		return fmt.Errorf("%s is installed here: remove it first (`/usr/sbin/ofed_uninstall.sh --force`, then reboot), and plan again", s)
	case s.Manager == "":
		return fmt.Errorf("this host (%s %s) has no package manager that is known: apt, dnf, yum or zypper", s.Release.ID, s.Release.Version)
	}
	if why := fits(b, s.Release, got.System); why != "" {
		return fmt.Errorf("%s does not fit this host: %s", want.Bundle, why)
	}
	if err := refusePackages(s); err != nil {
		return err
	}
	return refuseReload(got, want)
}

// own are modules of a stack, which openibd unloads and loads together.
var own = []string{"ib_", "iw_", "mlx", "rdma_cm", "rdma_ucm", "mst_"}

// refuseReload says who keeps the driver from being reloaded, where the host may not be restarted.
func refuseReload(got *Status, want Spec) error {
	if want.Reboot || is(want, got.Stack) && !stale(got.Stack) {
		return nil
	}
	var busy []string
	for _, m := range got.Stack.Modules {
		for _, u := range m.Users {
			if !slices.ContainsFunc(own, func(p string) bool { return strings.HasPrefix(u, p) }) {
				busy = append(busy, u)
			}
		}
	}
	if slices.Sort(busy); len(busy) > 0 {
		return fmt.Errorf("the driver cannot be reloaded while %s uses it: set reboot = \"allow\" in the ofed block, or unload it first", strings.Join(slices.Compact(busy), ", "))
	}
	return nil
}

// is says whether the wanted stack is installed.
func is(want Spec, s *facts.Stack) bool {
	if s.Name != want.Stack {
		return false
	}
	b, _ := fabric.ParseBundle(want.Bundle)
	switch {
	case want.Bundle != "" && want.Stack == facts.DOCAOFED: // ofed_info tells the OFED, not DOCA
		return strings.HasPrefix(s.Version, b.OFED+"-") || s.Version == b.OFED
	case want.Bundle != "":
		return s.Version == b.Version
	}
	return want.Version == "" || s.Version == want.Version
}

// Installs says whether changes install a bundle, which the host must have before.
func Installs(changes []resource.Change) bool {
	return slices.ContainsFunc(changes, func(c resource.Change) bool { return c.Attribute == stackOf })
}

// stale says whether another driver runs than is installed.
func stale(s *facts.Stack) bool {
	return slices.ContainsFunc(s.Modules, func(m facts.StackModule) bool {
		return m.Differs() && (strings.HasPrefix(m.Name, "mlx5") || m.Name == "ib_core")
	})
}

// diffVendor is what an installation of the bundle does.
func diffVendor(want Spec, got *Status) []resource.Change {
	s := got.Stack
	var out []resource.Change
	if !is(want, s) {
		b, _ := fabric.ParseBundle(want.Bundle)
		out = diffPackages(s)
		out = append(out, resource.Change{Attribute: stackOf, From: s.String(), To: want.Stack + " " + b.Version})
		var goes []string
		for _, name := range slices.Sorted(maps.Keys(s.Packages)) {
			if facts.OfStack(name) && !strings.HasPrefix(name, "libnccl") && s.Name == facts.Inbox {
				goes = append(goes, name)
			}
		}
		if len(goes) > 0 {
			out = append(out, resource.Change{Attribute: replaced, From: strings.Join(goes, ", "), To: "the bundle's"})
		}
		if want.Firmware {
			out = append(out, resource.Change{Attribute: firmwareOf, From: "the cards' own", To: "the bundle's, where it has a later one"})
		}
	}
	if len(out) == 0 && !stale(s) {
		return nil
	}
	if want.Reboot {
		return append(out, resource.Change{Attribute: rebooting, From: "kernel " + got.System.Kernel, To: "with the new driver", Disruption: resource.Reboot})
	}
	return append(out, resource.Change{Attribute: driverReload, From: "the running one", To: "the installed one", Disruption: resource.DriverReload})
}
