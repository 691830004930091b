package facts

import (
	"slices"
	"strings"
)

// inboxPackages are what makes RDMA work from the distribution's own packages. ibverbs-providers has
// the user-space drivers: without it "no IB devices found" (rdma-core's packaging).
func inboxPackages(manager string) []string {
	switch manager {
	case APT:
		return []string{"ibverbs-providers", "ibverbs-utils", "rdma-core"}
	case DNF, YUM, Zypper:
		return []string{"libibverbs", "libibverbs-utils", "rdma-core"}
	}
	return nil
}

// buildPackages are what vendors' installers need: headers of the running kernel and what compiles
// modules, and what their tools are written in (MLNX_OFED's user manual, software prerequisites).
func buildPackages(manager, kernel string) []string {
	switch manager {
	case APT:
		return []string{"dkms", "gcc", HeadersPackage(manager, kernel), "lsof", "make", "pciutils", "perl"}
	case DNF, YUM:
		return []string{"gcc", "gcc-gfortran", HeadersPackage(manager, kernel), "lsof", "make", "pciutils", "perl", "tcl", "tk"}
	case Zypper:
		return []string{"gcc", HeadersPackage(manager, kernel), "lsof", "make", "pciutils", "perl", "tcl", "tk"}
	}
	return nil
}

// HeadersPackage is the package that has a kernel's headers, "name=version" where its name says no kernel; ""
// where none is known.
func HeadersPackage(manager, kernel string) string {
	switch manager {
	case APT:
		return "linux-headers-" + kernel
	case DNF, YUM:
		return "kernel-devel=" + rpmKernel(kernel)
	case Zypper:
		return "kernel-default-devel"
	}
	return ""
}

// rpmKernel is a kernel's version as its packages write it: uname's has the architecture behind it.
func rpmKernel(kernel string) string {
	if at := strings.LastIndexByte(kernel, '.'); at > 0 {
		return kernel[:at]
	}
	return kernel
}

// KernelPackage is the package that has kernel modules which the running kernel lacks, and whether
// the host must boot another kernel for them; "" where none is known.
func KernelPackage(r Release, manager string, sys System) (name string, reboot bool) {
	switch {
	case r.ID == "ubuntu":
		return "linux-modules-extra-" + sys.Kernel, false
	case manager == APT: // Debian's cloud kernels lack what its usual ones have
		return "linux-image-" + sys.Arch, true
	case (manager == DNF || manager == YUM) && strings.HasPrefix(r.Version, "8"): // later releases dropped rdma_rxe
		return "kernel-modules-extra=" + rpmKernel(sys.Kernel), false
	}
	return "", false
}

// wantedPackages are all that the wanted stack needs here of the distribution, "name=version" where one is pinned.
func (s *Stack) wantedPackages(sys System, needs *StackNeeds) []string {
	pinned := map[string]bool{}
	for _, p := range needs.Install {
		name, _, _ := strings.Cut(p, "=")
		pinned[name] = true
	}
	out := slices.Clone(needs.Install)
	base := inboxPackages(s.Manager)
	if !needs.Inbox {
		base = buildPackages(s.Manager, sys.Kernel)
	}
	if needs.Inbox && len(s.Missing) > 0 {
		if name, _ := KernelPackage(s.Release, s.Manager, sys); name != "" {
			base = append(base, name)
		}
	}
	for _, p := range base {
		if !pinned[p] {
			out = append(out, p)
		}
	}
	return compact(out, nil)
}

// Has says whether a package is installed whole, in the version that is pinned behind "=".
func (s *Stack) Has(wanted string) bool {
	name, version, pinned := strings.Cut(wanted, "=")
	p, there := s.Packages[name]
	return there && p.Unfinished == "" && (!pinned || p.Version == version)
}
