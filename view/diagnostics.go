package view

import (
	"bufio"
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/muesli/termenv"

	"github.com/fabricform/fabricform/fabric"
)

// Diagnostics prints problems of fabric files with their positions and source lines.
func (p *Printer) Diagnostics(files map[string]*hcl.File, diags hcl.Diagnostics) error {
	if len(diags) == 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	width := uint(100)
	if w := p.width(); w > 20 {
		width = uint(w)
	}
	text := func(colour bool) (string, error) {
		var b strings.Builder
		err := hcl.NewDiagnosticTextWriter(&b, files, width, colour).WriteDiagnostics(diags)
		return b.String(), err
	}
	plain, err := text(false)
	if err != nil {
		return fmt.Errorf("print diagnostics: %w", err)
	}
	var shown string
	// all colours are the writer's
	if p.live && p.r.ColorProfile() != termenv.Ascii && neutral(strings.ReplaceAll(plain, "\n", "")) == strings.ReplaceAll(plain, "\n", "") {
		if shown, err = text(true); err != nil {
			return fmt.Errorf("print diagnostics: %w", err)
		}
	} else {
		lines := strings.Split(plain, "\n")
		for i, line := range lines {
			lines[i] = neutral(line)
		}
		shown = strings.Join(lines, "\n")
	}
	for line := range strings.Lines(shown) {
		if _, err := fmt.Fprint(p.w, p.spell(wrap(styled(clip(strings.TrimSuffix(line, "\n"))), p.width()))+"\n"); err != nil {
			return fmt.Errorf("print diagnostics: %w", err)
		}
	}
	return nil
}

// widest limits how much of a source line is shown: a line may have megabytes.
const widest = 400

// reset ends a colour whose end was cut off.
func reset(line string) string {
	if strings.Contains(line, "\x1b") {
		return "\x1b[0m"
	}
	return ""
}

func clip(line string) string {
	if r := []rune(line); len(r) > widest {
		return string(r[:widest]) + "…" + reset(line)
	}
	return line
}

// place is a range in a file; lines and columns count from 1, bytes from 0.
type place struct {
	File  string `json:"file"`
	Start point  `json:"start"`
	End   point  `json:"end"`
}

type point struct {
	Line   int `json:"line"`
	Column int `json:"column"`
	Byte   int `json:"byte"`
}

// problem is one diagnostic, in JSON.
type problem struct {
	Severity string `json:"severity"` // "error" or "warning"
	Summary  string `json:"summary"`
	Detail   string `json:"detail"`
	Range    *place `json:"range,omitempty"`
	Snippet  string `json:"snippet,omitempty"` // the lines of the range
}

// DiagnosticsJSON prints problems of fabric files as one JSON object.
func (p *Printer) DiagnosticsJSON(files map[string]*hcl.File, diags hcl.Diagnostics) error {
	out := struct {
		Valid       bool      `json:"valid"`
		Errors      int       `json:"error_count"`
		Warnings    int       `json:"warning_count"`
		Diagnostics []problem `json:"diagnostics"`
	}{Valid: !diags.HasErrors(), Diagnostics: []problem{}}
	for _, d := range diags {
		x := problem{Severity: "error", Summary: d.Summary, Detail: d.Detail}
		if d.Severity == hcl.DiagWarning {
			x.Severity = "warning"
			out.Warnings++
		} else {
			out.Errors++
		}
		if s := d.Subject; s != nil {
			x.Range = &place{s.Filename, point(s.Start), point(s.End)}
			x.Snippet = snippet(files[s.Filename], *s)
		}
		out.Diagnostics = append(out.Diagnostics, x)
	}
	return p.printIndented(out)
}

// snippet returns the source lines of a range.
func snippet(f *hcl.File, r hcl.Range) string {
	if f == nil {
		return ""
	}
	var lines []string
	for sc := hcl.NewRangeScanner(f.Bytes, r.Filename, bufio.ScanLines); sc.Scan(); {
		if line := sc.Range(); line.Start.Line >= r.Start.Line && line.Start.Line <= max(r.Start.Line, r.End.Line) && len(lines) < 5 {
			lines = append(lines, string(sc.Bytes()))
		}
	}
	return strings.Join(lines, "\n")
}

// Valid says that a fabric's files have no errors, and counts what they declare.
func (p *Printer) Valid(f *fabric.Fabric) {
	if len(f.Hosts) == 0 {
		p.Linef("! fabric %q has no errors, and no hosts.", f.Name)
		return
	}
	p.Linef("✓ fabric %q is valid: %s.", f.Name, Extent(f))
}

// Extent counts what a fabric declares.
func Extent(f *fabric.Fabric) string {
	parts := []string{Count(len(f.Hosts), "host"), Count(len(f.Links), "link")}
	if len(f.Networks) > 0 {
		parts = append(parts, Count(len(f.Networks), "network"))
	}
	return strings.Join(parts, ", ")
}
