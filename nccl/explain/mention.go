package explain

import (
	"cmp"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/fabricform/fabricform/nccl/env"
)

// mentions reads the settings of NCCL that stand in no command: `- name: NCCL_X` above `value: 1`, `NCCL_X: 1` and
// `- NCCL_X=1` of YAML, `"NCCL_X": "1"` of JSON, os.environ["NCCL_X"] = "1", and NCCL_X=1 within a sentence or a table.
// It knows lines and no structure: which container a setting belongs to is not asked, so that such settings are not
// compared with one another.
func (s *script) mentions(text string, kind Kind) {
	type place struct {
		line int
		name string
	}
	read := map[place]bool{}
	for _, v := range s.sets {
		read[place{v.line, v.name}] = true
	}
	s.alone = true
	var above place // a name whose value stands in the next line
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, " \t\r\n")
		if above.line > 0 && line != "" {
			s.below(above.name, above.line, number, line)
			above = place{}
		}
		if kind != Notes {
			line = beforeComment(line)
		}
		for i := 0; ; {
			at := strings.Index(line[i:], "NCCL_")
			if at < 0 {
				break
			}
			at += i
			name := leadingName(line[at:])
			i = at + len(name)
			if at > 0 && nameByte(line[at-1]) || strings.HasSuffix(name, "_") || i < len(line) && nameByte(line[i]) || read[place{number, name}] {
				continue
			}
			m := mention{kind: kind, before: line[:at], after: line[i:]}
			switch {
			case kind == Log && !strings.HasSuffix(m.before, " -x ") && !strings.HasSuffix(m.before, "`-x ") && !strings.HasSuffix(m.before, " -e ") && strings.Trim(strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(m.before), "export"), "os.environ["), " \t+-*\"'`") != "":
				// what programs print of NCCL's variables is advice more often than a setting
			case m.isName():
				above = place{number, name}
			default:
				if value, ok := m.value(); ok {
					value.line = number
					if m.kind == Python && strings.HasSuffix(strings.TrimRight(m.before, "\"'"), "os.environ[") {
						s.notText(number, name, m.after)
					}
					s.record(name, value, "text", false)
				}
			}
		}
	}
	if _, pinned := find(s.sets, "NCCL_IB_GID_INDEX"); !pinned {
		s.pinTold(text)
	}
	s.alone = false
}

// gidTold is a sentence that pins a GID index without NCCL's variable: "when set GID Index to 1".
var gidTold = pattern{text: `(?i)\b(?:set|setting|using|use|with|choose|chose)(?: \w+){0,2} gid[ _-]?index (?:to|as|=|of|is)? ?(\d{1,3})\b`}

// pinTold reads the first GID index of prose.
func (s *script) pinTold(text string) {
	number := 0
	for line := range strings.Lines(text) {
		number++
		if at := gidTold.re().FindStringSubmatch(line); at != nil {
			s.record("NCCL_IB_GID_INDEX", word{text: at[1], line: number}, "text", false)
			return
		}
	}
}

// below reads the line below `- name: NCCL_X`.
func (s *script) below(name string, line, number int, text string) {
	key, rest, found := strings.Cut(strings.TrimLeft(text, " \t-{"), ":")
	switch key = strings.Trim(key, `"'`); {
	case found && key == "value":
		raw := strings.TrimSuffix(strings.TrimSpace(beforeComment(rest)), ",")
		value, _ := literal(raw)
		value.line = line
		if n := env.ParseNumber(raw); raw == "true" || raw == "false" || n.Digits && n.Rest == "" {
			text := raw
			if v := env.Lookup(name); v != nil && v.Type == env.Bool {
				text = cmp.Or(env.OnOff(raw), raw)
			}
			s.say(number, env.Error, "Number instead of a string", fmt.Sprintf("The value of %s is not quoted: value: %s.", name, shorten(raw)), "Kubernetes accepts only strings in env, and rejects the manifest.", fmt.Sprintf("Write value: %q.", text))
		}
		s.record(name, value, "text", false)
	case found && key == "valueFrom":
		s.record(name, word{line: line, dynamic: true}, "text", false)
	default:
		s.mark(line, unknown)
	}
}

// bareValue is what follows the name in os.environ["NAME"] = VALUE with a boolean or a number of Python.
var bareValue = pattern{text: `^["']\]\s*=\s*(True|False|\d+)\s*(?:#.*)?$`}

// notText reports a boolean or a number that is assigned to os.environ: Python accepts only strings (os.environ.__setitem__).
func (s *script) notText(number int, name, after string) {
	m := bareValue.re().FindStringSubmatch(after)
	if m == nil {
		return
	}
	s.add(number, env.Finding{Severity: env.Error, Name: name, Summary: "Not a string", Wrong: fmt.Sprintf("os.environ takes only strings, and this is %s.", m[1]), Costs: "The program ends there with a TypeError: str expected.", Instead: fmt.Sprintf("Write %q.", cmp.Or(env.OnOff(m[1]), m[1]))})
}

// mention is a name of a variable in a line.
type mention struct {
	kind          Kind
	before, after string
}

// isName reports whether the mention is the value of a key "name" whose own value is not in this line.
func (m mention) isName() bool {
	key := strings.TrimRight(strings.TrimRight(m.before, `"'`), " \t")
	key, colon := strings.CutSuffix(key, ":")
	return colon && strings.HasSuffix(strings.Trim(key, `"'`), "name") && strings.Trim(m.after, `"', `) == ""
}

