package view

import (
	"fmt"

	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/validators"
)

// Walk prints what an apply did and did not do.
func (p *Printer) Walk(hosts []apply.HostOutcome) {
	for _, h := range hosts {
		for _, o := range h.Outcomes {
			addr := o.Action.Resource.Addr
			switch {
			case o.Done:
				p.Linef("%s %s  %s", p.good("✓"), addr, p.dim(count(len(o.Action.Changes), "change")))
				for _, c := range o.Also {
					p.Linef("    also put back, dropped by the kernel meanwhile: %s", c.Attribute)
				}
			case o.Err != nil:
				p.Linef("%s %s: %s", p.bad("✗"), addr, o.Err)
			default:
				p.Linef("%s %s  %s", p.warn("-"), addr, p.dim("not tried"))
			}
		}
	}
}

// Results prints the verdicts of live checks, grouped by link as they come.
func (p *Printer) Results(results []validators.Result) {
	group := "\x00"
	tally := map[validators.Verdict]int{}
	for _, r := range results {
		tally[r.Verdict]++
		if g := heading(r); g != group {
			group = g
			p.Linef("%s", p.bold(g))
		}
		p.result(r)
	}
	p.Linef("")
	sum := fmt.Sprintf("%d passed, %d failed, %d warned, %d skipped", tally[validators.Pass], tally[validators.Fail], tally[validators.Warn], tally[validators.Skip])
	switch {
	case tally[validators.Fail] > 0:
		p.Linef("%s %s", p.bad("✗ Fabric not proven:"), sum)
	case tally[validators.Pass] == 0:
		p.Linef("%s %s", p.warn("Nothing was proven:"), sum)
	default:
		p.Linef("%s %s", p.good("✓ Fabric proven:"), sum)
	}
}

func heading(r validators.Result) string {
	if r.Link != "" {
		return "link " + r.Link
	}
	return "host " + r.Host
}

func (p *Printer) result(r validators.Result) {
	symbol := map[validators.Verdict]string{
		validators.Pass: p.good("✓"), validators.Fail: p.bad("✗"), validators.Warn: p.warn("!"), validators.Skip: p.dim("-"),
	}[r.Verdict]
	who := r.Host
	if r.Peer != "" {
		who += " → " + r.Peer
	}
	line := fmt.Sprintf("  %s %-5s %-14s %-18s", symbol, r.Check, who, r.What)
	if r.Measured != "" {
		line += " " + r.Measured
	}
	if r.Verdict == validators.Skip {
		p.Linef("%s %s", line, p.dim("skipped: "+r.Cause))
		return
	}
	if r.Expected != "" {
		line += p.dim("  (want " + r.Expected + ")")
	}
	p.Linef("%s", line)
	if r.Cause != "" {
		p.Linef("      %s", r.Cause)
	}
}
