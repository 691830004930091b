package view

import "github.com/fabricform/fabricform/lab"

// Lab prints a lab's hosts and cables.
func (p *Printer) Lab(s lab.Status) {
	p.Linef("%s", p.bold("lab "+s.Name))
	for _, h := range s.Hosts {
		symbol, state := p.good("✓"), "up"
		if !h.Alive {
			symbol, state = p.bad("✗"), "ended"
		}
		p.Linef("  %s host %-12s %-16s %s", symbol, h.Name, h.Address, state)
	}
	for _, c := range s.Links {
		symbol, fault := p.good("✓"), "whole"
		if c.Fault != "" {
			symbol, fault = p.warn("!"), c.Fault
		}
		p.Linef("  %s link %-16s %s — %s, shaped to %g Gb/s, %s", symbol, c.Name, c.A, c.B, c.Gbps, fault)
	}
}
