package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/validators"
)

func verifyCommand(a *app) *cobra.Command {
	var only []string
	var report string
	var afterReboot bool
	c := &cobra.Command{
		Use: "verify [FABRIC]", Short: "Prove the fabric with live checks; changes nothing", Args: cobra.MaximumNArgs(1),
		Long: `verify measures what the hosts carry, and judges it by the files. With -after-reboot it says first what
came up as declared on hosts that were started anew since the last apply, and what did not; a host that
was not is a failure, because nothing is proven of it; of a host that no apply had to change it is told
whether it is as declared.` + checksHelp(),
		Example: "  fabricform verify\n  fabricform verify -only ping,tcp -link rail0\n  fabricform verify -after-reboot",
	}
	a.fleetFlags(c)
	a.jsonFlag(c)
	c.Flags().StringVar(&report, "report", "", "write all that was measured to `file`: .md as Markdown, else JSON")
	c.Flags().StringSliceVar(&only, "only", nil, "`kinds` of checks to run: "+checkNames())
	c.Flags().BoolVar(&afterReboot, "after-reboot", false, "compare what came up with what is declared, first")
	c.Flags().StringVar(&a.Link, "link", "", "check this `link`, network or path of a network only, from its own hosts")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		checks, err := chosenChecks(only)
		if err != nil {
			return err
		}
		s, err := a.open(cmd.Context(), fabricArg(args))
		if err != nil {
			return err
		}
		defer s.Close()
		o := apply.VerifyOptions{Only: checks, Link: a.Link, AfterReboot: afterReboot}
		return a.finish(apply.Verify(cmd.Context(), s, o, a.events(false)), report)
	}
	return c
}

// checkNames lists the checks of the table.
func checkNames() string {
	var names []string
	for _, c := range validators.Table {
		names = append(names, string(c.Name))
	}
	return strings.Join(names, ", ")
}

// chosenChecks are the checks that -only names.
func chosenChecks(only []string) (out []validators.Check, err error) {
	for _, name := range only {
		if !slices.ContainsFunc(validators.Table, func(c validators.Row) bool { return string(c.Name) == name }) {
			return nil, fmt.Errorf("-only %s: no such check; there are %s", name, checkNames())
		}
		out = append(out, validators.Check(name))
	}
	return out, nil
}

// checksHelp tells what each check of the table proves.
func checksHelp() string {
	var b strings.Builder
	b.WriteString("\n\nThe checks are:\n")
	for _, c := range validators.Table {
		fmt.Fprintf(&b, "\n  %-7s %s", c.Name, c.Proves)
	}
	return b.String()
}
