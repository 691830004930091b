package view

import "github.com/fabricform/fabricform/health"

// Health prints the verdict of a host about itself. Of an unknown state the caller says why.
func (p *Printer) Health(v *health.Verdict) {
	for _, n := range v.Notes {
		p.Linef("! %s", n)
	}
	if v.State == health.Healthy {
		p.Linef("✓ this host is as it was applied: compared %s", Count(v.Compared, "resource"))
		return
	}
	for _, problem := range v.Problems {
		p.Linef("✗ %s", problem)
	}
}

// HealthJSON prints the verdict as one object.
func (p *Printer) HealthJSON(v *health.Verdict) error { return p.printIndented(v) }
