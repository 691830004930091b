// Package view prints plans, progress and reports; no other package prints. Symbols carry the meaning, and
// colour only repeats it.
package view

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/charmbracelet/lipgloss"
	"github.com/muesli/termenv"
	"golang.org/x/term"
)

// Printer writes to one stream. Safe for concurrent use.
type Printer struct {
	mu      sync.Mutex
	w       io.Writer
	r       *lipgloss.Renderer
	live    bool // a terminal, which may show progress
	ascii   bool // the locale has no other characters
	columns int  // where lines are broken; 0: at the terminal's width

	failed   error     // of the first line that could not be written
	began    time.Time // of the first progress line
	pending  bool      // the terminal shows a progress line
	progress *Printer  // the printer whose progress line the terminal may show
}

// New returns a printer; colour is used on terminals unless NO_COLOR is set.
func New(w io.Writer) *Printer {
	f, ok := w.(*os.File)
	return &Printer{w: w, r: lipgloss.NewRenderer(w), live: ok && term.IsTerminal(int(f.Fd())), ascii: asciiOnly(os.Getenv)}
}

// Err returns why a line could not be written; nil if all were, or if the reader closed the pipe.
func (p *Printer) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}

// NoColour makes the printer print without colour.
func (p *Printer) NoColour() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.r.SetColorProfile(termenv.Ascii)
}

// styled is text that is printed as it is: this package made it, and has neutralised the values in it.
type styled string

func (p *Printer) good(s string) styled {
	return p.render(p.r.NewStyle().Foreground(lipgloss.Color("2")), s)
}
func (p *Printer) warn(s string) styled {
	return p.render(p.r.NewStyle().Foreground(lipgloss.Color("3")), s)
}
func (p *Printer) bad(s string) styled {
	return p.render(p.r.NewStyle().Foreground(lipgloss.Color("1")).Bold(true), s)
}
func (p *Printer) dim(s string) styled  { return p.render(p.r.NewStyle().Faint(true), s) }
func (p *Printer) bold(s string) styled { return p.render(p.r.NewStyle().Bold(true), s) }

func (p *Printer) render(style lipgloss.Style, s string) styled {
	return styled(style.Render(neutral(s)))
}

// compose is fmt.Sprintf for a line: it neutralises every value that this package has not styled.
func compose(format string, args ...any) styled {
	for i, arg := range args {
		switch arg := arg.(type) {
		case styled, bool, int, int64, uint16, uint32, uint64, float64:
		default:
			args[i] = neutral(fmt.Sprint(arg))
		}
	}
	return styled(fmt.Sprintf(format, args...))
}

// Linef prints one line. Values cannot begin a line or control the terminal, wherever they come from.
func (p *Printer) Linef(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	p.line(compose(format, args...))
}

// line prints one line, on as many lines of the terminal as it needs. The caller must hold the lock.
func (p *Printer) line(text styled) {
	_, err := fmt.Fprintln(p.w, p.spell(wrap(text, p.width())))
	if p.failed == nil && !errors.Is(err, syscall.EPIPE) { // the reader may close the pipe early, as `head` does
		p.failed = err
	}
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
	text := string(compose("· %s  %s", compose(format, args...), time.Since(p.began).Round(time.Second)))
	if width := p.width(); width > 4 && len([]rune(text)) >= width {
		text = string([]rune(text)[:width-2]) + "…"
	}
	p.pending = true
	_, _ = fmt.Fprint(p.w, "\r\x1b[K"+p.spell(string(p.dim(text))))
}

// erase removes the progress line. The caller must hold the lock.
func (p *Printer) erase() {
	if p.pending {
		p.pending = false
		_, _ = fmt.Fprint(p.w, "\r\x1b[K")
	}
}

// Stop silences the printer, including output that another goroutine is printing.
func (p *Printer) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.erase()
	p.w, p.live = io.Discard, false
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

// Errorf prints a failure. Each further line of its text begins with a bar, so that it is no line of ours.
func (p *Printer) Errorf(format string, args ...any) {
	first, more, _ := strings.Cut(fmt.Sprintf(format, args...), "\n")
	p.Linef("%s %s", p.bad("✗ error:"), first)
	for line := range strings.Lines(more) {
		if line = strings.TrimSuffix(line, "\n"); line != "" {
			p.Linef("  │ %s", line)
		}
	}
}
