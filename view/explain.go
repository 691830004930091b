package view

import (
	"fmt"
	"strings"

	"github.com/fabricform/fabricform/nccl/env"
	"github.com/fabricform/fabricform/nccl/explain"
)

// ExplanationJSON prints the report of a file as JSON.
func (p *Printer) ExplanationJSON(name string, r explain.Explanation) error {
	return p.printIndented(struct {
		File string `json:"file"`
		explain.Explanation
	}{name, r})
}

// Explanation prints what was read from a file, its problems, the most probable reason first, and a summary.
func (p *Printer) Explanation(name string, r explain.Explanation) {
	about := string(r.Kind)
	if r.Version != "" {
		about += " of NCCL " + r.Version
	}
	if read := r.Read.String(); read != "" {
		about += ": " + read
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
	if c := r.Read.Computed; c.Count > 0 {
		p.Linef("  %s %s computed when it runs, and not checked: %s", p.warn("!"), Count(c.Count, "setting"), c)
	}
	if u := r.Read.Unknown; u.Count > 0 {
		p.Linef("  %s %d of %s not understood: %s", p.warn("!"), u.Count, Count(r.Read.Lines, "line"), u)
	}
	switch {
	case r.Nothing != "":
		p.Linef("%s nothing of NCCL was read: %s", p.bad("✗"), r.Nothing)
	case r.Open != "":
		p.Linef("no problems found in %s. %s", r.Read.Judged(), r.Open)
	case r.Sound():
		p.Linef("%s no problems found in %s", p.good("✓"), r.Read.Judged())
	case len(r.Findings) == 0:
		p.Linef("checked: %s. The other lines were not judged, and may show a problem", r.Read.Judged())
	default:
		p.Linef("%s, %s, %s", Count(counts[env.Error], "error"), Count(counts[env.Warning], "warning"), Count(counts[env.Note], "note"))
	}
}
