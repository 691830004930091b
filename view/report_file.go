package view

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/fabric"
)

// ReportFile is the saved report of one run.
type ReportFile struct {
	Format int    `json:"format"` // EventFormat
	Exit   int    `json:"exit"`
	Error  string `json:"error,omitempty"` // why the run failed, unless outcomes or results say so; Bytes sets it
	apply.Report
}

// Bytes formats the report: as Markdown if the file's name ends in .md, otherwise as JSON.
func (r *ReportFile) Bytes(file string) ([]byte, error) {
	if r.Err != nil {
		r.Error = string(fabric.Mask([]byte(r.Err.Error())))
	}
	if !strings.HasSuffix(file, ".md") {
		shown := *r
		if r.Plan != nil {
			p := *r.Plan
			p.Hosts = slices.Clone(p.Hosts)
			for i, h := range p.Hosts {
				p.Hosts[i] = h.Unsalted()
			}
			shown.Plan = &p
		}
		raw, err := json.MarshalIndent(shown, "", " ")
		if err != nil {
			return nil, fmt.Errorf("write report: %w", err)
		}
		return append(neutralJSON(fabric.Mask(raw)), '\n'), nil
	}
	var b strings.Builder
	fmt.Fprintf(&b,
		"# fabricform %s of %s\n\n| | |\n|---|---|\n"+
			"| started | %s |\n| took | %s |\n| by | %s |\n| files | %s |\n| build | %s |\n| exit code | %d |\n\n",
		escape(r.Command), escape(r.Fabric), r.Started.UTC().Format(time.RFC3339), r.Ended.Sub(r.Started).Round(time.Millisecond),
		escape(r.Who), escape(r.Source), escape(r.Build), r.Exit)
	if r.Error != "" {
		fmt.Fprintf(&b, "❌ %s\n\n", escape(r.Error))
	}
	if r.Plan != nil {
		b.WriteString(PlanMarkdown(r.Plan, nil) + "\n")
	}
	for _, h := range r.Outcomes {
		for _, o := range h.Outcomes {
			sign, word := "✅", "done"
			switch {
			case o.Failed != "":
				sign, word = "❌", escape(o.Failed)
			case !o.Done && h.Fate == apply.Waiting:
				sign, word = "⏳", "pending"
			case !o.Done:
				continue
			}
			fmt.Fprintf(&b, "- %s %s %s\n", sign, code(o.Action.Resource.Addr.String()), word)
		}
	}
	for _, n := range notTried(r.Outcomes) {
		fmt.Fprintf(&b, "- ❌ %s not tried: %s\n", code(n.hosts), escape(n.what))
	}
	if len(r.Results) > 0 {
		b.WriteString("\n" + resultsMarkdown(r.Results))
	}
	return []byte(b.String()), nil
}
