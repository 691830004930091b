package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/config"
	"github.com/fabricform/fabricform/fabric"
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
  fabricform plan -keep-connections=5m my-fabric/   # later commands need no login
  fabricform plan -markdown -detailed-exitcode examples/roce-pair.hcl > comment.md`,
	}
	a.fleetFlags(c)
	a.jsonFlag(c, linesOfJSON)
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
		if config.IsFabric(filepath.Base(out)) {
			return fmt.Errorf("-out %s: this name is reserved for files of a fabric; choose another, such as tonight.plan", out)
		}
		a.glance = true
		var s *apply.Session
		var err error
		if destroy {
			s, err = a.openToDestroy(cmd.Context(), fabricArg(args), allow...)
		} else {
			s, err = a.open(cmd.Context(), fabricArg(args), allow...)
		}
		if err != nil {
			return err
		}
		defer s.Close()
		p := s.Propose(cmd.Context())
		if err := apply.Interrupted(cmd.Context()); err != nil {
			return err
		}
		notes := p.Notes()
		if out != "" && len(p.Problems()) == 0 {
			if err := apply.WriteSaved(out, s.Save(p)); err != nil {
				return fmt.Errorf("save plan: %w", err)
			}
			said := "Saved. To make exactly these changes, run " + a.ofPlan(s.Fabric, out) + "."
			if p.Changes() == 0 {
				said = "Saved. The plan has no changes."
			}
			notes = append(notes, said)
		}
		if err := a.printPlan(p, notes, markdown); err != nil {
			return err
		}
		return planExit(p, detailed)
	}
	return c
}

// ofPlan returns the command that applies a saved plan to the hosts that the flags select.
func (a *app) ofPlan(f *fabric.Fabric, file string) string {
	i := fabric.Invocation{Flags: a.labFlag(), Path: file, Dir: a.dir}
	if f.HasSensitive() {
		i.Flags = append(i.Flags, config.SensitiveFlags(a.inputs, f.Sensitive)...)
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

// readSaved reads a plan that this build saved. It returns nil if the path is something else, such as a fabric or, with a bare -lab,
// the name of a lab.
func (a *app) readSaved(path string) (*planner.Saved, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) && !config.IsFabric(filepath.Base(path)) && a.lab != ownLab {
		return nil, fmt.Errorf("no directory or file has the name %s. Name a directory with *.hcl files, one such file, "+
			"or a plan that plan -out saved", path)
	}
	build, err := buildID()
	if err != nil {
		return nil, err
	}
	return apply.ReadSaved(path, build)
}
