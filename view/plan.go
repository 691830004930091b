package view

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
)

// Plan prints the planned changes of each group of hosts, and a summary.
func (p *Printer) Plan(plan *planner.Plan, notes []string) {
	var converged []string
	resources := 0
	for _, h := range plan.Hosts {
		switch {
		case h.Unreachable != "":
			p.Linef("%s %s: unreachable; %s: %s", p.bad("✗"), p.bold(h.Name), skipped(plan), h.Unreachable)
		case len(h.Stale) > 0:
			p.Linef("%s host %s changed since the plan was saved, and is skipped:", p.bad("✗"), p.bold(h.Name))
			for _, how := range h.Stale {
				p.Linef("    %s", how)
			}
		case len(h.Problems) > 0:
			p.problems(h)
		case len(h.Shown())+len(h.LeftOut) == 0:
			converged = append(converged, h.Name)
			resources += h.Unchanged
		}
	}
	if len(converged) > 0 && plan.RollsBack != "" {
		p.Linef("%s %s %s", p.good("✓"), p.bold(planner.Names(converged)), p.dim("as before the apply"))
	} else if len(converged) > 0 {
		p.Linef("%s %s %s", p.good("✓"), p.bold(planner.Names(converged)), p.dim("as declared ("+Count(resources, "resource")+")"))
	}
	for _, g := range plan.Groups() {
		p.group(g, plan.Destroy)
	}
	for _, l := range adopts(plan) {
		p.Linef("%s %s", p.dim("·"), l)
	}
	for _, l := range leftOut(plan) {
		p.Linef("%s %s", p.warn("!"), l)
	}
	for _, m := range plan.Vanished {
		p.Linef("%s host %s (%s) was removed from the files, but its changes remain. To undo them, run %s.",
			p.warn("!"), p.bold(m.Name), m.Address, plan.Invocation.Hint("destroy", "-host", m.Name))
	}
	for _, h := range plan.Hosts {
		if e := h.Reverted; e != nil {
			p.Linef("%s host %s reverted at %s: %s", p.warn("!"), p.bold(h.Name), e.Time.Local().Format(time.DateTime), e.Why)
			for _, l := range ofOthers(h.Name, e.Kept, e.Overwritten) {
				p.Linef("    %s", l)
			}
		}
	}
	for _, n := range notes {
		p.Linef("%s %s", p.warn("!"), n)
	}
	problems, unreachable, stale := plan.Problems(), plan.Unreachable(), plan.Stale()
	if len(problems)+len(unreachable)+len(stale)+len(notes)+len(plan.LeftOut)+len(plan.Vanished) > 0 {
		p.Linef("")
	}
	switch changes := plan.Changes(); {
	case len(problems) > 0:
		p.Linef("%s %s: correct the files or the hosts before you apply.", p.bad("Plan refused."), Count(len(problems), "problem"))
	case changes == 0 && plan.RollsBack != "":
		p.Linef("%s nothing of this transaction is left to revert on the hosts that answered.", p.good("✓ No changes:"))
	case changes == 0 && len(unreachable)+len(stale) == 0:
		p.Linef("%s %s.", p.good("✓ No changes:"), asDeclared(plan, fmt.Sprintf("%q", plan.Fabric)))
	case changes == 0:
		p.Linef("%s%s.", p.warn("No changes"), except(plan))
	default:
		actions, worst := 0, resource.Live
		for _, h := range plan.Hosts {
			for _, a := range h.Actions {
				if len(a.Changes) > 0 {
					actions++
				}
				worst = max(worst, a.Disruption())
			}
		}
		p.Linef("%s %s on %s; worst disruption: %s.", p.bold("Plan:"), Count(changes, "change"), Count(actions, "resource"), worst)
	}
}

