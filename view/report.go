package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/validators"
)

// Walk prints what an apply did and did not do.
func (p *Printer) Walk(hosts []apply.HostOutcome) {
	for _, h := range hosts {
		for _, o := range h.Outcomes {
			addr := o.Action.Resource.Addr
			switch {
			case o.Done && o.Action.Op == planner.Reconnect:
				p.Linef("%s %s  %s", p.good("✓"), addr, p.dim("a new connection came in here"))
			case o.Done && o.Action.Op == planner.Keep && len(o.Also) == 0:
				p.Linef("%s %s  %s", p.good("✓"), addr, p.dim("as it was"))
			case o.Done:
				p.Linef("%s %s  %s", p.good("✓"), addr, p.dim(count(len(o.Action.Changes), "change")))
				for _, c := range o.Also {
					p.Linef("    also put back, dropped by the kernel meanwhile: %s", c.Attribute)
				}
			case o.Err != nil:
				p.Linef("%s %s: %s", p.bad("✗"), addr, o.Err)
			case h.Fate == apply.Waiting && o.Action.Stage == resource.StagePersist:
				p.Linef("%s %s  %s", p.warn("-"), addr, p.dim("written when it is confirmed"))
			default:
				p.Linef("%s %s  %s", p.warn("-"), addr, p.dim("not tried"))
			}
		}
	}
	p.Fates(hosts)
}

// Fates prints how each host's transaction ended; hosts that ended alike are one line.
func (p *Printer) Fates(hosts []apply.HostOutcome) {
	by := map[string][]string{}
	var order []string
	for _, h := range hosts {
		if h.Fate == "" || h.Fate == apply.Untouched && len(h.Outcomes) == 0 {
			continue
		}
		key := string(h.Fate)
		if h.Fate != apply.Committed && h.Why != "" {
			key += ": " + h.Why
		}
		for _, l := range h.Left {
			key += "\n    " + l
		}
		if by[key] == nil {
			order = append(order, key)
		}
		by[key] = append(by[key], h.Host)
	}
	for _, key := range order {
		symbol := p.bad("✗")
		switch {
		case strings.HasPrefix(key, string(apply.Committed)):
			symbol = p.good("✓")
		case strings.HasPrefix(key, string(apply.Reverted)), strings.HasPrefix(key, string(apply.Waiting)), key == string(apply.Untouched):
			symbol = p.warn("!")
		}
		p.Linef("%s %s  %s", symbol, p.bold(planner.Names(by[key])), key)
	}
}

// Results prints the verdicts of live checks, grouped by link as they come.
func (p *Printer) Results(results []validators.Result) {
	groups := group(results)
	tally := verdicts(results)
	if len(groups) > foldFrom {
		p.folded(groups)
	} else {
		for _, g := range groups {
			p.checked(g)
		}
	}
	p.Linef("")
	sum := fmt.Sprintf("%d passed, %d failed, %d warned, %d skipped", tally[validators.Pass], tally[validators.Fail], tally[validators.Warn], tally[validators.Skip])
	switch {
	case tally[validators.Fail] > 0:
		p.Linef("%s %s", p.bad("✗ Fabric not proven:"), sum)
	case slices.ContainsFunc(results, outOfReach):
		p.Linef("%s %s; what could not be reached was not proven", p.warn("! Proven in part:"), sum)
	case tally[validators.Pass] == 0:
		p.Linef("%s %s", p.warn("Nothing was proven:"), sum)
	default:
		p.Linef("%s %s", p.good("✓ Fabric proven:"), sum)
	}
}

// outOfReach says whether a check was skipped because its host did not answer.
func outOfReach(r validators.Result) bool {
	return r.Verdict == validators.Skip && strings.Contains(r.Cause, "could not be reached")
}

// group splits results where their heading changes.
func group(results []validators.Result) [][]validators.Result {
	var out [][]validators.Result
	for _, r := range results {
		if n := len(out); n == 0 || heading(out[n-1][0]) != heading(r) {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], r)
	}
	return out
}

func verdicts(results []validators.Result) map[validators.Verdict]int {
	out := map[validators.Verdict]int{}
	for _, r := range results {
		out[r.Verdict]++
	}
	return out
}

func heading(r validators.Result) string {
	switch {
	case r.Check == "parity":
		return "hosts beside each other"
	case strings.Contains(r.Link, ":"):
		return "path " + r.Link
	case strings.HasPrefix(r.Link, "port group "):
		return r.Link
	case r.Link != "":
		return "link " + r.Link
	}
	return "host " + r.Host
}

func (p *Printer) checked(g []validators.Result) {
	p.Linef("%s", p.bold(heading(g[0])))
	for _, r := range g {
		p.result(r)
	}
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
