package ofed

import (
	"context"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/packagemanager"
	"github.com/fabricform/fabricform/resource"
)

// Names of the driver stacks in `ofed.stack`.
const (
	Inbox    = "inbox"
	MLNXOFED = "mlnx_ofed"
	DOCAOFED = "doca_ofed"
)

// needs says which facts of the driver stack to read. A query to a package manager can take seconds, so
// everything is read only on hosts with an `ofed` block.
type needs struct {
	// Inbox: the distribution's own stack is declared; the installation of its missing packages is simulated.
	Inbox bool
	// Vendor is the vendor's stack that is declared. If its installation is incomplete, the installation of its
	// build dependencies is simulated.
	Vendor string
	// Install are additional packages; "name=version" pins one.
	Install []string
	// Modules are kernel modules that the host needs.
	Modules []string
	// Full: read everything that an installation depends on, not only versions.
	Full bool
	// Reload: the driver may be reloaded, so look for its users.
	Reload bool
}

func compact(a, b []string) []string {
	out := slices.Concat(a, b)
	slices.Sort(out)
	return slices.Compact(out)
}

// Stack is a host's RDMA driver stack.
type Stack struct {
	Name     string                            `json:"name"`               // Inbox, MLNXOFED or DOCAOFED
	Version  string                            `json:"version,omitempty"`  // of a vendor's stack, as ofed_info prints it
	Release  packagemanager.Release            `json:"release"`            // of the distribution
	Manager  string                            `json:"manager,omitempty"`  // the package manager; "" when none is supported
	Packages map[string]packagemanager.Package `json:"packages,omitempty"` // the watched ones that are installed, and all unfinished ones
	Modules  []Module                          `json:"modules,omitempty"`  // those that are loaded or have a file

	// The following fields are read only with needs.Full.
	Missing   []string `json:"missing,omitempty"`   // needed modules that the running kernel lacks
	Wanted    []string `json:"wanted,omitempty"`    // packages of the inbox stack, or build dependencies of a vendor's
	Initramfs bool     `json:"initramfs,omitempty"` // the running kernel has an initramfs
	// the running kernel's headers are installed, so modules can be built
	Headers    bool                       `json:"headers,omitempty"`
	SecureBoot string                     `json:"secure_boot,omitempty"` // "on", "off", or "" when unknown, for example without UEFI
	RebootDue  string                     `json:"reboot_due,omitempty"`  // the reason; "" when no reboot is due
	Simulated  *packagemanager.Simulation `json:"simulated,omitempty"`   // installation of Wanted
	Job        *resource.Installation     `json:"job,omitempty"`         // the last installation, from its journal

	// Reload lists what prevents a reload of the driver; nil when not needed or when no driver is loaded.
	Reload *Reload `json:"reload,omitempty"`
}

// Module is a kernel module of the stack: the loaded one, and the file that would be loaded next.
type Module struct {
	Name   string   `json:"name"`
	Loaded string   `json:"loaded,omitempty"` // srcversion of the loaded module; "" when not loaded or when it has none
	Is     bool     `json:"is,omitempty"`     // loaded
	File   string   `json:"file,omitempty"`   // "" when the running kernel has none
	Source string   `json:"source,omitempty"` // srcversion of the file
	Signer string   `json:"signer,omitempty"` // of the file; "" when not signed
	Users  []string `json:"users,omitempty"`  // modules that hold it
}

// Differs reports whether the loaded module differs from the file that would be loaded.
func (m Module) Differs() bool {
	return m.Is && m.Loaded != "" && m.Source != "" && m.Loaded != m.Source
}

// Origin returns where a module's file comes from ("kernel", "dkms" or "vendor"), by its folder under /lib/modules.
func (m Module) Origin() string {
	switch {
	case m.File == "":
		return ""
	case m.File == "(builtin)" || strings.Contains(m.File, "/kernel/drivers/") || strings.Contains(m.File, "/kernel/net/"):
		return "kernel"
	case strings.Contains(m.File, "/dkms/"):
		return "dkms"
	}
	return "vendor"
}

// stackModules are the modules that tell stacks apart.
var stackModules = []string{"ib_core", "mlx5_core", "mlx5_ib", "nvidia_peermem", "rdma_rxe"}

// watched are the packages whose versions should be the same on all hosts.
var watched = []string{"ibverbs-providers", "libibverbs", "libibverbs1", "libnccl", "libnccl2", "mlnx-ofed-kernel-dkms",
	"mlnx-ofed-kernel-modules", "ofed-scripts", "perftest", "rdma-core", "doca-ofed", "doca-host"}

// versions returns the version of the stack and those of the watched packages.
func (s *Stack) versions() map[string]facts.Version {
	out := map[string]facts.Version{facts.DriverStack: {Installed: s.String()}}
	for _, name := range watched {
		if p, found := s.Packages[name]; found {
			out[name] = facts.Version{Installed: p.Version, Unfinished: p.Unfinished}
		}
	}
	return out
}

// stackPatience bounds the time that all programs of the host together may take to answer.
const stackPatience = 60 * time.Second

