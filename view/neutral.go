package view

import (
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/fabricform/fabricform/fabric"
)

// neutral returns text that can only be read. Every character that does not print is written as an escape of its code:
// controls (C0 and C1) would command the terminal or begin a line, and bidirectional marks and invisible characters
// would make a text look like another.
func neutral(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return r == utf8.RuneError || !prints(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '\n':
			b.WriteString(`\n`)
		case r == utf8.RuneError && n == 1: // a byte that is not UTF-8 may be a control character in another encoding
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case prints(r):
			b.WriteString(s[i : i+n])
		case r < utf8.RuneSelf:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += n
	}
	return b.String()
}

// prints says whether a character shows itself and does nothing else. A line of blanks would push the next text to the beginning of a line.
func prints(r rune) bool { return r == '\t' || fabric.Prints(r) }

// neutralJSON writes the same characters of encoded JSON as JSON's own escapes: what a program reads stays the same.
func neutralJSON(encoded []byte) []byte {
	out := make([]byte, 0, len(encoded))
	for i := 0; i < len(encoded); {
		r, n := utf8.DecodeRune(encoded[i:])
		switch {
		case r >= ' ' && r != 0x7f && (r < utf8.RuneSelf || prints(r)) || r == '\n':
			out = append(out, encoded[i:i+n]...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		i += n
	}
	return out
}
