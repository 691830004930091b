package view

import (
	"time"

	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
)

// Applied is one apply, destroy, rollback or revert on all its hosts.
type Applied struct {
	resource.Entry
	Hosts  []string
	Total  int // changes on all hosts
	Others []Others
}

// Others is what a revert did with the changes of others on a host.
type Others struct {
	Host              string
	Kept, Overwritten []resource.Change
}

// lines has a line for each change.
func (o Others) lines() (out []string) {
	for _, c := range o.Kept {
		out = append(out, o.Host+": kept: "+byOthers(c))
	}
	for _, c := range o.Overwritten {
		out = append(out, o.Host+": overwritten, though the apply had not set it: "+fromTo(c))
	}
	return out
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

// History prints the applies, the oldest first. among limits what it says to the hosts that were read.
func (p *Printer) History(list []Applied, among string) {
	if len(list) == 0 {
		p.Linef("Nothing has been applied%s.", among)
		return
	}
	for _, a := range list {
		symbol := p.good("✓")
		if a.Failed != "" {
			symbol = p.bad("✗")
		}
		p.Linef("%s %s  %-8s %s on %s  %s", symbol, a.Time.Local().Format(time.DateTime), a.Command, Count(a.Total, "change"), planner.Names(a.Hosts), p.dim(about(a.Entry)))
		for _, o := range a.Others {
			for _, l := range o.lines() {
				p.Linef("    %s", l)
			}
		}
		if a.Failed != "" {
			p.Linef("    %s", a.Failed)
		}
	}
}

// about says who did it, and why or from which files.
func about(e resource.Entry) string {
	text := "by " + e.Who
	for _, more := range []string{e.Why, e.Source} {
		if more != "" {
			text += ", " + more
		}
	}
	return text + ", plan " + e.Plan
}
