package main

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/host/file"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/view"
)

func planCommand(a *app) *cobra.Command {
	var detailed, markdown, destroy bool
	var out string
	var allow allowances
	c := &cobra.Command{
		Use: "plan [FABRIC]", Short: "Show the difference between the files and the hosts", Args: cobra.MaximumNArgs(1),
		Example: `  fabricform plan
  fabricform plan -out tonight.plan my-fabric/ && fabricform apply tonight.plan
  fabricform plan -markdown -detailed-exitcode examples/roce-pair.hcl > comment.md`,
	}
	a.fleetFlags(c)
	a.jsonFlag(c)
	c.Flags().BoolVar(&detailed, "detailed-exitcode", false, "exit 2 if there are changes")
	c.Flags().BoolVar(&markdown, "markdown", false, "print Markdown for a pull request")
	c.Flags().BoolVar(&destroy, "destroy", false, "plan to restore everything that the fabric changed")
	c.Flags().StringVar(&out, "out", "", "save the plan to `file`, for apply")
	c.MarkFlagsMutuallyExclusive("json", "markdown")
	allow.flag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := allow.check(); err != nil {
			return err
		}
		a.glance = true
		var s *apply.Session
		var err error
		if destroy {
			s, err = a.openToDestroy(cmd.Context(), fabricArg(args), allow.management())
		} else {
			s, err = a.open(cmd.Context(), fabricArg(args))
		}
		if err != nil {
			return err
		}
		defer s.Close()
		s.Options.Management, s.Options.HalfLinks = allow.management(), allow.halfLinks()
		p := s.Propose(cmd.Context())
		if err := apply.Interrupted(cmd.Context()); err != nil {
			return err
		}
		notes := p.Notes()
		if out != "" && len(p.Problems()) == 0 {
			text, err := s.Save(p).Encode()
			if err == nil {
				err = putPlan(out, text)
			}
			if err != nil {
				return fmt.Errorf("save plan: %w", err)
			}
			notes = append(notes, "Saved. To make exactly these changes, run "+a.ofPlan(s.Fabric, out)+".")
		}
		if err := a.printPlan(p, notes, markdown); err != nil {
			return err
		}
		return planExit(p, detailed)
	}
	return c
}

// putPlan writes a saved plan. It does not follow symbolic links, because another user who can write to the folder could
// point one at a file of the operator's.
func putPlan(path string, text []byte) error {
	if at, err := os.Lstat(path); err == nil && !at.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file, and -out does not follow links: name another file", path)
	}
	return file.Replace(path, text, 0o600)
}

// ofPlan returns the command that applies a saved plan to the hosts that the flags select.
func (a *app) ofPlan(f *fabric.Fabric, file string) string {
	i := fabric.Invocation{Flags: a.labFlag(), Path: file}
	for _, in := range a.inputs {
		if flag := hiddenVar(varName(in)); f.HasSensitive() && slices.Contains(f.Sensitive, varName(in)) && !slices.Contains(i.Flags, flag) {
			i.Flags = append(i.Flags, flag)
		}
	}
	return i.Hint("apply")
}

// printPlan prints a plan as text, JSON or Markdown.
func (a *app) printPlan(p *planner.Plan, notes []string, markdown bool) error {
	if markdown {
		return a.out.Raw([]byte(view.PlanMarkdown(p, notes)))
	}
	a.report().Plan(p, notes)
	return nil
}

// planExit returns the exit code of a plan that was shown.
func planExit(p *planner.Plan, detailed bool) error {
	code := exitCode(apply.PlanEnding(p))
	if code == exitOK && detailed && p.Changes() > 0 {
		code = exitChanges
	}
	return exitWith(code)
}

// readSaved reads a saved plan. It returns nil if the path is something else, such as a fabric.
func readSaved(path, build string) (*planner.Saved, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil // reading the fabric reports the error
	}
	defer f.Close()
	saved, err := planner.ReadSaved(f, build)
	if errors.Is(err, planner.ErrNotSaved) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return saved, nil
}
