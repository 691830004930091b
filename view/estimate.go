package view

import (
	"fmt"

	"github.com/fabricform/fabricform/widearea"
)

// Estimates prints what the distances that the files declare do to the workloads: each figure with its formula, numbers and source.
func (p *Printer) Estimates(all []widearea.Estimate) {
	if len(all) == 0 {
		p.Linef("No link or network declares a distance or a workload: set rtt or distance_km, and workload.")
		return
	}
	for i, e := range all {
		if i > 0 {
			p.Linef("")
		}
		head := e.Title + ", role " + e.Role
		if e.Workload != "" {
			head += ", workload " + e.Workload
		}
		p.Linef("%s", p.bold(head))
		for _, f := range e.Figures {
			p.Linef("  %s: %s", f.Name, p.bold(f.Text()))
			p.Linef("    = %s", f.Formula)
			p.Linef("    = %s", f.Numbers)
			p.Linef("    source: %s", f.Source)
			if f.Limits != "" {
				p.Linef("    limits: %s", f.Limits)
			}
		}
		if b := e.Bound; b != nil {
			p.Linef("  %s", verdictOf(*b))
		}
	}
}

// verdictOf says what becomes of a bound, for people. One that cannot hold is an error of the files, which are then not estimated.
func verdictOf(b widearea.Bound) string {
	what := fmt.Sprintf("%s = %g: the %s takes %s", b.Attribute, b.Seconds, b.Of.Name, b.Of.Text())
	if b.Verdict == widearea.Holds {
		return "✓ " + what
	}
	return "? " + what + ": it can hold, but what is declared does not prove it; " + b.Open()
}

// EstimatesJSON prints the same as JSON.
func (p *Printer) EstimatesJSON(all []widearea.Estimate) error { return p.printIndented(all) }
