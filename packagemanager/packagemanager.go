// Package packagemanager is the table of package managers. Each is one row of All, which says what distributions it
// serves, which packages are installed, what an installation would do, and which commands do it. Other packages use
// the row and do not depend on the name of a manager.
package packagemanager

import (
	"context"
	"errors"
	"fmt"
	"html"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/fabricform/fabricform/host"
)

// All lists the supported package managers. A host uses the first one that serves its distribution and whose program
// exists.
var All = []*Manager{apt, dnf, yum, zypper}

// Manager is one package manager.
type Manager struct {
	Name    string // as messages write it
	Program string
	// Of reports whether the manager serves a distribution. The program alone is no proof: apt-get can be installed
	// on Red Hat, too.
	Of func(Release) bool

	// Query returns the installed versions of the wanted packages, and all unfinished packages.
	Query func(ctx context.Context, r host.Reader, wanted []string) map[string]Package
	// Simulate asks what an installation of packages would do; "name=version" pins one. It changes nothing, not even
	// the package lists.
	Simulate func(ctx context.Context, r host.Reader, packages []string) (host.Answer, error)
	// Parse returns the steps in an answer of Simulate.
	Parse func(said string) []PackageStep
	// Refuses reports whether an answer without unknown packages is an error.
	Refuses func(a host.Answer, steps []PackageStep) bool
	// Unread is the manager's message when it has no package lists; "" if it reports unknown packages instead.
	Unread string

	// Install returns the commands that carry out an order, in sequence.
	Install func(Order) []Step
	// FromBundle returns the commands that install a package from the repository in a bundle's file.
	FromBundle func(file, name string) []host.Command
	// Initramfs returns the command that rebuilds the initramfs of a kernel; there says whether one exists.
	Initramfs func(kernel string, there bool) host.Command
	// Meanings explain the manager's error messages.
	Meanings []Meaning

	// RDMA are the distribution's packages for RDMA. One of them has the user-space drivers; without it, programs
	// report "no IB devices found" (rdma-core's packaging).
	RDMA []string
	// Build are the packages that vendors' installers need in addition to the kernel's headers: to compile modules
	// and to run their own tools (MLNX_OFED's user manual, software prerequisites).
	Build []string
	// Headers returns the package with a kernel's headers, as "name=version" if the name does not contain the kernel.
	Headers func(kernel string) string
	// Kernel returns the package with the kernel modules that the running kernel lacks, and whether the host
	// must boot another kernel to use them. The name is "" when no such package is known.
	Kernel func(r Release, kernel, arch string) (name string, reboot bool)
}

// Order lists the packages to install and remove, and the preparations.
type Order struct {
	Finish    bool // an earlier installation was interrupted
	Reinstall bool // an installed package may lack files
	Refresh   bool // update the package lists first
	Install   []string
	Remove    []string
}

// Step is a command of an order.
type Step struct {
	host.Command
	// Finishes says that the command completes an earlier installation. It may fail for lack of a package that a later
	// command installs.
	Finishes bool
}

// Meaning explains error messages of a package manager.
type Meaning struct {
	Words   []string
	Meaning string
}

// Lookup returns the manager of that name; nil if it is not supported.
func Lookup(name string) *Manager {
	if i := slices.IndexFunc(All, func(m *Manager) bool { return m.Name == name }); i >= 0 {
		return All[i]
	}
	return nil
}

// Known returns the names of all managers as a phrase: "apt, dnf, yum or zypper".
func Known() string {
	var out []string
	for _, m := range All {
		out = append(out, m.Name)
	}
	last := len(out) - 1
	return strings.Join(out[:last], ", ") + " or " + out[last]
}

// Find returns the host's package manager; nil if none is supported.
func Find(ctx context.Context, r host.Reader, release Release) *Manager {
	for _, m := range All {
		if _, err := r.Stat(ctx, "/usr/bin/"+m.Program); err == nil && m.Of(release) {
			return m
		}
	}
	return nil
}

// Explain explains an error message of a package manager; "" if the message is not known.
func Explain(said string) string {
	for _, m := range All {
		for _, meaning := range m.Meanings {
			if slices.ContainsFunc(meaning.Words, func(w string) bool { return strings.Contains(said, w) }) {
				return meaning.Meaning
			}
		}
	}
	return ""
}

// Quiet are environment variables that suppress the questions of debconf, needrestart (Ubuntu) and apt-listchanges,
// and that make zypper wait for its lock.
var Quiet = []string{"DEBIAN_FRONTEND=noninteractive", "DEBCONF_NONINTERACTIVE_SEEN=true", "NEEDRESTART_SUSPEND=1",
	"APT_LISTCHANGES_FRONTEND=none", "ZYPP_LOCK_TIMEOUT=300"}

// HalfInstalled is the state of a package whose unpacking was interrupted. `dpkg --configure` skips such a package,
// and `apt-get --fix-broken` removes it unless the command names it.
const HalfInstalled = "half-installed"

