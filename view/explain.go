package view

import (
	"fmt"
	"strings"

	"github.com/fabricform/fabricform/nccl/env"
	"github.com/fabricform/fabricform/nccl/explain"
)

// ExplainedJSON prints a report as JSON.
func (p *Printer) ExplainedJSON(r explain.Explanation) error { return p.indented(r) }

// Explained prints the problems of a file, line by line, and a summary.
func (p *Printer) Explained(name string, r explain.Explanation) {
	about := string(r.Kind)
	if r.Version != "" {
		about += " of NCCL " + r.Version
	}
	p.Linef("%s  %s", p.bold(name), p.dim(about))
	var counts [3]int
	for _, f := range r.Findings {
		counts[f.Severity]++
		symbol := [...]styled{env.Error: p.bad("✗"), env.Warning: p.warn("!"), env.Note: p.dim("·")}[f.Severity]
		where := ""
		if f.Line > 0 {
			where = fmt.Sprintf("line %d: ", f.Line)
		}
		title := f.Summary
		if f.Name != "" && !strings.Contains(title, f.Name) {
			title = f.Name + ": " + title
		}
		p.Linef("  %s %s%s", symbol, where, p.bold(title))
		for _, text := range nonEmpty(f.Wrong, f.Costs, f.Instead) {
			p.Linef("      %s", text)
		}
	}
	if r.More > 0 {
		p.Linef("  … and %d more", r.More)
	}
	if len(r.Findings) == 0 {
		p.Linef("%s no problems found", p.good("✓"))
		return
	}
	p.Linef("%s, %s, %s", Count(counts[env.Error], "error"), Count(counts[env.Warning], "warning"), Count(counts[env.Note], "note"))
}
