package view

import (
	"fmt"
	"html"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

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
		fmt.Fprintf(&b, "### ❌ fabricform: plan of %s refused, %s\n\n", code(p.Fabric), Count(s.Problems, "problem"))
	case s.Changes == 0 && len(s.Unreachable)+len(s.Stale) > 0:
		fmt.Fprintf(&b, "### ⚠️ fabricform: no changes of %s%s\n\n", code(p.Fabric), except(p))
	case s.Changes == 0:
		fmt.Fprintf(&b, "### ✅ fabricform: no changes, %s\n\n", asDeclared(p, code(p.Fabric)))
	default:
		fmt.Fprintf(&b, "### 📋 fabricform: %s on %s of %s; worst disruption: %s\n\n",
			Count(s.Changes, "change"), Count(s.Hosts, "host"), code(p.Fabric), s.Worst)
	}
	for _, h := range p.Hosts {
		for _, q := range h.Problems {
			fmt.Fprintf(&b, "- ❌ %s %s\n", code(q.Addr.String()), escape(q.Message))
		}
		if len(h.Stale) > 0 {
			fmt.Fprintf(&b, "- ❌ %s changed since the plan was saved, and was skipped: %s\n",
				code(h.Name), escape(strings.Join(h.Stale, "; ")))
		}
		if h.Unreachable != "" {
			fmt.Fprintf(&b, "- ⚠️ %s is unreachable and was %s: %s\n", code(h.Name), skipped(p), escape(h.Unreachable))
		}
	}
	for _, l := range adopts(p) {
		fmt.Fprintf(&b, "- %s\n", escape(l))
	}
	for _, l := range leftOut(p) {
		fmt.Fprintf(&b, "- ⚠️ %s\n", escape(l))
	}
	for _, m := range p.Vanished {
		fmt.Fprintf(&b, "- ⚠️ %s (%s) was removed from the files, but its changes remain; to undo them, run %s\n",
			code(m.Name), escape(m.Address), code(p.Invocation.Command("destroy", "-host", m.Name)))
	}
	for _, n := range notes {
		fmt.Fprintf(&b, "- %s\n", escape(n))
	}
	groups := p.Groups()
	for i, g := range groups {
		part := groupMarkdown(g)
		if b.Len()+len(part) > markdownLimit {
			fmt.Fprintf(&b, "\n%s more did not fit; run %s to see them.\n",
				Count(len(groups)-i, "group"), code(p.Invocation.Command("plan")))
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
			d.WriteString(string(compose("! %s.%s: must accept a new connection before the following changes\n", a.Kind, a.Name)))
			continue
		}
		symbol := map[planner.Op]string{planner.Create: "+", planner.Update: "!", planner.Undo: "-"}[a.Op]
		if len(a.Changes) == 0 {
			symbol = " "
		}
		disruption := " [" + a.Worst.String() + "]"
		if len(a.Changes) == 0 {
			disruption = ""
		}
		d.WriteString(string(compose("%s %s.%s%s\n", symbol, a.Kind, a.Name, disruption)))
		for _, c := range a.Changes {
			switch {
			case c.From == "":
				d.WriteString(string(compose("+   %s  %s", c.Attribute, c.To)))
			case c.To == "":
				d.WriteString(string(compose("-   %s  %s", c.Attribute, c.From)))
			default:
				d.WriteString(string(compose("!   %s  %s → %s", c.Attribute, c.From, c.To)))
			}
			d.WriteString(neutral(onHosts(c)))
			if c.Drift {
				d.WriteString("   (drifted)")
			}
			d.WriteString("\n")
		}
		for _, c := range a.Kept {
			d.WriteString(string(compose("    %s\n", byOthers(c))))
		}
		if len(a.Adopted) > 0 {
			d.WriteString(string(compose("    %s %s\n", List(a.Adopted), left)))
		}
	}
	count := Count(g.Each, "change")
	if len(g.Hosts) > 1 {
		count += fmt.Sprintf(" on each of %d hosts", len(g.Hosts))
	}
	return fmt.Sprintf("\n<details><summary><b>%s</b>: %s</summary>\n\n```diff\n%s```\n\n</details>\n",
		html.EscapeString(inert(planner.Names(g.Hosts))), count, strings.ReplaceAll(d.String(), "```", "ˋˋˋ"))
}

// resultsMarkdown formats the checks as a table, failures and warnings first.
func resultsMarkdown(results []validators.Result) string {
	n := tally(results)
	var b strings.Builder
	sign, skipped := "✅", map[string]int{}
	for _, r := range results {
		if r.Verdict == validators.Skip {
			skipped[r.Cause]++
		}
	}
	switch {
	case n.Fail > 0:
		sign = "❌"
	case n.Warn > 0 || n.Pass == 0 || len(unprovable(results)) > 0 || slices.ContainsFunc(results, unread):
		sign = "⚠️"
	}
	fmt.Fprintf(&b, "### %s checks: %d passed, %d failed, %d warned, "+
		"%d skipped\n\n| | check | where | what | measured | wanted | cause |\n|---|---|---|---|---|---|---|\n",
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
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", symbol, escape(string(r.Check)), escape(subjectAndHosts(r)),
				escape(What(r)), escape(Measured(r)), escape(Expected(r)), escape(Why(r)))
		}
	}
	b.WriteString("\n")
	for _, cause := range slices.Sorted(maps.Keys(skipped)) {
		if b.Len() > markdownLimit {
			b.WriteString("\nMore did not fit.\n")
			break
		}
		fmt.Fprintf(&b, "- %s skipped: %s\n", Count(skipped[cause], "check"), escape(cause))
	}
	return b.String()
}

// unread reports whether a check was skipped because its host could not be read.
func unread(r validators.Result) bool { return r.Skipped == validators.HostUnreachable }

// markup are the characters that Markdown and HTML interpret.
var markup = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `\`, `\\`, "|", `\|`, "`", "\\`", "[", `\[`, "]", `\]`, "*", `\*`,
	"_", `\_`, "~", `\~`, "#", `\#`, "!", `\!`, "$", `\$`)

// references is what code hosts turn into links and mentions. A zero-width space prevents that.
var references = strings.NewReplacer("://", ":\u200b//", "www.", "www\u200b.", "@", "@\u200b")

// emoji matches the name of an emoji, such as that of a green tick. Names of hexadecimal digits alone are left out: they
// are parts of addresses.
var emoji = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`:([a-z0-9_+-]*[g-z_+-][a-z0-9_+-]*:)`) })

// inert returns a text without characters that do not print, in which code hosts find no link, mention or emoji.
func inert(s string) string {
	return references.Replace(emoji().ReplaceAllString(neutral(s), ":\u200b$1"))
}

// escape returns a text that Markdown shows as it is.
func escape(s string) string { return markup.Replace(inert(s)) }

// code returns a text as a code span, which ends nowhere in the text: its fence is longer than every run of backticks.
func code(s string) string {
	s = neutral(s)
	fence := "`"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	if len(fence) > 1 || strings.TrimSpace(s) == "" {
		return fence + " " + s + " " + fence
	}
	return fence + s + fence
}
