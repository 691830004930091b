package fabric

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// SavedPlan begins a file that plan -out wrote. Such a file holds a fabric, and is none of its files.
const SavedPlan = "fabricform plan "

// Invocation is how the operator named a fabric on the command line. Commands in messages repeat it, so that they can
// be pasted as they are.
type Invocation struct {
	Flags []string `json:"flags,omitempty"` // such as -lab and -var=mtu=9000
	Path  string   `json:"path,omitempty"`  // "" for the current directory
	Dir   string   `json:"dir,omitempty"`   // of -chdir, to which Path is relative; "": the operator's own
}

// Command returns the command line that runs fabricform with these words on the same fabric, quoted for a shell.
func (i Invocation) Command(words ...string) string {
	line := []string{"fabricform"}
	if i.Dir != "" {
		line = append(line, "-chdir="+i.Dir)
	}
	line = slices.Concat(line, words, i.Flags)
	switch {
	case strings.HasPrefix(i.Path, "-"): // not a flag
		line = append(line, "./"+i.Path)
	case i.Path != "" && i.Path != ".":
		line = append(line, i.Path)
	}
	for n, word := range line {
		line[n] = Quote(word)
	}
	return strings.Join(line, " ")
}

// Hint is Command as messages show it.
func (i Invocation) Hint(words ...string) string { return "`" + i.Command(words...) + "`" }

// unfilled matches a command of lower-case words and flags.
var unfilled = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("`fabricform ([a-z-][a-z.,-]*(?: [a-z-][a-z.,-]*)*)`")
})

// Fill completes the commands in a message that was written without knowing how the operator named the fabric: on a host,
// or in a package below. Such a message has only the words, as in "run `fabricform rollback`".
func (i Invocation) Fill(message string) string {
	return unfilled().ReplaceAllStringFunc(message, func(command string) string {
		words := strings.Fields(strings.Trim(command, "`"))[1:]
		if words[0] != "explain" && words[0] != "lab" {
			return i.Hint(words...)
		}
		by := Invocation{Path: i.Path, Dir: i.Dir, Flags: slices.DeleteFunc(slices.Clone(i.Flags),
			func(flag string) bool { return flag == "-lab" || strings.HasPrefix(flag, "-lab=") })}
		if words[0] == "explain" { // its argument is a file
			if by.Path != "" {
				by.Flags = append(by.Flags, "-fabric="+by.Path)
			}
			by.Path = ""
		}
		return by.Hint(words...)
	})
}

// Quote quotes a word for a shell, unless no shell would change it.
func Quote(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./=:,@%+…", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	if strings.ContainsFunc(word, func(r rune) bool { return !unicode.IsPrint(r) }) || !utf8.ValidString(word) {
		return ansiC(word)
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// blanks are letters and symbols without ink.
const blanks = "\u115f\u1160\u2800\u3164\uffa0"

// Prints reports whether a character shows itself and does nothing else.
func Prints(r rune) bool { return unicode.IsPrint(r) && !strings.ContainsRune(blanks, r) }

// ansiC quotes a word with escapes for all that does not print, as shells read $'…'.
func ansiC(word string) string {
	var b strings.Builder
	for i := range len(word) {
		switch c := word[i]; {
		case c == '\'' || c == '\\':
			b.WriteString(`\` + string(c))
		case c < ' ' || c >= 0x7f:
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	return "$'" + b.String() + "'"
}
