package view

import (
	"fmt"
	"os"

	"github.com/hashicorp/hcl/v2"
	"golang.org/x/term"
)

// Diagnostics prints problems of fabric files with place and snippet.
func (p *Printer) Diagnostics(files map[string]*hcl.File, diags hcl.Diagnostics) error {
	if len(diags) == 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	width := uint(100)
	if f, ok := p.w.(*os.File); ok {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 20 {
			width = uint(w)
		}
	}
	colour := p.live && os.Getenv("NO_COLOR") == ""
	if err := hcl.NewDiagnosticTextWriter(p.w, files, width, colour).WriteDiagnostics(diags); err != nil {
		return fmt.Errorf("print diagnostics: %w", err)
	}
	return nil
}
