package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/nccl"
)

func renderCommand(a *app) *cobra.Command {
	c := &cobra.Command{Use: "render", Short: "Print what other programs need to know of the fabric"}
	c.AddCommand(renderNCCL(a))
	return c
}

func renderNCCL(a *app) *cobra.Command {
	var format string
	c := &cobra.Command{
		Use: "nccl [FABRIC]", Short: "Print each host's NCCL settings, with the reason of each", Args: cobra.MaximumNArgs(1),
		Example: "  fabricform render nccl -host a > nccl.conf\n  fabricform render nccl -format shell -host a",
	}
	a.fleetFlags(c)
	c.Flags().StringVar(&format, "format", "conf", "`conf` (as /etc/nccl.conf) or shell (exports)")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		render := map[string]func(nccl.Env) ([]byte, error){"conf": nccl.RenderConf, "shell": nccl.RenderShell}[format]
		if render == nil {
			return fmt.Errorf("-format %s: there are conf and shell", format)
		}
		s, err := a.open(cmd.Context(), fabricArg(args))
		if err != nil {
			return err
		}
		defer s.fleet.Close()
		snaps, err := s.snapshots(cmd.Context())
		if err != nil {
			return err
		}
		code, heading := exitOK, len(snaps) > 1
		for _, h := range s.fabric.Hosts {
			if s.leftOut(h.Name) {
				continue
			}
			if snaps[h.Name] == nil {
				a.err.Unreachable(map[string]string{h.Name: s.fleet.Unreachable[h.Name].Error()})
				code = worse(code, exitUnreachable)
				continue
			}
			env, problems := nccl.Derive(s.fabric, h, snaps[h.Name])
			for _, p := range problems {
				a.err.Errorf("%s: %s", h.Name, p)
				code = worse(code, exitError)
			}
			text, err := render(env)
			if err != nil {
				return fmt.Errorf("host %s: %w", h.Name, err)
			}
			if heading {
				a.out.Linef("# host %s", h.Name)
			}
			if err := a.out.Raw(text); err != nil {
				return err
			}
		}
		return told(code)
	}
	return c
}
