package ofed

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// quiet keeps package managers from asking: of debconf, of needrestart (Ubuntu), of apt-listchanges,
// and zypper waits for its lock.
var quiet = []string{"DEBIAN_FRONTEND=noninteractive", "DEBCONF_NONINTERACTIVE_SEEN=true", "NEEDRESTART_SUSPEND=1", "APT_LISTCHANGES_FRONTEND=none", "ZYPP_LOCK_TIMEOUT=300"}

// commands are what makes the changes, in order.
func commands(s *facts.Stack, changes []resource.Change) []host.Command {
	var out []host.Command
	add := func(name string, args ...string) {
		out = append(out, host.Command{Name: name, Args: args, Env: quiet})
	}
	var install []string
	broken, unread, removes, blindly := false, false, false, false
	for _, c := range changes {
		name, is := strings.CutPrefix(c.Attribute, packagePart)
		switch {
		case c.Attribute == installation || is && s.Packages[name].Unfinished != "":
			broken = true
		case c.Attribute == lists:
			unread = true
		case !is:
		case c.To == "":
			removes = true
			if s.Manager == facts.APT { // the others take no word for it, and remove what stands in the way
				install = append(install, name+"-")
			}
		case c.To == newest:
			blindly = true
			install = append(install, name)
		default:
			install = append(install, name+"="+c.To)
		}
	}
	switch s.Manager {
	case facts.APT:
		if broken {
			add("dpkg", "--force-confdef", "--force-confold", "--configure", "--pending")
		}
		if unread {
			add("apt-get", "--quiet", "-o", "DPkg::Lock::Timeout=300", "update")
		}
		if len(install) > 0 {
			how := facts.InstallArguments(facts.APT, install)
			if !removes && !blindly { // exactly what the plan shows
				how = append([]string{"--no-remove"}, how...)
			}
			// What broke off may have left dependencies open, which the plan's simulation closed, too.
			add("apt-get", aptArguments(append([]string{"--fix-broken", "--allow-downgrades"}, how...)...)...)
		}
	case facts.Zypper:
		if unread {
			add("zypper", "--non-interactive", "refresh")
		}
		if len(install) > 0 {
			add("zypper", append([]string{"--non-interactive", "install", "--auto-agree-with-licenses", "--oldpackage"}, facts.InstallArguments(facts.Zypper, install)...)...)
		}
	default:
		if unread {
			add(s.Manager, "-y", "makecache")
		}
		if len(install) > 0 {
			args := []string{"-y"}
			if removes && s.Manager == facts.DNF {
				args = append(args, "--allowerasing")
			}
			add(s.Manager, append(args, facts.InstallArguments(s.Manager, install)...)...)
		}
	}
	return out
}

// aptArguments let no question be asked, keep what an administrator changed in configuration files
// (dpkg(1), confold), and wait for whoever holds the lock.
func aptArguments(args ...string) []string {
	return append([]string{"--yes", "--quiet", "-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold", "-o", "DPkg::Lock::Timeout=300"}, args...)
}

// applyPackages makes the changes of the distribution's packages.
func applyPackages(ctx context.Context, h host.Host, snap *facts.Snapshot, changes []resource.Change, log io.Writer) error {
	todo := commands(snap.Stack, changes)
	for i, c := range todo {
		err := run(ctx, h, c, log)
		// dpkg cannot configure what lacks a package that only comes with the next command.
		if err != nil && (c.Name != "dpkg" || i == len(todo)-1) {
			return err
		}
	}
	return nil
}

// run runs one command; the log has what it said.
func run(ctx context.Context, h host.Host, c host.Command, log io.Writer) error {
	if _, err := fmt.Fprintf(log, "# %s %s\n", c.Name, strings.Join(c.Args, " ")); err != nil {
		return fmt.Errorf("write the log: %w", err)
	}
	a, err := h.Run(ctx, c, log)
	if err != nil {
		return err
	}
	if a.Exit != 0 {
		return fmt.Errorf("%s ended with %d: %s", c.Name, a.Exit, sentence(c.Name, a))
	}
	return nil
}

// sentence is what an answer means, or its last words.
func sentence(name string, a host.Answer) string {
	said := a.Stdout + "\n" + a.Stderr
	switch {
	case strings.Contains(said, "Could not get lock") || strings.Contains(said, "System management is locked"):
		return "another package manager was busy for five minutes: let it end, and apply again"
	case strings.Contains(said, "No space left on device"):
		return "the disk is full: make space, and apply again"
	case strings.Contains(said, "404  Not Found"), strings.Contains(said, "Failed to fetch"):
		return "a package could not be fetched: the lists are older than the repository (run `apt-get update` there and plan again), or the repository cannot be reached"
	case strings.Contains(said, "Packages need to be removed but remove is disabled"):
		return "it would remove packages that the plan did not show: plan again"
	}
	words := strings.TrimSpace(a.Stderr)
	if words == "" {
		words = strings.TrimSpace(a.Stdout)
	}
	lines := strings.Split(words, "\n")
	return strings.Join(lines[max(0, len(lines)-8):], "; ")
}
