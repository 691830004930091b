package packagemanager

import (
	"context"
	"strings"

	"github.com/fabricform/fabricform/host"
)

// dnf is the package manager of Red Hat, and yum is its predecessor.
var (
	dnf = redHat("dnf", []string{"--setopt=install_weak_deps=False"}, []string{"--allowerasing"})
	yum = redHat("yum", nil, nil)
)

// redHat returns a manager with the command line of dnf. The options in slim leave out weak dependencies, and those
// in erase let the manager remove conflicting packages.
func redHat(name string, slim, erase []string) *Manager {
	install := func(packages []string) []string {
		out := append(append([]string{"install"}, slim...), "--")
		for _, p := range packages { // dnf writes a version after a hyphen
			out = append(out, strings.Replace(p, "=", "-", 1))
		}
		return out
	}
	return &Manager{
		Name: name, Program: name, Of: func(r Release) bool { return !r.debian() && !r.suse() },
		Query: queryRPM,
		Simulate: func(ctx context.Context, r host.Reader, packages []string) (host.Answer, error) {
			// Without -C, dnf would fetch package lists, and a simulation must not change anything. With -q, it
			// would not print the steps.
			return r.Inquire(ctx, name, append([]string{"--assumeno", "-C"}, install(packages)...)...)
		},
		Parse: parseDNF, Unread: "Cache-only enabled but no cache", // printed before any list was fetched
		Refuses: func(a host.Answer, steps []PackageStep) bool { // with --assumeno, dnf exits with 1 if there is anything to do
			return a.Exit != 0 && len(steps) == 0
		},
		Install: func(o Order) []Step {
			var out []Step
			if o.Refresh {
				out = append(out, Step{command(name, "-y", "makecache"), false})
			}
			if len(o.Install) > 0 {
				args := []string{"-y"}
				if len(o.Remove) > 0 { // install accepts no names to remove, but can remove conflicting packages
					args = append(args, erase...)
				}
				out = append(out, Step{command(name, append(args, install(o.Install)...)...), false})
			}
			return out
		},
		FromBundle: func(file, pkg string) []host.Command {
			return []host.Command{upgradeRPM(file), command(name, "clean", "all"), command(name, "-y", "install", "--", pkg)}
		},
		Initramfs: dracut,
		RDMA:      rpmRDMA,
		Build:     []string{"gcc", "gcc-gfortran", "lsof", "make", "pciutils", "perl", "tcl", "tk"},
		Headers:   func(kernel string) string { return "kernel-devel=" + rpmKernel(kernel) },
		Kernel: func(r Release, kernel, _ string) (string, bool) {
			if strings.HasPrefix(r.Version, "8") { // later releases dropped rdma_rxe
				return "kernel-modules-extra=" + rpmKernel(kernel), false
			}
			return "", false
		},
	}
}

// rpmKernel returns the version of a kernel's packages: the release that uname prints, without the architecture.
func rpmKernel(kernel string) string {
	if at := strings.LastIndexByte(kernel, '.'); at > 0 {
		return kernel[:at]
	}
	return kernel
}

// parseDNF parses the table of dnf and yum. A name that is too long for its column is alone on its line.
func parseDNF(said string) []PackageStep {
	var out []PackageStep
	section, name := "", ""
	for line := range strings.Lines(said) {
		line = strings.TrimRight(line, "\r\n")
		switch f := strings.Fields(line); {
		case strings.HasPrefix(line, "Transaction Summary"):
			return sorted(out)
		case line != "" && line[0] != ' ' && strings.HasSuffix(line, ":"):
			section, name = strings.TrimSuffix(line, ":"), ""
		case !strings.HasPrefix(line, " ") || section == "" || len(f) == 0:
		case len(f) == 1:
			name = f[0]
		case f[0] == "replacing" && len(f) > 2: // "replacing NAME.ARCH VERSION"
			name := f[1][:max(strings.LastIndexByte(f[1], '.'), 1)] // without the architecture
			out = append(out, PackageStep{Name: name, From: f[2]})
		default:
			if name != "" {
				f = append([]string{name}, f...)
			}
			name = ""
			if len(f) < 4 {
				continue
			}
			step := PackageStep{Name: f[0], To: f[2]}
			if strings.HasPrefix(section, "Removing") {
				step = PackageStep{Name: f[0], From: f[2]}
			}
			out = append(out, step)
		}
	}
	return sorted(out)
}
