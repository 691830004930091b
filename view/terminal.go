package view

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"

	"github.com/charmbracelet/lipgloss"
	"golang.org/x/term"
)

// width returns after how many columns lines are broken; 0: nowhere, because the output is not a terminal.
func (p *Printer) width() int {
	if f, ok := p.w.(*os.File); ok && p.live && p.columns == 0 {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil {
			return width
		}
	}
	return p.columns
}

// Columns returns how wide text may be: most, or less on a narrow terminal.
func (p *Printer) Columns(most int) int {
	if width := p.width(); width >= leastWidth {
		return min(most, width)
	}
	return most
}

// leastWidth is the width below which lines are left to the terminal.
const leastWidth = 30

// wrap breaks a line between words. Further lines are indented deeper than the first, so that they are not read as lines
// of their own. A word that is longer than a line is left to the terminal.
func wrap(line styled, width int) string {
	text := string(line)
	indent := len(text) - len(strings.TrimLeft(text, " "))
	return breakAt(text, width, strings.Repeat(" ", min(indent+4, width/3)))
}

// Fill breaks a text at a width: paragraphs, and the indented lines of a list, whose further lines begin below its second column.
func Fill(text string, width int) string {
	var lines []string
	prose := false // the line before is part of a paragraph
	for line := range strings.SplitSeq(text, "\n") {
		more := line != "" && line[0] != ' '
		if prose && more {
			lines[len(lines)-1] += " " + line
		} else {
			lines = append(lines, line)
		}
		prose = more
	}
	for i, line := range lines {
		lines[i] = breakAt(line, width, strings.Repeat(" ", len(firstColumn().FindString(line))))
	}
	return strings.Join(lines, "\n")
}

// firstColumn matches the first column of a line of a list.
var firstColumn = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^ +(\S+ {2,})?`) })

// breakAt breaks a text at a width. Each line but the first begins with hang.
func breakAt(text string, width int, hang string) string {
	if width < leastWidth || lipgloss.Width(text) <= width {
		return text
	}
	indent := len(text) - len(strings.TrimLeft(text, " "))
	var b strings.Builder
	column, gap := 0, 0
	for i, word := range strings.Split(text, " ") {
		if i > 0 {
			gap++
		}
		if word == "" {
			continue
		}
		n := lipgloss.Width(word)
		if column > indent && column+gap+n > width {
			b.WriteString("\n" + hang)
			column, gap = len(hang), 0
		}
		b.WriteString(strings.Repeat(" ", gap) + word)
		column, gap = column+gap+n, 0
	}
	return b.String()
}

// asciiOnly says whether the locale has ASCII characters only. A locale that is not set has all.
func asciiOnly(getenv func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if locale := strings.ToLower(getenv(name)); locale != "" {
			return !strings.Contains(locale, "utf")
		}
	}
	return false
}

// ascii has our own symbols in ASCII.
var ascii = strings.NewReplacer("✓", "ok", "✗", "x", "→", "->", "⇄", "<->", "·", "*", "│", "|", "…", "...", "≥", ">=", "≤", "<=", "—",
	"--", "–", "-", "µ", "u", "×", "x")

// spell writes a text with the characters of the locale.
func (p *Printer) spell(text string) string {
	if !p.ascii {
		return text
	}
	var b strings.Builder
	for _, r := range ascii.Replace(text) {
		if r < 0x80 {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
