package ofed

import (
	"context"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// quiet keeps package managers from asking: of debconf, of needrestart (Ubuntu), of apt-listchanges,
// and zypper waits for its lock.
var quiet = []string{"DEBIAN_FRONTEND=noninteractive", "DEBCONF_NONINTERACTIVE_SEEN=true", "NEEDRESTART_SUSPEND=1", "APT_LISTCHANGES_FRONTEND=none", "ZYPP_LOCK_TIMEOUT=300"}

// halfInstalled is dpkg's state of a package whose files were being unpacked. `dpkg --configure` passes
// it over, and `apt-get --fix-broken` removes it where nobody asks for it by name.
const halfInstalled = "half-installed"

// commands are what makes the changes, in order.
func commands(s *facts.Stack, changes []resource.Change) []host.Command {
	var out []host.Command
	add := func(name string, args ...string) {
		out = append(out, host.Command{Name: name, Args: args, Env: quiet})
	}
	var install []string
	broken, unread, removes, again := false, false, false, false
	for _, c := range changes {
		name, is := strings.CutPrefix(c.Attribute, packagePart)
		unfinished := s.Packages[name].Unfinished
		switch {
		case c.Attribute == installation || is && unfinished != "" && unfinished != halfInstalled:
			broken = true
		case c.Attribute == lists:
			unread = true
		case !is, c.To == ofBundle:
		case c.To == "":
			removes = true
			if s.Manager == facts.APT { // the others take no word for it, and remove what stands in the way
				install = append(install, name+"-")
			}
		default:
			if unfinished == halfInstalled {
				broken, again = true, true
			}
			if c.To != newest {
				name += "=" + c.To
			}
			install = append(install, name)
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
		// What broke off may have left dependencies open. apt closes them where it is asked for no package;
		// beside others it refuses.
		if broken {
			add("apt-get", aptArguments(append([]string{"--fix-broken", "--no-remove"}, facts.InstallArguments(facts.APT, nil)...)...)...)
		}
		if len(install) > 0 {
			how := []string{"--allow-downgrades"}
			if again {
				how = append(how, "--reinstall")
			}
			if !removes { // what the plan does not show, stays
				how = append(how, "--no-remove")
			}
			add("apt-get", aptArguments(append(how, facts.InstallArguments(facts.APT, install)...)...)...)
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
func applyPackages(ctx context.Context, h host.Host, snap *facts.Snapshot, changes []resource.Change, log resource.StepLog) error {
	todo := commands(snap.Stack, changes)
	for i, c := range todo {
		finishes := c.Name == "dpkg" || slices.Contains(c.Args, "--fix-broken")
		if err := log.Step(step(c)); err != nil {
			return err
		}
		// What finishes the earlier installation may lack what only comes with the command behind it, or with
		// the bundle.
		last := i == len(todo)-1 && !Installs(changes)
		if err := run(ctx, h, c, log); err != nil && (last || !finishes) {
			return err
		}
	}
	return nil
}

// run runs one command; the log gets what it says.
func run(ctx context.Context, h host.Host, c host.Command, log io.Writer) error {
	a, err := h.Run(ctx, c, log)
	if err != nil {
		return err
	}
	if a.Exit != 0 {
		return fmt.Errorf("%s ended with %d: %s", c.Name, a.Exit, sentence(c.Name, a))
	}
	return nil
}

// step is how a command is announced.
func step(c host.Command) string { return path.Base(c.Name) + " " + strings.Join(c.Args, " ") }

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
