package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/config"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/lab"
	"github.com/fabricform/fabricform/lab/site"
	"github.com/fabricform/fabricform/lab/vm"
	"github.com/fabricform/fabricform/view"
)

func labCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "lab", Short: "Rehearse the fabric on this machine: namespaces or virtual machines",
		Long: `lab builds the declared hosts on this Linux machine, with the declared NIC names and cables. Commands
that read or change hosts use the lab's with -lab. The lab's hosts cannot reach the machine that runs them.

With -backend netns, each host is a network namespace with its own /etc and its own SSH server. The
lab is up in a second and needs root. With -backend vm, each host is a virtual machine with a Debian
kernel and systemd, so that Soft-RoCE, reboots and network managers are real. Once the image exists,
the lab is up in seconds, with or without KVM, and does not need root.`,
		Example: `  fabricform lab up examples/roce-pair.hcl
  fabricform apply -lab examples/roce-pair.hcl
  fabricform lab fault examples/roce-pair.hcl rail0 cut
  fabricform lab down examples/roce-pair.hcl
  fabricform lab up -backend vm examples/soft-roce-pair.hcl`,
	}
	onlySubcommands(c)
	for _, sub := range []*cobra.Command{labUp(a), labStatus(a), labExec(a), labFault(a), labReboot(a), labDown(a)} {
		a.fabricFlags(sub)
		c.AddCommand(sub)
	}
	c.AddCommand(labImage(a))
	return c
}

// onLab returns the body of a command that works on the lab of the fabric in its first argument.
func (a *app) onLab(do func(ctx context.Context, l lab.Lab, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		path := fabricArg(args)
		f, err := a.load(path)
		if err != nil {
			return err
		}
		by := a.invocation(f, path)
		l, err := openLab(f.Name, f, by)
		if err != nil {
			return err
		}
		return filled(do(cmd.Context(), l, args), by)
	}
}

// filledError is an error whose commands name the fabric as the operator did.
type filledError struct {
	error
	by fabric.Invocation
}

// filled completes the commands in an error of a lab, which does not know the files of its fabric. It is nil for nil.
func filled(err error, by fabric.Invocation) error {
	if err == nil {
		return nil
	}
	return filledError{err, by}
}

func (e filledError) Error() string { return e.by.Fill(e.error.Error()) }

func (e filledError) Unwrap() error { return e.error }

func labUp(a *app) *cobra.Command {
	var sshd, backend, manager string
	c := &cobra.Command{
		Use: "up [FABRIC]", Short: "Build the lab", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := oneOf("-backend", backend, lab.Backends...); err != nil {
				return err
			}
			if manager != "" {
				if err := oneOf("-owner", manager, vm.Managers()...); err != nil {
					return err
				}
			}
			f, err := a.load(fabricArg(args))
			if err != nil {
				return err
			}
			by := a.invocation(f, fabricArg(args))
			if _, err := lab.Up(cmd.Context(), backend, f, site.Options{SSHD: sshd, NetworkManager: manager,
				Progress: func(m string) { a.err.Progressf("%s", m) }}); err != nil {
				return filled(err, by)
			}
			a.out.Linef("✓ lab %q is up: %s. Try %s.", f.Name, view.Extent(f), by.Hint("plan", "-lab"))
			return nil
		},
	}
	c.Flags().StringVar(&backend, "backend", site.Netns, "`KIND` of lab: "+strings.Join(lab.Backends, " or "))
	c.Flags().StringVar(&manager, "owner", "", "network manager of the virtual machines: "+strings.Join(vm.Managers(), ", "))
	c.Flags().StringVar(&sshd, "sshd", "", "path of OpenSSH's `sshd` for the hosts of a namespace lab; default: the one of this machine")
	return c
}

func labStatus(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "status [FABRIC]", Short: "Show the lab's hosts and cables", Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			path := fabricArg(args)
			f, err := a.load(path)
			if err != nil {
				return err
			}
			s := site.Status{Name: f.Name}
			l, err := lab.Open(f.Name)
			none := errors.Is(err, fs.ErrNotExist)
			if err == nil {
				s, err = l.Status()
			}
			switch {
			case err != nil && !none:
				return err
			case a.asJSON:
				return a.out.LabJSON(s)
			case none:
				a.out.Linef("fabric %q has no lab; build it with %s", f.Name, a.invocation(f, path).Hint("lab", "up"))
			default:
				a.out.Lab(s)
			}
			return nil
		},
		Example: "  fabricform lab status my-fabric/\n  fabricform lab status -json | jq '.hosts[] | select(.alive | not) | .name'",
	}
	a.jsonFlag(c, "print as JSON")
	return c
}