// asDeclared says what a plan without changes covers.
func asDeclared(plan *planner.Plan, name string) string {
	if plan.Destroy && plan.Forgets() {
		return "all values stay as they are, and no longer belong to fabric " + name
	}
	if plan.Destroy {
		return "nothing is left to undo of fabric " + name
	}
	if len(plan.NotChosen) == 0 {
		return "fabric " + name + " is as declared"
	}
	hosts := make([]string, 0, len(plan.Hosts))
	for _, h := range plan.Hosts {
		hosts = append(hosts, h.Name)
	}
	return fmt.Sprintf("%s of fabric %s as declared; %s not chosen", planner.Names(hosts), name, Count(len(plan.NotChosen), "host"))
}

// except says which hosts a statement about the fabric does not cover.
func except(plan *planner.Plan) string {
	var parts []string
	away, stale := len(plan.Unreachable()), len(plan.Stale())
	if away == len(plan.Hosts) {
		return ": no host could be read"
	}
	if away > 0 {
		parts = append(parts, Count(away, "host")+" not read")
	}
	if stale > 0 {
		parts = append(parts, Count(stale, "host")+" skipped, changed since the plan was saved")
	}
	if n := len(plan.NotChosen); n > 0 {
		parts = append(parts, Count(n, "host")+" not chosen")
	}
	parts = append(parts, countLeftOut(plan)...)
	if away+stale == len(plan.Hosts) {
		return ": " + strings.Join(parts, ", ")
	}
	return " on the other hosts; " + strings.Join(parts, ", ")
}

// skipped says what a plan skips with an unreachable host.
func skipped(plan *planner.Plan) string {
	if slices.ContainsFunc(plan.LeftOut, func(l planner.LeftOut) bool { return l.Half }) {
		return "skipped"
	}
	return "skipped with its links"
}

// leftOut says which links and networks a plan leaves as they are and why, and what would be changed on which hosts otherwise.
func leftOut(plan *planner.Plan) (out []string) {
	type reason struct {
		of   planner.Joint
		why  string
		half bool
	}
	names := map[reason][]string{}
	var order []reason
	for _, l := range plan.LeftOut {
		r := reason{l.Kind, missing(plan, l), l.Half}
		if names[r] == nil {
			order = append(order, r)
		}
		names[r] = append(names[r], l.Name)
	}
	for _, r := range order {
		what := fmt.Sprintf("%s %s", r.of, planner.Names(names[r]))
		if len(names[r]) > 1 {
			what = fmt.Sprintf("%ss %s", r.of, planner.Names(names[r]))
		}
		if r.half {
			out = append(out, fmt.Sprintf("%s: changed at the other ends only, although %s (-allow=half-links)", what, r.why))
		} else {
			out = append(out, fmt.Sprintf("%s: left out, because %s", what, r.why))
		}
	}
	hosts := map[string][]string{}
	var waiting []string
	for _, h := range plan.Hosts {
		var things []string
		for _, a := range h.LeftOut {
			things = append(things, a.Kind+"."+a.Name)
		}
		what := strings.Join(things, ", ")
		if len(things) > 0 && hosts[what] == nil {
			waiting = append(waiting, what)
		}
		hosts[what] = append(hosts[what], h.Name)
	}
	cure := "to make them nevertheless, run with -allow=half-links"
	if slices.ContainsFunc(plan.LeftOut, func(l planner.LeftOut) bool { return l.Saved }) {
		cure = "to make them, save a new plan once the missing hosts are reachable, or plan and apply with -allow=half-links"
	}
	for _, what := range waiting {
		out = append(out, fmt.Sprintf("%s: the changes of %s are left out with it; %s", planner.Names(hosts[what]), what, cure))
	}
	return out
}

// missing says why the hosts are missing without which a link or network is left out.
func missing(plan *planner.Plan, l planner.LeftOut) string {
	unreachable := plan.Unreachable()
	var away, stale, parts []string
	for _, host := range l.Missing {
		if _, is := unreachable[host]; is {
			away = append(away, host)
		} else {
			stale = append(stale, host)
		}
	}
	if away != nil {
		parts = append(parts, planner.Names(away)+map[bool]string{true: " is", false: " are"}[len(away) == 1]+" unreachable")
	}
	if stale != nil {
		parts = append(parts, planner.Names(stale)+" changed since the plan was saved")
	}
	return strings.Join(parts, ", and ")
}

