package view

import (
	"fmt"
	"html"
	"strings"

	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/validators"
)

// markdownLimit keeps a comment below the limits of code hosts: 65,536 characters at GitHub, 1,000,000 at
// GitLab.
const markdownLimit = 60_000

// PlanMarkdown formats a plan for a pull request: the summary first, then each group of hosts, folded. It
// leaves out groups that do not fit, and counts them.
func PlanMarkdown(p *planner.Plan, notes []string) string {
	s := summarise(p)
	var b strings.Builder
	switch {
	case s.Problems > 0:
		fmt.Fprintf(&b, "### ❌ fabricform: plan of `%s` refused, %s\n\n", p.Fabric, Count(s.Problems, "problem"))
	case s.Changes == 0 && len(s.Unreachable)+len(s.Stale) > 0:
		fmt.Fprintf(&b, "### ⚠️ fabricform: no changes of `%s`%s\n\n", p.Fabric, except(p))
	case s.Changes == 0:
		fmt.Fprintf(&b, "### ✅ fabricform: no changes, `%s` is as declared\n\n", p.Fabric)
	default:
		fmt.Fprintf(&b, "### 📋 fabricform: %s on %s of `%s`; worst disruption: %s\n\n", Count(s.Changes, "change"), Count(s.Hosts, "host"), p.Fabric, s.Worst)
	}
	for _, h := range p.Hosts {
		for _, q := range h.Problems {
			fmt.Fprintf(&b, "- ❌ `%s` %s\n", q.Addr, escape(q.Message))
		}
		if len(h.Stale) > 0 {
			fmt.Fprintf(&b, "- ❌ `%s` changed since the plan was saved, and was skipped: %s\n", h.Name, escape(strings.Join(h.Stale, "; ")))
		}
		if h.Unreachable != "" {
			fmt.Fprintf(&b, "- ⚠️ `%s` is unreachable and was skipped with its links: %s\n", h.Name, escape(h.Unreachable))
		}
	}
	for _, m := range p.Vanished {
		fmt.Fprintf(&b, "- ⚠️ `%s` (%s) was removed from the files, but its changes remain; to undo them, run %s\n", m.Name, escape(m.Address), clean(p.Invocation.Hint("destroy", "-host", m.Name)))
	}
	for _, n := range notes {
		fmt.Fprintf(&b, "- %s\n", escape(n))
	}
	groups := p.Groups()
	for i, g := range groups {
		part := groupMarkdown(g)
		if b.Len()+len(part) > markdownLimit {
			fmt.Fprintf(&b, "\n%s more did not fit; run %s to see them.\n", Count(len(groups)-i, "group"), clean(p.Invocation.Hint("plan")))
			break
		}
		b.WriteString(part)
	}
	return b.String()
}

func groupMarkdown(g planner.Group) string {
	var d strings.Builder
	for _, a := range g.Actions {
		if a.Op == planner.Keep {
			continue
		}
		if a.Op == planner.Reconnect {
			fmt.Fprintf(&d, "! %s.%s: must accept a new connection before the following changes\n", a.Kind, a.Name)
			continue
		}
		symbol := map[planner.Op]string{planner.Create: "+", planner.Update: "!", planner.Undo: "-"}[a.Op]
		fmt.Fprintf(&d, "%s %s.%s [%s]\n", symbol, a.Kind, a.Name, a.Worst)
		for _, c := range a.Changes {
			switch {
			case c.From == "":
				fmt.Fprintf(&d, "+   %s  %s", c.Attribute, c.To)
			case c.To == "":
				fmt.Fprintf(&d, "-   %s  %s", c.Attribute, c.From)
			default:
				fmt.Fprintf(&d, "!   %s  %s → %s", c.Attribute, c.From, c.To)
			}
			d.WriteString(onHosts(c))
			if c.Drift {
				d.WriteString("   (drifted)")
			}
			d.WriteString("\n")
		}
	}
	count := Count(g.Each, "change")
	if len(g.Hosts) > 1 {
		count += fmt.Sprintf(" on each of %d hosts", len(g.Hosts))
	}
	return fmt.Sprintf("\n<details><summary><b>%s</b>: %s</summary>\n\n```diff\n%s```\n\n</details>\n",
		html.EscapeString(clean(planner.Names(g.Hosts))), count, strings.ReplaceAll(clean(d.String()), "```", "ˋˋˋ"))
}

// resultsMarkdown formats the checks as a table, failures and warnings first.
func resultsMarkdown(results []validators.Result) string {
	n := tally(results)
	var b strings.Builder
	sign := "✅"
	switch {
	case n.Fail > 0:
		sign = "❌"
	case n.Warn > 0 || n.Pass == 0:
		sign = "⚠️"
	}
	fmt.Fprintf(&b, "### %s checks: %d passed, %d failed, %d warned, %d skipped\n\n| | check | where | what | measured | wanted | cause |\n|---|---|---|---|---|---|---|\n",
		sign, n.Pass, n.Fail, n.Warn, n.Skip)
	for _, verdict := range []validators.Verdict{validators.Fail, validators.Warn, validators.Pass} {
		for _, r := range results {
			if r.Verdict != verdict {
				continue
			}
			if b.Len() > markdownLimit {
				b.WriteString("\nMore did not fit.\n")
				return b.String()
			}
			symbol := map[validators.Verdict]string{validators.Pass: "✅", validators.Fail: "❌", validators.Warn: "⚠️"}[r.Verdict]
			fmt.Fprintf(&b, "| %s | %s | %s %s | %s | %s | %s | %s |\n", symbol, r.Check, escape(heading(r)), escape(where(r)), escape(What(r)), escape(Measured(r)), escape(Expected(r)), escape(Why(r)))
		}
	}
	return b.String()
}

// escape escapes the characters that Markdown and HTML interpret.
func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "|", "\\|", "`", "'", "\n", " ", "[", "\\[", "*", "\\*", "_", "\\_", "@", "@\u200b").Replace(clean(s))
}
