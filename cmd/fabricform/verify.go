package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/validators"
	"github.com/fabricform/fabricform/view"
)

func verifyCommand(a *app) *cobra.Command {
	var only []string
	var report string
	var o apply.VerifyOptions
	c := &cobra.Command{
		Use: "verify [FABRIC]", Short: "Verify the fabric with live checks; changes nothing", Args: cobra.MaximumNArgs(1),
		Long: `verify measures the fabric and compares the results with the files.

With -after-reboot, verify first reports what came up as declared on hosts that rebooted since the last
apply, and what did not. A host that has not rebooted since then fails, because nothing proves that its
configuration persists. A host that was never changed is only compared with the files.` + checksHelp(),
		Example: "  fabricform verify\n  fabricform verify -only ping,tcp -link rail0\n  fabricform verify -after-reboot",
	}
	a.fleetFlags(c)
	a.jsonFlag(c, linesOfJSON)
	c.Flags().StringVar(&report, "report", "", "write all measurements to `file`: Markdown if it ends in .md, otherwise JSON")
	c.Flags().StringSliceVar(&only, "only", nil, "`checks` to run: "+view.List(validators.Checks()))
	c.Flags().BoolVar(&o.AfterReboot, "after-reboot", false, "first check that the state after a reboot matches the files")
	c.Flags().StringVar(&a.Link, "link", "", "check only this `link`, network or path of a network, from its own hosts")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		a.measuring = true
		for _, name := range only {
			check := validators.Check(name)
			if err := oneOf("check -only", check, validators.Checks()...); err != nil {
				return err
			}
			o.Only = append(o.Only, check)
		}
		if err := canReport(report); err != nil {
			return err
		}
		return a.readingHosts(func(ctx context.Context, s *apply.Session) error {
			o.Link = a.Link
			return a.finish(apply.Verify(ctx, s, o, a.events(false)), report)
		})(cmd, args)
	}
	return c
}

// checksHelp says what each check of the table proves.
func checksHelp() string {
	var b strings.Builder
	b.WriteString("\n\nThe checks are:\n")
	for _, c := range validators.Table {
		fmt.Fprintf(&b, "\n  %-8s  %s", c.Name, c.Proves)
	}
	return b.String()
}
