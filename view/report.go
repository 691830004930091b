package view

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/validators"
)

// Walk prints the outcome of each action, then the fates.
func (p *Printer) Walk(hosts []apply.HostOutcome) {
	for _, h := range hosts {
		for _, o := range h.Outcomes {
			addr := o.Action.Resource.Addr
			switch {
			case o.Done && o.Action.Tidies():
			case o.Done && o.Action.Op == planner.Reconnect:
				p.Linef("%s %s  %s", p.good("✓"), addr, p.dim("accepted a new connection"))
			case o.Done && len(o.Action.Changes)+len(o.Also) == 0:
				p.Linef("%s %s  %s", p.good("✓"), addr, p.dim("unchanged"))
			case o.Done:
				p.Linef("%s %s  %s", p.good("✓"), addr, p.dim(Count(len(o.Action.Changes), "change")))
				for _, c := range o.Also {
					p.Linef("    also restored, after the kernel had dropped it: %s", c.Attribute)
				}
			case o.Err != nil:
				p.Linef("%s %s: %s", p.bad("✗"), addr, o.Err)
			case h.Fate == apply.Waiting && o.Action.Stage == resource.StagePersist:
				p.Linef("%s %s  %s", p.warn("-"), addr, p.dim("pending: written by fabricform confirm"))
			}
		}
	}
	for _, n := range notTried(hosts) {
		p.Linef("%s %s  %s", p.warn("-"), p.bold(n.hosts), p.dim("not tried: "+n.what))
	}
	p.Fates(hosts)
}

// untried are resources that were not tried, and the hosts of which that is true.
type untried struct{ hosts, what string }

// notTried folds what was not tried: after an interrupt, that may be the whole plan.
func notTried(hosts []apply.HostOutcome) (out []untried) {
	by := map[string][]string{}
	var order []string
	for _, h := range hosts {
		var names []string
		for _, o := range h.Outcomes {
			if pending := h.Fate == apply.Waiting && o.Action.Stage == resource.StagePersist; !o.Done && o.Err == nil &&
				o.Failed == "" && !pending {
				names = append(names, o.Action.Resource.Addr.Kind+"."+o.Action.Resource.Addr.Name)
			}
		}
		what := strings.Join(names, ", ")
		if by[what] == nil {
			order = append(order, what)
		}
		by[what] = append(by[what], h.Host)
	}
	for _, what := range order {
		if what != "" {
			out = append(out, untried{planner.Names(by[what]), what})
		}
	}
	return out
}

// Fates prints how each host's transaction ended, on one line for hosts with the same fate.
func (p *Printer) Fates(hosts []apply.HostOutcome) {
	type end struct {
		fate       apply.Fate
		text, left string
	}
	by, left := map[end][]string{}, map[end][]string{}
	var order []end
	for _, h := range hosts {
		if h.Fate == "" || h.Fate == apply.Untouched && len(h.Outcomes) == 0 {
			continue
		}
		e := end{fate: h.Fate, text: h.Fate.String()}
		if h.Fate != apply.Committed && h.Why != "" {
			e.text += ": " + h.Why
		}
		below := slices.Concat(h.Unrestored, ofOthers(h.Host, h.Kept, h.Overwritten))
		e.left = strings.Join(below, "\n")
		if left[e] = below; by[e] == nil {
			order = append(order, e)
		}
		by[e] = append(by[e], h.Host)
	}
	for _, e := range order {
		symbol := p.bad("✗")
		switch e.fate {
		case apply.Committed:
			symbol = p.good("✓")
		case apply.Reverted, apply.Waiting, apply.Untouched:
			symbol = p.warn("!")
		}
		p.Linef("%s %s  %s", symbol, p.bold(planner.Names(by[e])), e.text)
		for _, l := range left[e] {
			p.Linef("    %s", l)
		}
	}
}