// Release is the distribution, from os-release(5).
type Release struct {
	ID      string   `json:"id"`                // "debian", "ubuntu", "rhel", …
	Version string   `json:"version,omitempty"` // VERSION_ID: "12", "22.04", "9.4"
	Like    []string `json:"like,omitempty"`    // ID_LIKE
	Variant string   `json:"variant,omitempty"` // VERSION: "22.03 (LTS-SP3)"
}

// Package is an installed package.
type Package struct {
	Version string `json:"version"`
	// Unfinished is the state after an interrupted installation: "half-configured", "unpacked", …
	Unfinished string `json:"unfinished,omitempty"`
}

// debian reports whether the distribution's packages are .deb files.
func (r Release) debian() bool {
	return r.ID == "debian" || r.ID == "ubuntu" || slices.Contains(r.Like, "debian") || slices.Contains(r.Like, "ubuntu")
}

// ParseRelease parses os-release(5).
func ParseRelease(text string) Release {
	var r Release
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if !ok {
			continue
		}
		value = strings.Trim(value, `"'`)
		switch key {
		case "ID":
			r.ID = value
		case "VERSION_ID":
			r.Version = value
		case "ID_LIKE":
			r.Like = strings.Fields(value)
		case "VERSION":
			r.Variant = value
		}
	}
	return r
}

// Simulation lists what a package manager would do with its current package lists.
type Simulation struct {
	Steps  []PackageStep `json:"steps,omitempty"`
	Failed string        `json:"failed,omitempty"` // the manager's message, if it cannot install the packages
	// Unknown lists packages that are not in its package lists, which may be out of date or empty.
	Unknown []string `json:"unknown,omitempty"`
}

// PackageStep is a package that would be installed (no From), changed, or removed (no To).
type PackageStep struct {
	Name string `json:"name"`
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
}

// Simulate returns what a manager would do to install packages; m may be nil.
func Simulate(ctx context.Context, r host.Reader, m *Manager, packages []string) *Simulation {
	if m == nil {
		return &Simulation{Failed: "this host has no supported package manager; supported are " + Known()}
	}
	a, err := m.Simulate(ctx, r, packages)
	if err != nil {
		if errors.Is(err, host.ErrNoProgram) {
			return &Simulation{Failed: m.Name + " is not installed"}
		}
		return &Simulation{Failed: err.Error()}
	}
	s := m.parseSimulation(a)
	if m.Unread != "" && strings.Contains(s.Failed, m.Unread) {
		return &Simulation{Unknown: names(packages)}
	}
	return s
}

// parseSimulation parses the manager's answer.
func (m *Manager) parseSimulation(a host.Answer) *Simulation {
	s := &Simulation{Unknown: unknown(html.UnescapeString(a.Stdout + "\n" + a.Stderr)), Steps: m.Parse(a.Stdout)} // zypper writes XML
	if m.Refuses(a, s.Steps) && len(s.Unknown) == 0 {
		s.Failed = lastWords(a)
	}
	return s
}

// ended reports whether a program failed. It is Manager.Refuses of managers whose exit status is reliable.
func ended(a host.Answer, _ []PackageStep) bool { return a.Exit != 0 }

// names returns the packages' names without pinned versions.
func names(packages []string) []string {
	out := make([]string, 0, len(packages))
	for _, p := range packages {
		name, _, _ := strings.Cut(p, "=")
		out = append(out, name)
	}
	return out
}

func lastWords(a host.Answer) string {
	said := strings.TrimSpace(a.Stderr)
	if said == "" {
		said = strings.TrimSpace(a.Stdout)
	}
	lines := strings.Split(said, "\n")
	said = strings.Join(lines[max(0, len(lines)-6):], "; ")
	if said == "" {
		return fmt.Sprintf("exit status %d without output", a.Exit)
	}
	return said
}

// unknownPackage matches the messages of package managers about a package that is not in their lists.
var unknownPackage = sync.OnceValue(func() []*regexp.Regexp {
	return []*regexp.Regexp{
		regexp.MustCompile(`(?m)^E: Unable to locate package (\S+)$`),
		regexp.MustCompile(`(?m)^E: Package '?([^\s']+)'? has no installation candidate$`),
		regexp.MustCompile(`(?m)^(?:No match for argument|No package found for): (\S+)`),
		regexp.MustCompile(`(?m)^No package (\S+) available`),
		regexp.MustCompile(`(?m)'([^'\s]+)' not found in package names`),
	}
})

func unknown(said string) []string {
	var out []string
	for _, re := range unknownPackage() {
		for _, m := range re.FindAllStringSubmatch(said, -1) {
			out = append(out, m[1])
		}
	}
	return compact(out)
}

func sorted(steps []PackageStep) []PackageStep {
	slices.SortFunc(steps, func(a, b PackageStep) int { return strings.Compare(a.Name, b.Name) })
	return slices.Compact(steps)
}

func compact(in []string) []string {
	slices.Sort(in)
	return slices.Compact(in)
}

const busy = "another package manager was busy for five minutes: wait until it ends, and apply again"

// command returns a command that asks no questions.
func command(name string, args ...string) host.Command {
	return host.Command{Name: name, Args: args, Env: Quiet}
}
