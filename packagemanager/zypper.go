package packagemanager

import (
	"context"
	"encoding/xml"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/host"
)

// zypper is the package manager of SUSE.
var zypper = &Manager{
	Name: "zypper", Program: "zypper", Of: Release.suse, Query: queryRPM,
	Simulate: func(ctx context.Context, r host.Reader, packages []string) (host.Answer, error) {
		return r.Inquire(ctx, "zypper", append([]string{"--non-interactive", "--xmlout", "--no-refresh", "install", "--dry-run"},
			zypperInstall(packages)...)...)
	},
	Parse: parseZypper, Refuses: ended,
	Install: func(o Order) []Step {
		var out []Step
		if o.Refresh {
			out = append(out, Step{command("zypper", "--non-interactive", "refresh"), false})
		}
		if len(o.Install) > 0 { // install accepts no names to remove, but removes conflicting packages
			out = append(out, Step{command("zypper", append([]string{"--non-interactive", "install", "--auto-agree-with-licenses",
				"--oldpackage"}, zypperInstall(o.Install)...)...), false})
		}
		return out
	},
	FromBundle: func(file, name string) []host.Command {
		return []host.Command{upgradeRPM(file), command("zypper", "--non-interactive", "refresh"),
			command("zypper", "--non-interactive", "install", "--auto-agree-with-licenses", "--", name)}
	},
	Initramfs: dracut,
	Meanings:  []Meaning{{[]string{"System management is locked"}, busy}},
	RDMA:      rpmRDMA,
	Build:     []string{"gcc", "lsof", "make", "pciutils", "perl", "tcl", "tk"},
	Headers:   func(string) string { return "kernel-default-devel" },
	Kernel:    func(Release, string, string) (string, bool) { return "", false },
}

func (r Release) suse() bool {
	return r.ID == "sles" || strings.HasPrefix(r.ID, "opensuse") || slices.Contains(r.Like, "suse")
}

func zypperInstall(packages []string) []string {
	return append([]string{"--no-recommends", "--"}, packages...)
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
