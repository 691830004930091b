package facts

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"regexp"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/host"
)

// Simulation is what a package manager would do, by the lists of packages that it has now.
type Simulation struct {
	Steps  []PackageStep `json:"steps,omitempty"`
	Failed string        `json:"failed,omitempty"` // its own words, where it cannot
	// Unknown are packages that it has not heard of: its lists may be old, or none were ever read.
	Unknown []string `json:"unknown,omitempty"`
}

// PackageStep is a package that would be installed (no From), changed, or removed (no To).
type PackageStep struct {
	Name string `json:"name"`
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
}

// InstallArguments are the arguments by which a package manager installs packages, "name=version"
// where one is pinned, before any that make it simulate.
func InstallArguments(manager string, packages []string) []string {
	switch manager {
	case APT:
		return append([]string{"install", "--no-install-recommends", "--"}, packages...)
	case Zypper:
		return append([]string{"--no-recommends", "--"}, packages...)
	}
	out := []string{"install", "--setopt=install_weak_deps=False", "--"}
	if manager == YUM {
		out = []string{"install", "--"}
	}
	for _, p := range packages { // dnf writes a version behind a hyphen
		out = append(out, strings.Replace(p, "=", "-", 1))
	}
	return out
}

func simulate(ctx context.Context, r host.Reader, manager string, packages []string) *Simulation {
	var a host.Answer
	var err error
	args := InstallArguments(manager, packages)
	switch manager {
	case APT:
		a, err = simulateAPT(ctx, r, packages)
	case DNF, YUM:
		// Without -C it would fetch lists, which is no looking; with -q it says nothing of what it would do.
		a, err = r.Inquire(ctx, manager, append([]string{"--assumeno", "-C"}, args...)...)
	case Zypper:
		a, err = r.Inquire(ctx, "zypper", append([]string{"--non-interactive", "--xmlout", "--no-refresh", "install", "--dry-run"}, args...)...)
	default:
		return &Simulation{Failed: "this host has no package manager that is known (apt, dnf, yum, zypper)"}
	}
	if err != nil {
		if errors.Is(err, host.ErrNoProgram) {
			return &Simulation{Failed: manager + " is not there"}
		}
		return &Simulation{Failed: err.Error()}
	}
	s := ParseSimulation(manager, a)
	if strings.Contains(s.Failed, "Cache-only enabled but no cache") { // dnf has read no list yet
		return &Simulation{Unknown: names(packages)}
	}
	return s
}

// simulateAPT asks apt. Where an earlier installation left dependencies open, apt takes no other package
// but together with those that close them, which it finds where it is asked for none.
func simulateAPT(ctx context.Context, r host.Reader, packages []string) (host.Answer, error) {
	ask := func(packages []string) (host.Answer, error) {
		return r.Inquire(ctx, "apt-get", append([]string{"--simulate", "--quiet", "--fix-broken", "-o", "Debug::NoLocking=true"}, InstallArguments(APT, packages)...)...)
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

// names are packages without the versions that are pinned.
func names(packages []string) []string {
	out := make([]string, 0, len(packages))
	for _, p := range packages {
		name, _, _ := strings.Cut(p, "=")
		out = append(out, name)
	}
	return out
}

// ParseSimulation reads a package manager's answer.
func ParseSimulation(manager string, a host.Answer) *Simulation {
	s := &Simulation{Unknown: unknown(html.UnescapeString(a.Stdout + "\n" + a.Stderr))} // zypper's is XML
	switch manager {
	case APT:
		s.Steps = parseAPT(a.Stdout)
	case Zypper:
		s.Steps = parseZypper(a.Stdout)
	default:
		s.Steps = parseDNF(a.Stdout)
	}
	// dnf's --assumeno ends with 1 where there is something to do.
	refused := a.Exit != 0 && (manager == APT || manager == Zypper || len(s.Steps) == 0)
	if refused && len(s.Unknown) == 0 {
		s.Failed = lastWords(a)
	}
	return s
}

func lastWords(a host.Answer) string {
	said := strings.TrimSpace(a.Stderr)
	if said == "" {
		said = strings.TrimSpace(a.Stdout)
	}
	lines := strings.Split(said, "\n")
	said = strings.Join(lines[max(0, len(lines)-6):], "; ")
	if said == "" {
		return fmt.Sprintf("it ended with %d and said nothing", a.Exit)
	}
	return said
}

// unknownPackage are the ways in which package managers say that they have not heard of one.
var unknownPackage = []*regexp.Regexp{
	regexp.MustCompile(`(?m)^E: Unable to locate package (\S+)$`),
	regexp.MustCompile(`(?m)^E: Package '?([^\s']+)'? has no installation candidate$`),
	regexp.MustCompile(`(?m)^(?:No match for argument|No package found for): (\S+)`),
	regexp.MustCompile(`(?m)^No package (\S+) available`),
	regexp.MustCompile(`(?m)'([^'\s]+)' not found in package names`),
}

func unknown(said string) []string {
	var out []string
	for _, re := range unknownPackage {
		for _, m := range re.FindAllStringSubmatch(said, -1) {
			out = append(out, m[1])
		}
	}
	return compact(out, nil)
}

// aptLine is "Inst NAME [OLD] (NEW …)" or "Remv NAME [OLD]" of apt-get(8) --simulate.
var aptLine = regexp.MustCompile(`^(Inst|Remv|Purg) (\S+)(?: \[([^\]\s]+)\])?(?: \((\S+))?`)

func parseAPT(said string) []PackageStep {
	var out []PackageStep
	for line := range strings.Lines(said) {
		m := aptLine.FindStringSubmatch(strings.TrimSpace(line))
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

// parseDNF reads the table of dnf and yum. A name that is too long for its column stands on a line of
// its own.
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
			out = append(out, PackageStep{Name: f[1][:max(strings.LastIndexByte(f[1], '.'), 1)], From: f[2]})
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

// zypperSummary is the install-summary of `zypper --xmlout` (zypper's xmlout.rnc).
type zypperSummary struct {
	Groups []struct {
		XMLName   xml.Name
		Solvables []struct {
			Kind string `xml:"type,attr"`
			Name string `xml:"name,attr"`
			New  string `xml:"edition,attr"`
			Old  string `xml:"edition-old,attr"`
		} `xml:"solvable"`
	} `xml:",any"`
}

func parseZypper(said string) []PackageStep {
	var stream struct {
		Summary zypperSummary `xml:"install-summary"`
	}
	if xml.Unmarshal([]byte(said), &stream) != nil {
		return nil
	}
	var out []PackageStep
	for _, g := range stream.Summary.Groups {
		for _, p := range g.Solvables {
			step := PackageStep{Name: p.Name, From: p.Old, To: p.New}
			if g.XMLName.Local == "to-remove" {
				step = PackageStep{Name: p.Name, From: p.New}
			}
			if (p.Kind == "package" || p.Kind == "") && p.Name != "" && step.From+step.To != "" {
				out = append(out, step)
			}
		}
	}
	return sorted(out)
}

func sorted(steps []PackageStep) []PackageStep {
	slices.SortFunc(steps, func(a, b PackageStep) int { return strings.Compare(a.Name, b.Name) })
	return slices.Compact(steps)
}
