package view

import (
	"time"

	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
)

// Applied is one apply or destroy on all its hosts.
type Applied struct {
	resource.Entry
	Hosts []string
	Total int // changes on all hosts
}

// History prints the applies, the oldest first. among limits what it says to the hosts that were read.
func (p *Printer) History(list []Applied, among string) {
	if len(list) == 0 {
		p.Linef("Nothing has been applied%s, or everything was destroyed since.", among)
		return
	}
	for _, a := range list {
		symbol := p.good("✓")
		if a.Failed != "" {
			symbol = p.bad("✗")
		}
		p.Linef("%s %s  %-7s %s on %s  %s", symbol, a.Time.Local().Format(time.DateTime), a.Command, Count(a.Total, "change"), planner.Names(a.Hosts), p.dim("by "+a.Who+", "+a.Source+", plan "+a.Plan))
		if a.Failed != "" {
			p.Linef("    %s", a.Failed)
		}
	}
}
