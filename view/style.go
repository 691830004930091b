// Package view prints plans, progress and reports; no other package prints. Symbols carry the meaning, and
// colour only repeats it.
package view

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/charmbracelet/lipgloss"
	"golang.org/x/term"
)

// Printer writes to one stream. Safe for concurrent use.
type Printer struct {
	mu   sync.Mutex
	w    io.Writer
	r    *lipgloss.Renderer
	live bool // a terminal, which may show progress

	began    time.Time // of the first progress line
	pending  bool      // the terminal shows a progress line
	progress *Printer  // the printer whose progress line the terminal may show
}

// New returns a printer; colour is used on terminals unless NO_COLOR is set.
func New(w io.Writer) *Printer {
	f, ok := w.(*os.File)
	return &Printer{w: w, r: lipgloss.NewRenderer(w), live: ok && term.IsTerminal(int(f.Fd()))}
}

func (p *Printer) good(s string) string {
	return p.r.NewStyle().Foreground(lipgloss.Color("2")).Render(s)
}

func (p *Printer) warn(s string) string {
	return p.r.NewStyle().Foreground(lipgloss.Color("3")).Render(s)
}

func (p *Printer) bad(s string) string {
	return p.r.NewStyle().Foreground(lipgloss.Color("1")).Bold(true).Render(s)
}

func (p *Printer) dim(s string) string  { return p.r.NewStyle().Faint(true).Render(s) }
func (p *Printer) bold(s string) string { return p.r.NewStyle().Bold(true).Render(s) }

// Linef prints one line.
func (p *Printer) Linef(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	// The reader may close the pipe early, as `head` does.
	_, _ = fmt.Fprintln(p.w, clean(fmt.Sprintf(format, args...)))
}

// Raw prints text as it is.
func (p *Printer) Raw(b []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	_, err := p.w.Write(b)
	return err
}

// Progressf shows the current step, and the time since the first one, in a line that the next output
// replaces. It shows nothing if the stream is not a terminal.
func (p *Printer) Progressf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.live {
		return
	}
	if p.began.IsZero() {
		p.began = time.Now()
	}
	text := fmt.Sprintf("· %s  %s", clean(fmt.Sprintf(format, args...)), time.Since(p.began).Round(time.Second))
	if f, ok := p.w.(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && len([]rune(text)) >= width && width > 4 {
			text = string([]rune(text)[:width-2]) + "…"
		}
	}
	p.pending = true
	_, _ = fmt.Fprint(p.w, "\r\x1b[K"+p.dim(text))
}

// erase removes the progress line. The caller must hold the lock.
func (p *Printer) erase() {
	if p.pending {
		p.pending = false
		_, _ = fmt.Fprint(p.w, "\r\x1b[K")
	}
}

// Below makes this printer remove the other's progress line before it prints: both may share a terminal.
func (p *Printer) Below(progress *Printer) { p.progress = progress }

// clear removes progress lines before this printer's output. The caller must hold its lock.
func (p *Printer) clear() {
	p.erase()
	if p.progress != nil {
		p.progress.mu.Lock()
		defer p.progress.mu.Unlock()
		p.progress.erase()
	}
}

// Errorf prints a failure.
func (p *Printer) Errorf(format string, args ...any) {
	p.Linef("%s %s", p.bad("✗ error:"), fmt.Sprintf(format, args...))
}

// clean makes control characters visible, so that text from a host cannot control the terminal. It keeps
// ESC only in the colour sequences that this package writes (ESC [ digits ; m).
func clean(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		if s[i] == 0x1b {
			if n := colour(s[i:]); n > 0 {
				b.WriteString(s[i : i+n])
				i += n
				continue
			}
			b.WriteString("␛")
			i++
			continue
		}
		if s[i] < ' ' && s[i] != '\n' && s[i] != '\t' || s[i] == 0x7f {
			fmt.Fprintf(&b, "\\x%02x", s[i])
			i++
			continue
		}
		b.WriteByte(s[i])
		i++
	}
	return b.String()
}

// colour returns the length of the colour sequence at the start of s, or 0.
func colour(s string) int {
	if !strings.HasPrefix(s, "\x1b[") {
		return 0
	}
	for i := 2; i < len(s) && i < 24; i++ {
		switch {
		case s[i] == 'm':
			return i + 1
		case s[i] != ';' && (s[i] < '0' || s[i] > '9'):
			return 0
		}
	}
	return 0
}

// plainText formats a text without colours and control characters.
func plainText(format string, args ...any) string { return clean(fmt.Sprintf(format, args...)) }