// Results prints the results of live checks, grouped by subject, in their order. part: only some hosts or links were
// chosen.
func (p *Printer) Results(results []validators.Result, part bool) {
	groups := group(results)
	n := tally(results)
	if len(groups) > foldFrom {
		p.printFolded(groups)
	} else {
		for _, g := range groups {
			p.printChecked(g)
		}
	}
	p.Linef("")
	sum := fmt.Sprintf("%d passed, %d failed, %d warned, %d skipped", n.Pass, n.Fail, n.Warn, n.Skip)
	switch {
	case n.Fail > 0:
		p.Linef("%s %s", p.bad("✗ Fabric not verified:"), sum)
	case slices.ContainsFunc(results, unread):
		p.Linef("%s %s; unreachable hosts were not verified", p.warn(partly(results)), sum)
	case slices.ContainsFunc(results, func(r validators.Result) bool { return r.Skipped == validators.NotApplied }):
		p.Linef("%s %s; what was left out was not verified", p.warn(partly(results)), sum)
	case slices.ContainsFunc(results, unmade):
		p.Linef("%s %s; a check that the files declare was not made", p.warn(partly(results)), sum)
	case n.Pass == 0:
		p.Linef("%s %s", p.warn("Nothing was verified:"), sum)
	case n.Warn > 0:
		p.Linef("%s %s", p.warn("! "+verified(results, part)+", with warnings:"), sum)
	default:
		p.Linef("%s %s", p.good("✓ "+verified(results, part)+":"), sum)
	}
	for _, what := range unprovable(results) {
		p.Linef("%s %s", p.warn("! Not proven in this lab:"), what)
	}
	said := map[string]bool{}
	for _, r := range results {
		hosts := r.Hosts
		if hosts == nil {
			hosts = []string{r.Host, r.Peer}
			slices.Sort(hosts)
		}
		if what := fmt.Sprintf("%s on %s: %s", r.Check, planner.Names(hosts), r.Cause); unmade(r) && !said[what] {
			said[what] = true
			p.Linef("%s %s", p.warn("! Not proven:"), what)
		}
	}
}

// unmade reports whether the result is of a job that the files declare and that no host has started, or of a class that no counter shows.
func unmade(r validators.Result) bool {
	return r.Check == validators.CheckNCCL && r.Item == validators.Job && r.Skipped == validators.NoLogins || r.Skipped == validators.NoPriorities
}

// unprovable names what no lab of this kind can prove, each with its cause.
func unprovable(results []validators.Result) (out []string) {
	for _, r := range results {
		about := string(r.Check)
		if r.Item == validators.NCCLPort {
			about += " over RDMA"
		}
		if what := about + ": " + r.Cause; r.Skipped == validators.InLab && !slices.Contains(out, what) {
			out = append(out, what)
		}
	}
	return out
}

// partly names the checks that passed, where others could not be made.
func partly(results []validators.Result) string {
	if names := passed(results); len(names) > 0 {
		return "! Partly verified (" + strings.Join(names, ", ") + "):"
	}
	return "! Nothing was verified:"
}

// verified names the checks that passed. The fabric is verified only if every check of a path was asked for, on all
// hosts and links.
func verified(results []validators.Result, part bool) string {
	asked := map[validators.Check]bool{}
	for _, r := range results {
		asked[r.Check] = true
	}
	what := "Fabric verified"
	if part {
		what = "Verified"
	}
	for _, row := range validators.Table {
		if !row.OfHosts && !row.Name.Optional() && !asked[row.Name] {
			what = "Verified"
		}
	}
	return what + " (" + strings.Join(passed(results), ", ") + ")"
}

