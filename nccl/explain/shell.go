package explain

import "strings"

// word is one word of a command. It is dynamic if a shell would expand something in it.
type word struct {
	text    string
	line    int
	dynamic bool
}

// assignment returns the name in NAME=VALUE, and false if the word is not an assignment.
func (w word) assignment() (name string, ok bool) {
	name, _, found := strings.Cut(w.text, "=")
	if !found || name == "" || name[0] >= '0' && name[0] <= '9' {
		return "", false
	}
	for i := range len(name) {
		c := name[i]
		if c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return "", false
		}
	}
	return name, true
}

// command is one simple command.
type command struct{ words []word }

func (c command) line() int { return c.words[0].line }

// texts returns the words without their lines.
func (c command) texts() (out []string) {
	for _, w := range c.words {
		out = append(out, w.text)
	}
	return out
}

// lexer splits a text for a POSIX shell into simple commands. It handles quotes, backslashes, comments and
// separators, and does not expand variables or commands.
type lexer struct {
	line    int
	current strings.Builder
	inWord  bool
	dynamic bool
	begun   int // line of the word
	words   []word
	out     []command
}

func (l *lexer) put(c byte) {
	if !l.inWord {
		l.inWord, l.begun = true, l.line
	}
	l.current.WriteByte(c)
}

func (l *lexer) endWord() {
	if l.inWord {
		l.words = append(l.words, word{l.current.String(), l.begun, l.dynamic})
	}
	l.current.Reset()
	l.inWord, l.dynamic = false, false
}

// endCommand ends a command. It removes a shell prompt, which documents often show before commands.
func (l *lexer) endCommand() {
	l.endWord()
	if len(l.words) > 1 && (l.words[0].text == "$" || l.words[0].text == ">") {
		l.words = l.words[1:]
	}
	if len(l.words) > 0 {
		l.out = append(l.out, command{l.words})
	}
	l.words = nil
}

// parse splits a text into commands. It accepts any bytes, and takes linear time.
func parse(s string) []command {
	l := &lexer{line: 1}
	quote := byte(0)
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '\\' && quote != '\'' && i+1 < len(s):
			i++
			switch {
			case s[i] == '\n':
				l.line++
			case s[i] == '\r' && i+1 < len(s) && s[i+1] == '\n':
				i++
				l.line++
			default:
				l.put(s[i])
			}
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			l.dynamic = l.dynamic || quote == '"' && (c == '$' || c == '`')
			l.put(c)
			if c == '\n' {
				l.line++
			}
		case c == '"' || c == '\'':
			if !l.inWord {
				l.inWord, l.begun = true, l.line
			}
			quote = c
		case c == '#' && !l.inWord:
			for i+1 < len(s) && s[i+1] != '\n' {
				i++
			}
		case c == '\n':
			l.endCommand()
			l.line++
		case c == ';' || c == '&' || c == '|' || c == '(' || c == ')':
			l.endCommand()
		case c == ' ' || c == '\t' || c == '\r':
			l.endWord()
		default:
			l.dynamic = l.dynamic || c == '$' || c == '`'
			l.put(c)
		}
	}
	l.endCommand()
	return l.out
}
