package view

import (
	"time"

	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
)

// ofOthers has a line for each change of others that a revert found on the host.
func ofOthers(host string, kept, overwritten []resource.Change) (out []string) {
	for _, c := range kept {
		out = append(out, host+": "+c.Atom.Owner()+": "+byOthers(c))
	}
	for _, c := range overwritten {
		out = append(out, host+": "+c.Atom.Owner()+": overwritten, though fabricform had not set it: "+fromTo(c))
	}
	return out
}

// Others warns of what a revert did with the changes of others.
func (p *Printer) Others(list []apply.Others) {
	for _, o := range list {
		for _, l := range ofOthers(o.Host, o.Kept, o.Overwritten) {
			p.Linef("warning: %s", l)
		}
	}
}

func fromTo(c resource.Change) string {
	switch {
	case c.From == "":
		return c.Attribute + " " + c.To + " is back"
	case c.To == "":
		return c.Attribute + " " + c.From + " was removed"
	}
	return c.Attribute + " " + c.From + " → " + c.To
}

// Among limits a sentence about all hosts to those that answered.
func Among(unreachable map[string]string) string {
	if len(unreachable) == 0 {
		return ""
	}
	return " on the hosts that answered"
}

// Pending prints open transactions, and what could not be restored by those whose rollback failed.
func (p *Printer) Pending(open []apply.HostTransaction, by fabric.Invocation) {
	for _, t := range open {
		p.Linef("%s  %s", t.Host, apply.Describe(t.TxInfo, by))
		for _, l := range t.Unrestored {
			p.Linef("    %s", l)
		}
	}
}

// History prints the applies, the oldest first.
func (p *Printer) History(list []apply.Applied, unreachable map[string]string) {
	if len(list) == 0 {
		p.Linef("Nothing has been applied%s.", Among(unreachable))
		return
	}
	for _, a := range list {
		symbol := p.good("✓")
		if a.Failed != "" {
			symbol = p.bad("✗")
		}
		what := Count(a.Total, "change")
		if a.Adopted > 0 {
			what += ", " + Count(a.Adopted, "value") + " adopted"
		}
		p.Linef("%s %s  %-8s %s on %s  %s", symbol, a.Time.Local().Format(time.DateTime), a.Command, what,
			planner.Names(a.Hosts), p.dim(about(a.HistoryEntry)))
		for _, o := range a.Others {
			for _, l := range ofOthers(o.Host, o.Kept, o.Overwritten) {
				p.Linef("    %s", l)
			}
		}
		if a.Failed != "" {
			p.Linef("    %s", a.Failed)
		}
	}
}

// about says who did it, and why or from which files.
func about(e resource.HistoryEntry) string {
	text := "by " + e.Who
	for _, more := range []string{e.Why, e.Source} {
		if more != "" {
			text += ", " + more
		}
	}
	return text + ", plan " + e.Plan
}
