package explain

import (
	"strings"
	"unicode/utf8"
)

// word is one word of a command. It is dynamic if a shell would expand something in it, and broken if it is a list with a line break.
type word struct {
	text            string
	line            int
	dynamic, broken bool
}

// assignment returns the name in NAME=VALUE, and false if the word is not an assignment.
func (w word) assignment() (name string, ok bool) {
	name, _, found := strings.Cut(w.text, "=")
	if !found || name == "" || name[0] >= '0' && name[0] <= '9' {
		return "", false
	}
	return name, isName(name)
}

// isName reports whether all letters are those of a variable's name.
func isName(name string) bool {
	for i := range len(name) {
		c := name[i]
		if c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return name != ""
}

// command is one simple command.
type command struct {
	words  []word
	quoted bool // stands in prose, between backticks
}

func (c command) line() int { return c.words[0].line }

// texts returns the words without their lines.
func (c command) texts() (out []string) {
	for _, w := range c.words {
		out = append(out, w.text)
	}
	return out
}

// lexer splits a text for a POSIX shell into simple commands. It handles quotes, backslashes, comments and
// separators, and does not expand variables or commands, except those that hold options (options.go). Much of its input is not a script but
// notes that hold commands. So no other quote reaches over the end of its line: a quote without a partner there separates commands, and the
// lines of a quoted script are read as those of any script.
type lexer struct {
	line     int
	current  strings.Builder
	inWord   bool
	dynamic  bool
	broken   bool
	ticks    bool // between backticks that began outside a word
	begun    int  // line of the word
	words    []word
	out      []command
	lone     []int             // lines of quotes without a partner
	lists    map[string][]word // options that a variable holds
	stoodFor int               // words in all that variables stood for
}

func (l *lexer) put(c byte) {
	if !l.inWord {
		l.inWord, l.begun = true, l.line
	}
	l.current.WriteByte(c)
}

func (l *lexer) endWord() {
	if l.inWord {
		l.words = append(l.words, word{l.current.String(), l.begun, l.dynamic, l.broken})
	}
	l.current.Reset()
	l.inWord, l.dynamic, l.broken = false, false, false
}

// endCommand ends a command. It removes the prompt that documents often show before commands.
func (l *lexer) endCommand() {
	l.endWord()
	if l.words = afterPrompt(l.words); len(l.words) > 0 {
		l.out = append(l.out, command{l.expanded(l.words), l.ticks})
	}
	l.words = nil
}

// afterPrompt returns the words after "$", ">", the "+" of set -x, "user@host:~#" or "[user@host ~]$".
func afterPrompt(words []word) []word {
	for i := range min(2, len(words)-1) {
		switch text := words[i].text; {
		case i == 0 && (text == "$" || text == ">" || strings.Trim(text, "+") == "" && text != ""):
			return words[1:]
		case strings.Contains(words[0].text, "@") && strings.HasSuffix(strings.TrimRight(text, "#$"), "]") != strings.Contains(words[0].text, ":") && strings.TrimRight(text, "#$") != text:
			return words[i+1:]
		}
	}
	return words
}

// partner returns the index of the quote that ends the one at i, and -1 if there is none in its line. A backslash before
// the end of a line joins two lines within double quotes. In a script that this program rendered, quotes reach over lines.
func partner(s string, i int, rendered bool) int {
	for j := i + 1; j < len(s); j++ {
		switch {
		case s[j] == s[i]:
			return j
		case s[j] == '\n' && !rendered:
			return -1
		case s[j] == '\\' && s[i] == '"':
			j++
		}
	}
	return -1
}

// rendered reports whether a text is a script of render nccl, by its second line.
func rendered(s string) bool {
	_, second, _ := strings.Cut(s[:min(len(s), maxLiteral)], "\n")
	return strings.HasPrefix(second, "# fabricform render nccl -format ")
}

// parse splits a text into commands, and returns the lines with a quote that has no partner there. It accepts any bytes,
// and takes linear time.
func parse(s string) ([]command, []int) {
	l, own := &lexer{line: 1, lists: map[string][]word{}}, rendered(s)
	quote, end := byte(0), 0
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
		case quote != 0 && i == end:
			quote = 0
		case quote != 0:
			l.dynamic = l.dynamic || quote == '"' && (c == '$' || c == '`')
			if c == '\n' {
				l.line++
			}
			if c != '\n' || !l.broken {
				l.put(c)
			}
		case (c == '"' || c == '(') && l.inWord && l.keeps(s, &i):
		case c == '"' || c == '\'':
			if end = partner(s, i, own); end < 0 {
				end = l.listEnd(s, i)
				l.broken = end >= 0
			}
			if end < 0 {
				l.lone = append(l.lone, l.line)
				l.endCommand()
				continue
			}
			if !l.inWord {
				l.inWord, l.begun = true, l.line
			}
			quote = c
		case c == '#' && !l.inWord && !strings.HasPrefix(s[i:], "#SBATCH "):
			for i+1 < len(s) && s[i+1] != '\n' {
				i++
			}
		case c == '\n':
			l.endCommand()
			l.ticks = false
			l.line++
		case c == '`' && (l.ticks || !l.inWord):
			l.endCommand()
			l.ticks = !l.ticks
		case c == ';' || c == '&' || c == '|' || c == '(' || c == ')':
			l.endCommand()
		case c == ' ' || c == '\t' || c == '\r':
			l.endWord()
		case c >= utf8.RuneSelf && punctuation(s[i:]) > 0 && !strings.HasSuffix(l.current.String(), "="): // a quote of a text editor may begin a value
			l.endCommand()
			i += punctuation(s[i:]) - 1
		default:
			home := c == '~' && strings.HasSuffix(l.current.String(), "=") // bash expands it there, in arguments, too
			l.dynamic = l.dynamic || c == '$' || c == '`' || home
			l.put(c)
		}
	}
	l.endCommand()
	return l.out, l.lone
}

// punctuation returns the length of the Chinese punctuation mark that begins a text, with which notes end a command; 0 if
// there is none.
func punctuation(s string) int {
	r, n := utf8.DecodeRuneInString(s)
	if strings.ContainsRune("（）：，；。、“”", r) && r != utf8.RuneError {
		return n
	}
	return 0
}