// countLeftOut counts the links and networks that a plan leaves as they are.
func countLeftOut(plan *planner.Plan) (out []string) {
	for _, of := range []planner.Joint{planner.OfLink, planner.OfNetwork} {
		n := 0
		for _, l := range plan.LeftOut {
			if l.Kind == of && !l.Half {
				n++
			}
		}
		if n > 0 {
			out = append(out, Count(n, string(of))+" left out")
		}
	}
	return out
}

// problems prints why a host cannot be planned.
func (p *Printer) problems(h planner.HostPlan) {
	p.Linef("%s%s", p.bold(h.Name), p.dim(management(h)))
	for _, q := range h.Problems {
		place := ""
		if q.Pos.File != "" {
			place = fmt.Sprintf("%s:%d", q.Pos.File, q.Pos.Line)
		}
		p.Linef("  %s %s.%s %s", p.bad("✗"), q.Addr.Kind, q.Addr.Name, p.dim(place))
		p.Linef("      %s", q.Message)
	}
	p.Linef("")
}

// group prints the changes of a group of hosts that need the same changes.
func (p *Printer) group(g planner.Group, destroy bool) {
	what := "unchanged"
	if slices.ContainsFunc(g.Actions, func(a planner.GroupAction) bool { return a.Op == planner.Reconnect }) {
		what = "changed below"
	}
	connections := strings.Replace(facts.Management{By: g.By}.Connection(), "connection", "connections", 1)
	about := fmt.Sprintf("  (%d hosts; paths of your %s: %s)", len(g.Hosts), connections, what)
	if g.UnknownPath != "" {
		about = fmt.Sprintf("  (%d hosts; the paths of your own connections are unknown: %s)", len(g.Hosts), g.UnknownPath)
	}
	if g.Management != nil {
		about = management(*g.Management)
	}
	p.Linef("%s%s", p.bold(planner.Names(g.Hosts)), p.dim(about))
	for _, a := range g.Actions {
		p.action(a, destroy)
	}
	p.Linef("")
}

func management(h planner.HostPlan) string {
	m := h.Management
	if m.Unknown != "" {
		return "  (the path of your own connection is unknown: " + m.Unknown + ")"
	}
	if !m.Client.IsValid() {
		return ""
	}
	what := "unchanged"
	switch to := h.MovesTo(); {
	case to.IsValid():
		what = "moved to " + to.String()
	case h.Moves():
		what = "changed below"
	}
	return fmt.Sprintf("  (your %s: %s → %s via %s, %s)", m.Connection(), m.Client, m.Server, strings.Join(m.Devices, ", "), what)
}