// passed names the checks of which a result passed.
func passed(results []validators.Result) (names []string) {
	for _, r := range results {
		if name := string(r.Check); r.Verdict == validators.Pass && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// group splits results where the subject changes.
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

// Tally counts verdicts.
type Tally struct {
	Pass int `json:"pass"`
	Fail int `json:"fail"`
	Warn int `json:"warn"`
	Skip int `json:"skip"`
}

func tally(results []validators.Result) (n Tally) {
	for _, r := range results {
		switch r.Verdict {
		case validators.Pass:
			n.Pass++
		case validators.Fail:
			n.Fail++
		case validators.Warn:
			n.Warn++
		case validators.Skip:
			n.Skip++
		}
	}
	return n
}

func heading(r validators.Result) string {
	switch s := r.Subject; s.Kind {
	case validators.SubjectHosts:
		return "hosts compared"
	case validators.SubjectNetwork:
		return "path " + s.Path
	case validators.SubjectGroup:
		return "port group " + s.Name
	default:
		return string(s.Kind) + " " + s.Name
	}
}

func (p *Printer) printChecked(g []validators.Result) {
	p.Linef("%s", p.bold(heading(g[0])))
	p.list(g)
}

// list prints results below each other, with aligned columns. Checks that an unreachable host prevents are one line.
func (p *Printer) list(results []validators.Result) {
	var c columns
	for _, r := range results {
		c.check, c.where, c.what = max(c.check, columnOf(string(r.Check))), max(c.where, columnOf(where(r))), max(c.what, columnOf(What(r)))
	}
	for len(results) > 0 {
		first := results[0]
		n := 1 // results with the same cause
		names := string(first.Check)
		for ; unread(first) && n < len(results) && unread(results[n]) && results[n].Cause == first.Cause && where(results[n]) == where(first); n++ {
			if results[n].Check != results[n-1].Check {
				names += ", " + string(results[n].Check)
			}
		}
		if n > 1 {
			p.Linef("  %s %s  %s  %s", p.dim("-"), names, where(first), p.dim("skipped: "+first.Cause))
		} else {
			p.result(first, c)
		}
		results = results[n:]
	}
}

// columns are the widths of the first columns of a list of results.
type columns struct{ check, where, what int }

// columnOf returns how wide a column must be for a value, as it is printed. A long value does not widen its column.
func columnOf(value string) int {
	if n := utf8.RuneCountInString(neutral(value)); n <= 24 {
		return n
	}
	return 0
}

// subjectAndHosts names the subject and the hosts, each host once.
func subjectAndHosts(r validators.Result) string {
	subject, hosts := heading(r), where(r)
	if r.Subject.Kind == validators.SubjectHost && r.Subject.Name == hosts {
		return subject
	}
	return subject + " " + hosts
}

// where names the hosts on which a result was measured.
func where(r validators.Result) string {
	switch {
	case r.Subject.Kind == validators.SubjectHosts:
		return planner.Names(r.Hosts)
	case r.Peer != "" && r.Host == "": // the same result from several hosts
		return planner.Names(r.Hosts) + " → " + r.Peer
	case r.Item == validators.LoginFailed && r.Peer == "":
		return r.Host + " → " + planner.Names(r.Hosts)
	case r.Peer != "":
		return r.Host + " → " + r.Peer
	}
	return r.Host
}

func (p *Printer) result(r validators.Result, c columns) {
	symbol := map[validators.Verdict]styled{
		validators.Pass: p.good("✓"), validators.Fail: p.bad("✗"), validators.Warn: p.warn("!"), validators.Skip: p.dim("-"),
	}[r.Verdict]
	line := compose("  %s %-*s  %-*s  %-*s", symbol, c.check, r.Check, c.where, where(r), c.what, What(r))
	if measured := Measured(r); measured != "" {
		line += compose("  %s", measured)
	}
	if r.Verdict == validators.Skip {
		if len(r.Values) > 0 {
			p.Linef("%s  %s", line, p.dim("(not judged: "+r.Cause+")"))
			return
		}
		p.Linef("%s  %s", line, p.dim("skipped: "+r.Cause))
		return
	}
	line = styled(strings.TrimRight(string(line), " "))
	if expected := Expected(r); expected != "" {
		line += p.dim("  (want " + expected + ")")
	}
	p.Linef("%s", line)
	if why := Why(r); why != "" {
		p.Linef("      %s", why)
	}
	for _, line := range r.Diff {
		p.Linef("      %s", line)
	}
}
