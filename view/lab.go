package view

import (
	"fmt"

	"github.com/fabricform/fabricform/lab/site"
)

// Lab prints a lab's hosts and cables.
func (p *Printer) Lab(s site.Status) {
	p.Linef("%s", p.bold("lab "+s.Name))
	for _, h := range s.Hosts {
		symbol, state := p.good("✓"), "up"
		if !h.Alive {
			symbol, state = p.bad("✗"), "ended"
		}
		if h.Console != "" {
			state += ", console in " + h.Console
		}
		p.Linef("  %s host %-12s %-16s %s", symbol, h.Name, h.Address, state)
	}
	for _, c := range s.Links {
		symbol, fault := p.good("✓"), "whole"
		if c.Fault != "" {
			symbol, fault = p.warn("!"), c.Fault
		}
		if c.Gbps > 0 {
			fault = fmt.Sprintf("limited to %g Gb/s, %s", c.Gbps, fault)
		}
		if far := c.Distance.String(); far != "" {
			fault = far + " each way, " + fault
		}
		p.Linef("  %s link %-16s %s — %s, %s", symbol, c.Name, c.A, c.B, fault)
	}
}
