package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/lab"
)

func labCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "lab", Short: "Rehearse the fabric in network namespaces of this machine",
		Long: `A lab builds the declared hosts as network namespaces of this Linux machine, with the declared NIC
names and cables, a view of /etc of their own and an SSH server each. Any other command goes there
with -lab. A lab needs root and cannot reach the machine that carries it.`,
		Example: `  fabricform lab up examples/roce-pair.hcl
  fabricform apply -lab examples/roce-pair.hcl
  fabricform lab fault examples/roce-pair.hcl rail0 cut
  fabricform lab down examples/roce-pair.hcl`,
	}
	c.AddCommand(labUp(a), labStatus(a), labExec(a), labFault(a), labDown(a))
	return c
}

func (a *app) openLab(path string) (*lab.Lab, error) {
	f, err := a.load(path)
	if err != nil {
		return nil, err
	}
	return lab.Open(f.Name, lab.Options{})
}

func labUp(a *app) *cobra.Command {
	var sshd string
	c := &cobra.Command{
		Use: "up [FABRIC]", Short: "Build the lab", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := a.load(fabricArg(args))
			if err != nil {
				return err
			}
			if _, err := lab.Up(cmd.Context(), f, lab.Options{SSHD: sshd,
				Progress: func(m string) { a.err.Progressf("%s", m) }}); err != nil {
				return err
			}
			a.out.Linef("✓ lab %q is up: %d hosts, %d links. Try `fabricform apply -lab %s`.", f.Name, len(f.Hosts), len(f.Links), fabricArg(args))
			return nil
		},
	}
	a.fabricFlags(c)
	c.Flags().StringVar(&sshd, "sshd", "", "run this OpenSSH `sshd` in the hosts instead of the built-in server")
	return c
}

func labStatus(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "status [FABRIC]", Short: "Show the lab's hosts and cables", Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			l, err := a.openLab(fabricArg(args))
			if err != nil {
				return err
			}
			s, err := l.Status()
			if err != nil {
				return err
			}
			a.out.Lab(s)
			return nil
		},
	}
	a.fabricFlags(c)
	return c
}

func labExec(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "exec FABRIC HOST -- COMMAND…", Short: "Run a command inside a host of the lab", Args: cobra.MinimumNArgs(3),
		Example: "  fabricform lab exec examples/roce-pair.hcl a -- ip -br addr",
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := a.openLab(args[0])
			if err != nil {
				return err
			}
			code, err := l.Exec(cmd.Context(), args[1], args[2:], os.Stdin, os.Stdout, os.Stderr)
			if err != nil {
				return err
			}
			return told(code)
		},
	}
	a.fabricFlags(c)
	return c
}

func labFault(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "fault FABRIC LINK FAULT", Short: "Break a cable of the lab, or mend it", Args: cobra.ExactArgs(3),
		Long: "FAULT is cut, swap=LINK2 (the two cables' far ends change places), limit=RATE, delay=TIME, loss=PERCENT, or none.",
		Example: `  fabricform lab fault examples/roce-pair.hcl rail0 cut
  fabricform lab fault examples/roce-pair.hcl rail0 swap=rail1
  fabricform lab fault examples/roce-pair.hcl rail0 none`,
		RunE: func(_ *cobra.Command, args []string) error {
			l, err := a.openLab(args[0])
			if err != nil {
				return err
			}
			if err := l.Fault(args[1], args[2]); err != nil {
				return err
			}
			a.out.Linef("✓ link %s: %s", args[1], args[2])
			return nil
		},
	}
	a.fabricFlags(c)
	return c
}

func labDown(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "down [FABRIC]", Short: "Stop and remove the lab", Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			l, err := a.openLab(fabricArg(args))
			if err != nil {
				return err
			}
			if err := l.Down(); err != nil {
				return fmt.Errorf("take lab down: %w", err)
			}
			a.out.Linef("✓ lab is down; nothing of it is left.")
			return nil
		},
	}
	a.fabricFlags(c)
	return c
}
