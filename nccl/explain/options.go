package explain

import (
	"slices"
	"strings"
)

const (
	maxOptionLines = 100     // of a value over several lines
	maxExpanded    = 1 << 16 // words in all that variables stand for
)

// keeps reads a value that begins at s[*at], behind NAME=, and that holds options of a launcher over several lines, as scripts of Megatron
// have them: within double quotes, or as an array. It moves *at to the value's end. It returns false for any other value.
func (l *lexer) keeps(s string, at *int) bool {
	name, assigns := strings.CutSuffix(strings.TrimSuffix(l.current.String(), "+="), "=")
	if assigns = assigns || strings.HasSuffix(l.current.String(), "+="); !assigns || !isName(name) {
		return false
	}
	end := map[byte]byte{'"': '"', '(': ')'}[s[*at]]
	value, lines := s[*at+1:], 0
	for from := 0; lines < maxOptionLines; lines++ {
		line, _, more := strings.Cut(value[from:], "\n")
		if stop := strings.IndexByte(line, end); stop >= 0 {
			value = value[:from+stop]
			break
		}
		if text := strings.TrimSpace(line); !more || text != "" && text[0] != '-' && text[0] != '#' && text[0] != '$' && text != "\\" {
			return false
		}
		from += len(line) + 1
	}
	if lines == 0 || lines == maxOptionLines {
		return false
	}
	inner, _ := parse(value)
	if !strings.HasSuffix(l.current.String(), "+=") {
		l.lists[name] = nil
	}
	for _, c := range inner {
		for _, w := range c.words {
			w.line += l.line - 1
			l.lists[name] = append(l.lists[name], w)
		}
	}
	l.current.Reset() // not a setting of NCCL
	l.inWord = false
	l.line += strings.Count(value, "\n")
	*at += len(value) + 1
	return true
}

// brokenList is a list that goes on in the next lines, within double quotes.
var brokenList = pattern{text: `^"[\w.,:^=-]*,?\r?\n(?:[ \t]*[\w.:-]+,?\r?\n?){1,20}"`}

// listEnd returns the index of the quote that ends the list which s[i] begins as a value of NCCL's; -1 if there is no such quote.
func (l *lexer) listEnd(s string, i int) int {
	if name, assigns := strings.CutSuffix(l.current.String(), "="); s[i] == '"' && assigns && ours(name) {
		if list := brokenList.re().FindString(s[i:min(len(s), i+maxText)]); list != "" {
			return i + len(list) - 1
		}
	}
	return -1
}

// expanded returns the words of a command with options in place of the variables that hold them, and keeps those that it assigns.
func (l *lexer) expanded(words []word) []word {
	var out []word
	for i, w := range words {
		if name, ok := w.assignment(); ok && strings.HasPrefix(w.text[len(name)+1:], "-") && strings.Contains(w.text, " ") { // ARGS="--nnodes 2 --node_rank 0"
			l.lists[name] = nil
			for text := range strings.FieldsSeq(w.text[len(name)+1:]) {
				l.lists[name] = append(l.lists[name], word{text: text, line: w.line, dynamic: strings.ContainsAny(text, "$`")})
			}
		}
		switch options := l.lists[held(w)]; {
		case options != nil && l.stoodFor+len(options) <= maxExpanded:
			if out == nil {
				out = slices.Clone(words[:i])
			}
			l.stoodFor += len(options)
			out = append(out, options...)
		case out != nil:
			out = append(out, w)
		}
	}
	if out == nil {
		return words
	}
	return out
}

// held returns the name of the variable that is all of a word: $ARGS, ${ARGS}, ${ARGS[@]}.
func held(w word) string {
	name, ok := strings.CutPrefix(w.text, "$")
	if !ok || !w.dynamic {
		return ""
	}
	if inner, ok := strings.CutPrefix(name, "{"); ok {
		name = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(inner, "}"), "[@]"), "[*]")
	}
	return name
}