func labExec(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "exec FABRIC HOST -- COMMAND…", Short: "Run a command inside a host of the lab", Args: cobra.MinimumNArgs(3),
		Example: "  fabricform lab exec examples/roce-pair.hcl a -- ip -br addr",
		RunE: a.onLab(func(ctx context.Context, l lab.Lab, args []string) error {
			code, err := l.Exec(ctx, args[1], args[2:], os.Stdin, os.Stdout, os.Stderr)
			if err != nil {
				return err
			}
			return exitWith(code)
		}),
	}
}

func labFault(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "fault FABRIC LINK FAULT", Short: "Break or repair a cable of the lab", Args: cobra.ExactArgs(3),
		Long: `FAULT is cut, swap=LINK2 (exchange the far ends of the two cables), limit=RATE, delay=TIME, jitter=TIME (how much longer or shorter
single packets take), loss=PERCENT, remark=DSCP (give each IP packet this DSCP), no-vlan=ID (drop the packets of this VLAN, as a switch does
that does not carry it), pause=PRIORITY (send PFC frames of this priority to both ends), or none (repair). delay, jitter and loss are of each
direction, and can be joined: delay=20ms,loss=1%. A cable of a bond is named LINK:NIC, after the member at the link's first end.`,
		Example: `  fabricform lab fault examples/roce-pair.hcl rail0 cut
  fabricform lab fault examples/roce-pair.hcl rail0 swap=rail1
  fabricform lab fault examples/roce-pair.hcl rail0 delay=20ms,jitter=2ms,loss=1%
  fabricform lab fault examples/roce-pair.hcl rail0 none
  fabricform lab fault examples/bond-vlan.hcl pair:p0 cut
  fabricform lab fault examples/bond-vlan.hcl pair:p1 no-vlan=200`,
		RunE: a.onLab(func(_ context.Context, l lab.Lab, args []string) error {
			f, err := site.ParseFault(args[2])
			if err != nil {
				return err
			}
			if err := l.Fault(args[1], f, args[2]); err != nil {
				return err
			}
			a.out.Linef("✓ link %s: %s", args[1], args[2])
			return nil
		}),
	}
}

func labReboot(a *app) *cobra.Command {
	var hard bool
	c := &cobra.Command{
		Use: "reboot FABRIC HOST", Short: "Reboot a host of a lab of virtual machines, and wait for it", Args: cobra.ExactArgs(2),
		RunE: a.onLab(func(ctx context.Context, l lab.Lab, args []string) error {
			a.err.Progressf("%s", "rebooting "+args[1])
			if err := l.Reboot(ctx, args[1], hard); err != nil {
				return err
			}
			a.out.Linef("✓ %s is back.", args[1])
			return nil
		}),
	}
	c.Flags().BoolVar(&hard, "hard", false, "cut the host's power instead of asking it to reboot")
	return c
}

func labImage(a *app) *cobra.Command {
	var manager string
	c := &cobra.Command{
		Use: "image", Short: "Build the image of the virtual machines, if it does not exist yet", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := oneOf("-owner", manager, vm.Managers()...); err != nil {
				return err
			}
			dir, accel, err := lab.Image(cmd.Context(), manager, site.Options{Progress: func(m string) { a.err.Progressf("%s", m) }})
			if err != nil {
				return err
			}
			a.out.Linef("✓ image %s, runs with %s", dir, accel)
			return nil
		},
	}
	c.Flags().StringVar(&manager, "owner", vm.DefaultManager, "network manager of the machines: "+strings.Join(vm.Managers(), ", "))
	return c
}

func labDown(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "down [FABRIC]", Short: "Stop and remove the lab", Args: cobra.MaximumNArgs(1),
		Long: `FABRIC may also be the name of a lab. The files may have errors: their fabric block names the lab.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := a.labToRemove(fabricArg(args))
			if err != nil {
				return err
			}
			l, err := lab.Open(name)
			if errors.Is(err, fs.ErrNotExist) {
				a.out.Linef("✓ fabric %q has no lab.", name)
				return nil
			}
			if err == nil {
				err = l.Down()
			}
			if err != nil {
				return fmt.Errorf("remove lab: %w", err)
			}
			a.out.Linef("✓ the lab is removed.")
			return nil
		},
	}
}

// fabricBlock is the first line of a fabric block.
var fabricBlock = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^\s*fabric\s+"?([A-Za-z0-9._-]+)"?\s*\{`) })

// labToRemove returns the name of the lab that the argument names: its own, or that of files, which may have errors that came after the lab.
func (a *app) labToRemove(path string) (string, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if names, err := site.Names(); err == nil && slices.Contains(names, path) {
			return path, nil
		}
	}
	f, files, diags := config.Load(path, a.sources())
	err := a.problems(files, diags)
	if f != nil || len(files) == 0 {
		return cmp.Or(f, &fabric.Fabric{}).Name, err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if m := fabricBlock().FindSubmatch(files[name].Bytes); m != nil {
			return string(m[1]), nil
		}
	}
	return "default", nil // of files without a fabric block
}
