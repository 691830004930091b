package ofed

import (
	"context"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/packagemanager"
	"github.com/fabricform/fabricform/resource"
)

// order translates changes into an order for the package manager.
func order(s *Stack, changes []resource.Change) packagemanager.Order {
	var o packagemanager.Order
	for _, c := range changes {
		name, isPackage := strings.CutPrefix(c.Attribute, packagePart)
		unfinished := s.Packages[name].Unfinished
		halfInstalled := unfinished == packagemanager.HalfInstalled
		switch {
		case c.Attribute == installation, isPackage && unfinished != "" && !halfInstalled:
			o.Finish = true
		case c.Attribute == lists:
			o.Refresh = true
		case !isPackage, c.To == ofBundle: // not the package manager's work
		case c.To == "":
			o.Remove = append(o.Remove, name)
		default:
			if halfInstalled {
				o.Finish, o.Reinstall = true, true
			}
			if c.To != newest {
				name += "=" + c.To
			}
			o.Install = append(o.Install, name)
		}
	}
	return o
}

// commands returns the package manager's commands that make the changes, in order.
func commands(s *Stack, changes []resource.Change) []packagemanager.Step {
	m := packagemanager.Lookup(s.Manager)
	if m == nil {
		return nil
	}
	return m.Install(order(s, changes))
}

// applyPackages makes the changes to the distribution's packages.
func applyPackages(ctx context.Context, h host.Host, snap *facts.Snapshot, changes []resource.Change, log resource.StepLog) error {
	todo := commands(part.Of(snap), changes)
	for i, c := range todo {
		if err := log.Step(step(c.Command)); err != nil {
			return err
		}
		// Finishing an earlier installation may fail because a dependency comes only with the next command or
		// with the bundle, so only the last command's failure counts.
		last := i == len(todo)-1 && !installsBundle(changes)
		if err := run(ctx, h, c.Command, log); err != nil && (last || !c.Finishes) {
			return err
		}
	}
	return nil
}

// run runs one command and writes its output to the log.
func run(ctx context.Context, h host.Host, c host.Command, log io.Writer) error {
	a, err := h.Run(ctx, c, log)
	if err != nil {
		return err
	}
	if a.Exit != 0 {
		return fmt.Errorf("%s exited with status %d: %s", c.Name, a.Exit, sentence(a))
	}
	return nil
}

// step returns the line that announces a command in the log.
func step(c host.Command) string { return path.Base(c.Name) + " " + strings.Join(c.Args, " ") }

// sentence explains a failed command: the known meaning of its output, or else its last lines.
func sentence(a host.Answer) string {
	said := a.Stdout + "\n" + a.Stderr
	if strings.Contains(said, "No space left on device") {
		return "the disk is full: free some space, and apply again"
	}
	if meaning := packagemanager.Explain(said); meaning != "" {
		return meaning
	}
	words := strings.TrimSpace(a.Stderr)
	if words == "" {
		words = strings.TrimSpace(a.Stdout)
	}
	lines := strings.Split(words, "\n")
	return strings.Join(lines[max(0, len(lines)-8):], "; ")
}
