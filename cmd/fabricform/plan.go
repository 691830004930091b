package main

import (
	"github.com/spf13/cobra"
)

func planCommand(a *app) *cobra.Command {
	var detailed bool
	c := &cobra.Command{
		Use: "plan [FABRIC]", Short: "Show the difference between the files and the hosts", Args: cobra.MaximumNArgs(1),
		Example: "  fabricform plan\n  fabricform plan -detailed-exitcode examples/roce-pair.hcl",
	}
	a.fleetFlags(c)
	c.Flags().BoolVar(&detailed, "detailed-exitcode", false, "exit 2 when there are changes")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := a.open(cmd.Context(), fabricArg(args))
		if err != nil {
			return err
		}
		defer s.fleet.Close()
		p := s.plan(cmd.Context())
		a.out.Plan(p, s.notes())
		code := exitOK
		if len(p.Problems()) > 0 {
			code = worse(code, exitError)
		}
		if len(p.Unreachable()) > 0 {
			code = worse(code, exitUnreachable)
		}
		if detailed && p.Changes() > 0 {
			code = worse(code, exitChanges)
		}
		return told(code)
	}
	return c
}

// told ends a command whose outcome was already printed.
func told(code int) error {
	if code == exitOK {
		return nil
	}
	return &exit{code: code}
}
