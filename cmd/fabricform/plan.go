package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

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
	c.Flags().BoolVar(&detailed, "detailed-exitcode", false, "exit 2 when there are changes")
	c.Flags().BoolVar(&markdown, "markdown", false, "print Markdown for a pull request")
	c.Flags().BoolVar(&destroy, "destroy", false, "plan to give everything back")
	c.Flags().StringVar(&out, "out", "", "save the plan to `file`; apply makes exactly this one")
	c.MarkFlagsMutuallyExclusive("json", "markdown")
	allow.flag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := allow.check(); err != nil {
			return err
		}
		a.glance = true
		s, err := a.openFor(cmd.Context(), fabricArg(args), destroy)
		if err != nil {
			return err
		}
		defer s.fleet.Close()
		s.management = allow.management()
		p := s.propose(cmd.Context())
		notes := p.Notes()
		if out != "" && len(p.Problems()) == 0 {
			saved := &planner.Saved{ID: newPlanID(), Build: s.build, Created: time.Now().UTC(), Source: s.source, Destroy: destroy, Management: s.management, Chosen: s.chosen, Fabric: s.fabric, Plan: p}
			text, err := saved.Encode()
			if err == nil {
				err = file.Output(out, text, 0o600)
			}
			if err != nil {
				return fmt.Errorf("save plan: %w", err)
			}
			notes = append(notes, fmt.Sprintf("Saved: `fabricform apply %s` makes exactly this plan.", out))
		}
		if markdown {
			if err := a.out.Raw([]byte(view.PlanMarkdown(p, notes))); err != nil {
				return err
			}
		} else {
			a.report().Plan(p, notes)
		}
		return told(planCode(p, detailed))
	}
	return c
}

// planCode is the exit code that a plan by itself stands for.
func planCode(p *planner.Plan, detailed bool) int {
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
	return code
}

// told ends a command whose outcome was already printed.
func told(code int) error {
	if code == exitOK {
		return nil
	}
	return &exit{code: code}
}

// readSaved reads a saved plan; nil where the path is something else, such as a fabric.
func readSaved(path, build string) (*planner.Saved, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil // whoever reads the fabric says so
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

func newPlanID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails, by its documentation
	return hex.EncodeToString(b[:])
}