// readStack reads the driver stack. In a namespace lab this is the machine's own; facts.System.Lab says so.
func readStack(ctx context.Context, r host.Reader, sys facts.System, needs *needs) *Stack {
	ctx, cancel := context.WithTimeout(ctx, stackPatience)
	defer cancel()
	s := &Stack{Name: Inbox, Release: packagemanager.ParseRelease(host.Text(ctx, r, "/etc/os-release"))}
	manager := packagemanager.Find(ctx, r, s.Release)
	if manager != nil {
		s.Manager = manager.Name
	}
	if a, err := r.Inquire(ctx, "ofed_info", "-s"); err == nil {
		if name, version, ok := parseOFED(a.Stdout); ok {
			s.Name, s.Version = name, version
		}
	}
	names := slices.Clone(stackModules)
	if needs.Full {
		names = compact(names, needs.Modules)
	}
	s.Modules = loadedModules(ctx, r, names)
	if needs.Full {
		s.readFull(ctx, r, sys, needs, names)
	}
	if needs.Reload && slices.ContainsFunc(s.Modules, func(m Module) bool { return m.Is }) {
		s.Reload = stackReload(ctx, r)
	}
	asked := slices.Clone(watched)
	for _, p := range s.Wanted {
		name, _, _ := strings.Cut(p, "=")
		asked = append(asked, name)
	}
	if manager != nil {
		s.Packages = manager.Query(ctx, r, compact(asked, nil))
	}
	// Finishing an unfinished package may install others, so that is simulated too.
	if s.Lacking() || needs.Full && s.unfinished() {
		s.Simulated = packagemanager.Simulate(ctx, r, manager, s.Wanted)
	}
	return s
}

func (s *Stack) readFull(ctx context.Context, r host.Reader, sys facts.System, needs *needs, modules []string) {
	if a, err := r.Inquire(ctx, "modinfo", append([]string{"-k", sys.Kernel}, modules...)...); err == nil {
		s.Modules = withFiles(s.Modules, parseModinfo(a.Stdout))
	}
	for _, name := range needs.Modules {
		if s.Module(name) == nil {
			s.Missing = append(s.Missing, name)
		}
	}
	s.Job = resource.ReadJob(ctx, r, sys.BootID)
	// ofed_info may already name the vendor's stack although its build dependencies are missing.
	if needs.Inbox || needs.Vendor != "" && (s.Name != needs.Vendor || s.Job.InterruptedFor(needs.Vendor) != "") {
		s.Wanted = s.wantedPackages(sys, needs)
	}
	if _, err := r.ReadDir(ctx, path.Join("/lib/modules", sys.Kernel, "build")); err == nil {
		s.Headers = true
	}
	if _, err := r.Stat(ctx, "/boot/initrd.img-"+sys.Kernel); err == nil {
		s.Initramfs = true
	}
	s.SecureBoot = secureBoot(ctx, r)
	s.RebootDue = rebootDue(ctx, r, sys.Kernel)
}

// unfinished reports whether the installation of any package was interrupted.
func (s *Stack) unfinished() bool {
	for _, p := range s.Packages {
		if p.Unfinished != "" {
			return true
		}
	}
	return false
}

// Lacking reports whether a wanted package is missing or unfinished.
func (s *Stack) Lacking() bool {
	return slices.ContainsFunc(s.Wanted, func(p string) bool { return !s.Has(p) })
}

// Module returns the stack's module of that name, or nil when it is neither loaded nor installed.
func (s *Stack) Module(name string) *Module {
	for i := range s.Modules {
		if s.Modules[i].Name == name {
			return &s.Modules[i]
		}
	}
	return nil
}

// String returns the stack's name and version.
func (s *Stack) String() string {
	switch {
	case s == nil:
		return ""
	case s.Version != "":
		return s.Name + " " + s.Version
	}
	return s.Name
}

// KernelPackage returns the package with the kernel modules that the running kernel lacks, and whether
// the host must boot another kernel to use them. The name is "" when no such package is known.
func (s *Stack) KernelPackage(sys facts.System) (name string, reboot bool) {
	if m := packagemanager.Lookup(s.Manager); m != nil {
		return m.Kernel(s.Release, sys.Kernel, sys.Arch)
	}
	return "", false
}

// wantedPackages returns all packages of the distribution that the declared stack needs on this host,
// "name=version" for a pinned one.
func (s *Stack) wantedPackages(sys facts.System, needs *needs) []string {
	pinned := map[string]bool{}
	for _, p := range needs.Install {
		name, _, _ := strings.Cut(p, "=")
		pinned[name] = true
	}
	out := slices.Clone(needs.Install)
	var base []string
	switch m := packagemanager.Lookup(s.Manager); {
	case m == nil:
	case needs.Inbox:
		base = slices.Clone(m.RDMA)
		if name, _ := s.KernelPackage(sys); name != "" && len(s.Missing) > 0 {
			base = append(base, name)
		}
	default:
		base = append(slices.Clone(m.Build), m.Headers(sys.Kernel))
	}
	for _, p := range base {
		if !pinned[p] {
			out = append(out, p)
		}
	}
	return compact(out, nil)
}

// Has reports whether a package is completely installed, and in the version after "=" if one is given.
func (s *Stack) Has(wanted string) bool {
	name, version, pinned := strings.Cut(wanted, "=")
	p, there := s.Packages[name]
	return there && p.Unfinished == "" && (!pinned || p.Version == version)
}
