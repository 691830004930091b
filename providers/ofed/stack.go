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

// The driver stacks, as `ofed.stack` names them.
const (
	Inbox    = "inbox"
	MLNXOFED = "mlnx_ofed"
	DOCAOFED = "doca_ofed"
)

// needs is what of the driver stack is to be read. Asking package managers takes up to some
// seconds, so that only a host with an `ofed` block is asked for all.
type needs struct {
	// Inbox: the distribution's own stack is wanted, and what lacks of it is simulated.
	Inbox bool
	// Vendor is the vendor's stack that is wanted: where it is not there whole, what builds it is simulated.
	Vendor string
	// Install are further packages; "name=version" pins one.
	Install []string
	// Modules are kernel modules that the host needs.
	Modules []string
	// Full: beside versions, what an installation depends on.
	Full bool
	// Reload: the driver may be reloaded, and who is in the way of that is looked for.
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
	Version  string                            `json:"version,omitempty"`  // of a vendor's stack, as ofed_info says it
	Release  packagemanager.Release            `json:"release"`            // of the distribution
	Manager  string                            `json:"manager,omitempty"`  // of packages; "": none that is known
	Packages map[string]packagemanager.Package `json:"packages,omitempty"` // those that are looked at, where installed, and all unfinished ones
	Modules  []Module                          `json:"modules,omitempty"`  // those that are loaded or have a file

	// What follows is read with Full only.
	Missing    []string                   `json:"missing,omitempty"`     // needed modules that the running kernel has not
	Wanted     []string                   `json:"wanted,omitempty"`      // packages of the inbox stack, or those that build a vendor's
	Initramfs  bool                       `json:"initramfs,omitempty"`   // the running kernel has one
	Headers    bool                       `json:"headers,omitempty"`     // those of the running kernel are there, by which modules are built
	SecureBoot string                     `json:"secure_boot,omitempty"` // "on", "off"; "": not known, as without UEFI
	RebootDue  string                     `json:"reboot_due,omitempty"`  // why; "": it is not
	Simulated  *packagemanager.Simulation `json:"simulated,omitempty"`   // of installing what was needed
	Job        *resource.Job              `json:"job,omitempty"`         // the last installation, as its journal says

	// Reload is who is in the way of a reload; nil: not asked for, or no driver is loaded.
	Reload *Reload `json:"reload,omitempty"`
}

// Module is a kernel module of the stack: the one that runs, and the file that would be loaded.
type Module struct {
	Name   string   `json:"name"`
	Loaded string   `json:"loaded,omitempty"` // srcversion of the running one; "": not loaded, or it says none
	Is     bool     `json:"is,omitempty"`     // loaded
	File   string   `json:"file,omitempty"`   // "": none for the running kernel
	Source string   `json:"source,omitempty"` // srcversion of the file
	Signer string   `json:"signer,omitempty"` // of the file; "": nobody
	Users  []string `json:"users,omitempty"`  // modules that hold it
}

// Differs says whether another module runs than would be loaded.
func (m Module) Differs() bool {
	return m.Is && m.Loaded != "" && m.Source != "" && m.Loaded != m.Source
}

// Origin is where a module's file comes from, by the folder that depmod.d(5) prefers.
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

// stackModules are the modules by which stacks differ.
var stackModules = []string{"ib_core", "mlx5_core", "mlx5_ib", "nvidia_peermem", "rdma_rxe"}

// watched are the packages whose versions matter between hosts.
var watched = []string{"ibverbs-providers", "libibverbs", "libibverbs1", "libnccl", "libnccl2", "mlnx-ofed-kernel-dkms", "mlnx-ofed-kernel-modules", "ofed-scripts", "perftest", "rdma-core", "doca-ofed", "doca-host"}

// versions are the stack's and those of the watched packages.
func (s *Stack) versions() map[string]facts.Version {
	out := map[string]facts.Version{facts.DriverStack: {Installed: s.String()}}
	for _, name := range watched {
		if p, found := s.Packages[name]; found {
			out[name] = facts.Version{Installed: p.Version, Unfinished: p.Unfinished}
		}
	}
	return out
}

// stackPatience bounds all questions of one reading to programs of the host.
const stackPatience = 60 * time.Second

// readStack reads the driver stack. A namespace lab shares its machine's, and is told so by facts.System.Lab.
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
	if s.Lacking() || needs.Full && s.unfinished() { // also what finishes others may bring further ones
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
	// What tells of a vendor's stack may be there, and what builds its modules not.
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

// unfinished says whether an installation of any package broke off.
func (s *Stack) unfinished() bool {
	for _, p := range s.Packages {
		if p.Unfinished != "" {
			return true
		}
	}
	return false
}

// Lacking says whether a wanted package is not there whole.
func (s *Stack) Lacking() bool {
	return slices.ContainsFunc(s.Wanted, func(p string) bool { return !s.Has(p) })
}

// Module is the stack's module of that name; nil where it is neither loaded nor installed.
func (s *Stack) Module(name string) *Module {
	for i := range s.Modules {
		if s.Modules[i].Name == name {
			return &s.Modules[i]
		}
	}
	return nil
}

// String names the stack as people do.
func (s *Stack) String() string {
	switch {
	case s == nil:
		return ""
	case s.Version != "":
		return s.Name + " " + s.Version
	}
	return s.Name
}

// KernelPackage is the package that has kernel modules which the running kernel lacks, and whether
// the host must boot another kernel for them; "" where none is known.
func (s *Stack) KernelPackage(sys facts.System) (name string, reboot bool) {
	if m := packagemanager.Lookup(s.Manager); m != nil {
		return m.Kernel(s.Release, sys.Kernel, sys.Arch)
	}
	return "", false
}

// wantedPackages are all that the wanted stack needs here of the distribution, "name=version" where one is pinned.
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

// Has says whether a package is installed whole, in the version that is pinned behind "=".
func (s *Stack) Has(wanted string) bool {
	name, version, pinned := strings.Cut(wanted, "=")
	p, there := s.Packages[name]
	return there && p.Unfinished == "" && (!pinned || p.Version == version)
}
