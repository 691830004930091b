package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/validators"
	"github.com/fabricform/fabricform/view"
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
		defer s.fleet.Close()
		r := &job{a: a, s: s, o: applyOptions{report: report}, report: view.Report{Format: view.EventFormat, Command: "verify", Fabric: s.fabric.Name,
			Source: s.source, Build: s.build, Who: operator(), Started: time.Now()}}
		var came []validators.Result
		if afterReboot {
			p := s.plan(cmd.Context())
			came = cameUp(p, s.records, s.facts)
		}
		code, results := a.prove(cmd.Context(), s, checks, came...)
		r.report.Results = results
		return r.end(code, nil)
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

// prove runs the live checks and prints their verdicts after those that are there already; the answer
// is the exit code and the results.
func (a *app) prove(ctx context.Context, s *session, only []validators.Check, already ...validators.Result) (int, []validators.Result) {
	unreachable := s.unreachable()
	o := validators.Options{Only: only, Link: a.Link, Unreachable: unreachable, LeftOut: s.leftOut,
		Progress: func(what string) { a.err.Progressf("%s", what) }}
	if s.lab != nil {
		o.Lab, o.LabCapGbps = true, s.lab.LinkCapGbps()
	}
	results := append(already, validators.Run(ctx, s.fabric, s.fleet, o)...)
	a.report().Results(results)
	code := exitOK
	if len(unreachable) > 0 {
		a.err.Unreachable(unreachable)
		code = exitUnreachable
	}
	if ctx.Err() != nil {
		code = worse(code, exitError)
	}
	for _, r := range results {
		if r.Verdict == validators.Fail {
			code = worse(code, exitCheckFailed)
		}
	}
	return code, results
}
