package packagemanager

import (
	"context"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/fabricform/fabricform/host"
)

// apt installs .deb files, which dpkg unpacks and configures.
var apt = &Manager{
	Name: "apt", Program: "apt-get", Of: Release.debian,
	Query: func(ctx context.Context, r host.Reader, wanted []string) map[string]Package {
		return parseDpkg(dpkgStatus(ctx, r), wanted)
	},
	Simulate: simulateAPT, Parse: parseAPT, Refuses: ended, Install: installAPT,
	FromBundle: func(file, name string) []host.Command {
		return []host.Command{
			command("dpkg", "--force-confdef", "--force-confold", "--install", file),
			aptUpdate(),
			command("apt-get", aptArguments("install", "--", name)...),
		}
	},
	Initramfs: func(kernel string, there bool) host.Command {
		how := "-u"
		if !there {
			how = "-c"
		}
		return host.Command{Name: "update-initramfs", Args: []string{how, "-k", kernel}}
	},
	Meanings: []Meaning{
		{[]string{"Could not get lock"}, busy},
		{[]string{"404  Not Found", "Failed to fetch"}, "cannot fetch a package: " +
			"the package lists are out of date (run `apt-get update` on the host and plan again), or the repository is unreachable"},
		{[]string{"Packages need to be removed but remove is disabled"},
			"apt would remove packages that the plan did not show: plan again"},
	},
	RDMA:    []string{"ibverbs-providers", "ibverbs-utils", "rdma-core"},
	Build:   []string{"dkms", "gcc", "lsof", "make", "pciutils", "perl"},
	Headers: func(kernel string) string { return "linux-headers-" + kernel },
	Kernel: func(r Release, kernel, arch string) (string, bool) {
		if r.ID == "ubuntu" {
			return "linux-modules-extra-" + kernel, false
		}
		return "linux-image-" + arch, true // Debian's cloud kernels lack modules that its standard kernels have
	},
}

// aptInstall returns apt-get's arguments that install packages, for a simulation too.
func aptInstall(packages []string) []string {
	return append([]string{"install", "--no-install-recommends", "--"}, packages...)
}

func aptUpdate() host.Command {
	return command("apt-get", "--quiet", "-o", "DPkg::Lock::Timeout=300", "update")
}

// installAPT first finishes an interrupted installation, which may have left unmet dependencies. apt installs them
// if it gets no package names; with names it refuses.
func installAPT(o Order) []Step {
	var out []Step
	if o.Finish {
		out = append(out, Step{command("dpkg", "--force-confdef", "--force-confold", "--configure", "--pending"), true})
	}
	if o.Refresh {
		out = append(out, Step{aptUpdate(), false})
	}
	if o.Finish {
		out = append(out, Step{command("apt-get", aptArguments(append([]string{"--fix-broken", "--no-remove"},
			aptInstall(nil)...)...)...), true})
	}
	packages := slices.Clone(o.Install)
	for _, name := range o.Remove {
		packages = append(packages, name+"-")
	}
	if len(packages) == 0 {
		return out
	}
	how := []string{"--allow-downgrades"}
	if o.Reinstall {
		how = append(how, "--reinstall")
	}
	if len(o.Remove) == 0 { // the plan shows no removal, so apt must not remove anything
		how = append(how, "--no-remove")
	}
	return append(out, Step{command("apt-get", aptArguments(append(how, aptInstall(packages)...)...)...), false})
}

// aptArguments adds options that suppress questions, keep an administrator's changes in configuration files (dpkg(1), confold), and
// wait for the lock.
func aptArguments(args ...string) []string {
	return append([]string{"--yes", "--quiet", "-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold",
		"-o", "DPkg::Lock::Timeout=300"}, args...)
}

// simulateAPT simulates with apt. If an earlier installation left unmet dependencies, apt accepts other packages only
// together with the missing ones, which it finds if it gets no package names.
func simulateAPT(ctx context.Context, r host.Reader, packages []string) (host.Answer, error) {
	ask := func(packages []string) (host.Answer, error) {
		return r.Inquire(ctx, "apt-get", append([]string{"--simulate", "--quiet", "--fix-broken", "-o", "Debug::NoLocking=true"},
			aptInstall(packages)...)...)
	}
	a, err := ask(packages)
	if err != nil || !strings.Contains(a.Stderr, "E: Unmet dependencies.") {
		return a, err
	}
	closing, err := ask(nil)
	if err != nil || closing.Exit != 0 {
		return closing, err
	}
	all := slices.Clone(packages)
	for _, step := range parseAPT(closing.Stdout) {
		if step.To != "" {
			all = append(all, step.Name+"="+step.To)
		}
	}
	return ask(all)
}

// aptLine is "Inst NAME [OLD] (NEW …)" or "Remv NAME [OLD]" of apt-get(8) --simulate.
var aptLine = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(Inst|Remv|Purg) (\S+)(?: \[([^\]\s]+)\])?(?: \((\S+))?`)
})

func parseAPT(said string) []PackageStep {
	var out []PackageStep
	for line := range strings.Lines(said) {
		m := aptLine().FindStringSubmatch(strings.TrimSpace(line))
		if m == nil || m[1] == "Inst" && m[4] == "" || m[1] != "Inst" && m[3] == "" {
			continue
		}
		if m[1] != "Inst" {
			m[4] = ""
		}
		out = append(out, PackageStep{Name: m[2], From: m[3], To: m[4]})
	}
	return sorted(out)
}

// parseDpkg parses /var/lib/dpkg/status, followed by the updates that dpkg has not merged into it yet. It returns the
// wanted packages that are installed, and all packages whose installation was interrupted.
func parseDpkg(status string, wanted []string) map[string]Package {
	states := map[[2]string]Package{} // by name and architecture: a package may be installed for two
	for stanza := range strings.SplitSeq(status, "\n\n") {
		var k [2]string
		var state, version string
		for line := range strings.Lines(stanza) {
			switch field, value, _ := strings.Cut(line, ":"); field {
			case "Package":
				k[0] = strings.TrimSpace(value)
			case "Architecture":
				k[1] = strings.TrimSpace(value)
			case "Status": // want, error flag, state: dpkg(1)
				if f := strings.Fields(value); len(f) == 3 {
					state = f[2]
				}
			case "Version":
				version = strings.TrimSpace(value)
			}
		}
		if state == "installed" {
			state = ""
		}
		delete(states, k)
		if k[0] != "" && state != "not-installed" && state != "config-files" {
			states[k] = Package{version, state}
		}
	}
	out := map[string]Package{}
	for _, k := range slices.SortedFunc(maps.Keys(states), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		p, name := states[k], k[0]
		// A package may be installed for several architectures: report it as unfinished if it is for any of them.
		if p.Unfinished != "" || slices.Contains(wanted, name) && out[name].Unfinished == "" {
			out[name] = p
		}
	}
	return out
}

// dpkgStatus returns dpkg's status file, followed by the files in its updates folder. dpkg merges these when it ends,
// so they are left over when it was interrupted (dpkg's modstatdb).
func dpkgStatus(ctx context.Context, r host.Reader) string {
	const dir = "/var/lib/dpkg"
	all := []string{host.Text(ctx, r, dir+"/status")}
	updates, err := r.ReadDir(ctx, dir+"/updates")
	if err != nil {
		return all[0] // dpkg has never written an update
	}
	slices.Sort(updates) // the names are numbers with leading zeros
	for _, n := range updates {
		if n[0] >= '0' && n[0] <= '9' { // any other file is still being written
			all = append(all, host.Text(ctx, r, path.Join(dir, "updates", n)))
		}
	}
	return strings.Join(all, "\n\n")
}
