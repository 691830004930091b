package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/apply"
)

// allowances are what plans may do that they otherwise refuse.
type allowances []string

// allowManagement lets a plan change the path of the operator's own connection.
const allowManagement = "management"

func (w *allowances) flag(c *cobra.Command) {
	c.Flags().StringSliceVar((*[]string)(w), "allow", nil, "allow what is refused otherwise: "+allowManagement+" (the path of your own connection is changed: new first, proven by a new connection, then old)")
}

func (w allowances) check() error {
	for _, what := range w {
		if what != allowManagement {
			return fmt.Errorf("-allow %s: there is only %s", what, allowManagement)
		}
	}
	return nil
}

func (w allowances) management() bool { return slices.Contains(w, allowManagement) }

// moved tells where hosts are reached from now on.
func (r *job) moved() {
	for _, o := range r.report.Outcomes {
		for _, h := range r.p.Hosts {
			if to := h.MovesTo(); h.Name == o.Host && to.IsValid() && (o.Fate == apply.Committed || o.Fate == apply.Waiting) {
				r.a.report().Note("Host %s is reached at %s from now on: write that as its address, and enter it into known_hosts beside %s.", h.Name, to, h.Management.Server)
			}
		}
	}
}