func (p *Printer) action(a planner.GroupAction, destroy bool) {
	if a.Op == planner.Reconnect {
		p.Linef("  %s %s.%s  %s", p.warn("⇄"), a.Kind, a.Name,
			p.dim("must accept a new connection before the following changes; otherwise the host reverts"))
		return
	}
	if a.Op == planner.Keep {
		p.Linef("  %s %s.%s  %s", p.dim("·"), a.Kind, a.Name, p.dim("checked again after the change above, and restored if it differs"))
		return
	}
	if len(a.Changes)+len(a.Kept) == 0 && len(a.Adopted) > 0 {
		p.Linef("  %s %s.%s  %s %s", p.dim("·"), a.Kind, a.Name, List(a.Adopted), left)
		return
	}
	symbol, style, word := "~", p.warn, ""
	switch {
	case len(a.Changes) == 0:
		symbol, style = "·", p.dim
	case a.Op == planner.Create:
		symbol, style = "+", p.good
	case a.Op == planner.Undo:
		symbol, style, word = "-", p.bad, "no longer declared: restored  "
		if destroy {
			word = "destroy: restored  "
		}
	}
	disruption := p.dim("[" + a.Worst.String() + "]")
	if len(a.Changes) == 0 {
		disruption = p.dim("nothing to do")
	}
	p.Linef("  %s %s.%s  %s%s", style(symbol), a.Kind, a.Name, word, disruption)
	width := 0
	for _, c := range a.Changes {
		width = max(width, len(c.Attribute))
	}
	for _, c := range a.Changes {
		name := c.Attribute + strings.Repeat(" ", width-len(c.Attribute))
		why := compose("%s", onHosts(c))
		if c.Drift {
			why += p.dim("  drifted: changed since the last apply")
		}
		switch {
		case c.From == "":
			p.Linef("      %s %s  %s%s", p.good("+"), name, c.To, why)
		case c.To == "":
			p.Linef("      %s %s  %s%s", p.bad("-"), name, c.From, why)
		default:
			p.Linef("      %s %s  %s → %s%s", p.warn("~"), name, c.From, c.To, why)
		}
	}
	for _, c := range a.Kept {
		p.Linef("      %s %s", p.dim("·"), byOthers(c))
	}
	if len(a.Adopted) > 0 {
		p.Linef("      %s %s %s", p.dim("·"), List(a.Adopted), left)
	}
}

// left says why an undo leaves values.
const left = "left: adopted, it was there before"

// maxNamed is how many resources a remark names.
const maxNamed = 6

// adopts says what an apply of the plan adopts, in one line for all hosts that have it in common.
func adopts(plan *planner.Plan) (out []string) {
	hosts := map[string][]string{}
	var order []string
	for _, h := range plan.Hosts {
		var names []string
		for _, a := range h.Adopts {
			names = append(names, a.Addr.Kind+"."+a.Addr.Name)
		}
		if names == nil || len(h.Problems) > 0 {
			continue
		}
		what := List(names[:min(len(names), maxNamed)])
		if more := len(names) - maxNamed; more > 0 {
			what += fmt.Sprintf(" and %d more", more)
		}
		if hosts[what] == nil {
			order = append(order, what)
		}
		hosts[what] = append(hosts[what], h.Name)
	}
	for _, what := range order {
		out = append(out, fmt.Sprintf("%s: adopted by the first apply, because they are as declared already: %s; destroy leaves them", planner.Names(hosts[what]), what))
	}
	return out
}

// byOthers says what somebody else did, and that it stays so.
func byOthers(c resource.Change) string {
	switch {
	case c.From == "":
		return c.Attribute + " " + c.To + " was added by someone else since, and is kept"
	case c.To == "":
		return c.Attribute + " " + c.From + " was removed by someone else since, and stays so"
	}
	return c.Attribute + " was changed by someone else since (" + c.From + " → " + c.To + "), and is kept"
}

// onHosts names the hosts of a change, unless it is the same on all hosts of its group.
func onHosts(c planner.GroupChange) string {
	if c.Hosts == nil {
		return ""
	}
	return "  on " + planner.Names(c.Hosts)
}

// Count returns a number with its noun, in the plural unless it is 1.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Question asks whether the plan may be applied.
func Question(p *planner.Plan) string {
	switch {
	case p.Destroy && p.Changes() == 0:
		return "Give the values up? Type \"yes\" to do so: "
	case p.RollsBack == "":
		return "Apply these changes? Type \"yes\" to apply: "
	case p.Changes() == 0:
		return "Mark the transaction as rolled back? Type \"yes\" to do so: "
	}
	return "Roll back? Type \"yes\" to make these changes: "
}

// List joins names with commas.
func List[T ~string](names []T) string {
	var b strings.Builder
	for i, n := range names {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(string(n))
	}
	return b.String()
}

// Unreachable prints why hosts are unreachable, one line for each, in the order of names.
func (p *Printer) Unreachable(hosts map[string]string) {
	for _, n := range slices.Sorted(maps.Keys(hosts)) {
		p.Linef("%s %s: %s", p.bad("✗ unreachable"), p.bold(n), hosts[n])
	}
}