// value returns the value that the text sets. It returns false for any other mention.
func (m mention) value() (word, bool) {
	quote := ""
	if b := m.before; b != "" && (b[len(b)-1] == '"' || b[len(b)-1] == '\'') {
		quote = b[len(b)-1:]
	}
	if strings.HasSuffix(m.before, "**") { // bold, in Markdown
		m.after, _, _ = strings.Cut(m.after, "**")
	}
	rest, keyed := m.after, false
	if quote != "" {
		if whole, ok := strings.CutPrefix(rest, "="); ok { // "NCCL_X=1"
			inner, _, _ := strings.Cut(whole, quote)
			if at := further.re().FindStringIndex(inner); at != nil { // "NCCL_X=1 NCCL_Y=2"
				inner = inner[:at[0]]
			}
			return word{text: inner, dynamic: strings.ContainsAny(inner, "${`")}, true
		}
		if rest, keyed = strings.CutPrefix(strings.TrimPrefix(rest, `\`), quote); !keyed { // a notebook escapes its quotes
			return word{}, false
		}
	}
	spaced := strings.TrimLeft(rest, " \t])")
	switch {
	case m.kind == Compose && strings.TrimSpace(m.before) == "-" && (strings.HasPrefix(rest, `="`) || strings.HasPrefix(rest, `='`)): // a plain scalar, which keeps its quotes
		return word{text: rest[1:], dynamic: strings.Contains(rest, "$")}, true
	case keyed && strings.HasPrefix(spaced, "=="):
	case keyed && strings.HasPrefix(spaced, "="), !keyed && strings.HasPrefix(rest, "="), m.kind == Python && strings.HasPrefix(spaced, "="):
		_, after, _ := strings.Cut(spaced, "=")
		return m.literal(strings.TrimLeft(after, " \t"))
	case strings.HasPrefix(spaced, ":") && (keyed || strings.Trim(m.before, " \t-{") == ""):
		return m.mapped(strings.TrimSpace(spaced[1:]))
	case strings.HasPrefix(spaced, ",") && (keyed || strings.HasSuffix(strings.TrimSpace(m.before), "name:")):
		after := strings.TrimLeft(spaced[1:], " \t\"'")
		if v, ok := strings.CutPrefix(after, "value"); ok {
			v = strings.TrimLeft(v, "\"' ")
			return m.literal(strings.TrimLeft(v[min(1, len(v)):], " \t")) // after : or =
		}
		for _, call := range []string{"setdefault(", "setenv(", "putenv("} {
			if strings.HasSuffix(m.before, call+quote) {
				return m.literal(strings.TrimLeft(spaced[1:], " \t"))
			}
		}
	case strings.HasSuffix(strings.TrimRight(m.before, " `*"), "|") && strings.HasPrefix(strings.TrimLeft(rest, " `*"), "|"):
		for cell := range strings.SplitSeq(rest, "|") {
			if cell = strings.Trim(cell, " \t`*"); cell != "" && len(strings.Fields(cell)) == 1 && cell[0] < utf8.RuneSelf {
				return word{text: strings.Trim(cell, `"'`)}, true
			}
		}
	}
	return word{}, false
}

// further is another setting behind a blank.
var further = pattern{text: `\s+[A-Z_][A-Z0-9_]*=`}

// mapped returns the value after the colon of a mapping.
func (m mention) mapped(text string) (word, bool) {
	if text == "" || text == "null" || text == "~" { // of YAML and JSON: not set
		return word{}, false
	}
	if m.kind == Kubernetes || m.kind == Compose || m.kind == YAML {
		if text[0] != '"' && text[0] != '\'' && !strings.ContainsAny(text, "{}") {
			return word{text: text, dynamic: strings.Contains(text, "$")}, true // a plain scalar ends with its line
		}
	}
	v, rest := literal(text)
	if strings.TrimLeft(rest, " ,}]") != "" && text[0] != '"' && text[0] != '\'' {
		return word{}, false // a sentence
	}
	return m.typed(v, text), true
}

func (m mention) literal(text string) (word, bool) {
	v, _ := literal(text)
	return m.typed(v, text), true
}

// typed returns a value as computed if it is an expression of a program.
func (m mention) typed(v word, text string) word {
	if m.kind == Python && text != "" && text[0] != '"' && text[0] != '\'' && !digits(v.text) {
		v.dynamic = true
	}
	return v
}

// maxLiteral limits the value of one mention, so that a long line takes linear time.
const maxLiteral = 4096

// literal reads a quoted text, or one word, and returns what is left.
func literal(text string) (v word, rest string) {
	text = strings.TrimPrefix(text[:min(len(text), maxLiteral)], `\`)
	if text != "" && (text[0] == '"' || text[0] == '\'') {
		inner, rest, _ := strings.Cut(text[1:], text[:1])
		inner = strings.TrimSuffix(inner, `\`)
		return word{text: inner, dynamic: strings.ContainsAny(inner, "${`")}, rest
	}
	end := strings.IndexFunc(text, func(c rune) bool { return c >= utf8.RuneSelf || strings.ContainsRune(" \t\"'`<|;)}]", c) })
	if end < 0 {
		end = len(text)
	}
	return word{text: strings.TrimRight(text[:end], ",.:\\"), dynamic: strings.ContainsAny(text[:end], "${(")}, text[end:]
}

// beforeComment returns a line without its comment.
func beforeComment(line string) string {
	if strings.HasPrefix(strings.TrimLeft(line, " \t"), "#") {
		return ""
	}
	before, _, _ := strings.Cut(line, " #")
	return before
}

func nameByte(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
}

// leadingName returns the variable's name with which a text begins.
func leadingName(s string) string {
	n := 0
	for n < len(s) && nameByte(s[n]) && (s[n] < 'a' || s[n] > 'z') {
		n++
	}
	return s[:n]
}
