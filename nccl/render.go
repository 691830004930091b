package nccl

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"unicode"

	"github.com/fabricform/fabricform/nccl/env"
)

// name matches variable names that both NCCL and a shell accept.
var name = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`) })

func check(s Setting) error {
	switch {
	case !name().MatchString(s.Name):
		return fmt.Errorf("%q is not a variable name", s.Name)
	case strings.ContainsAny(s.Value, "\n\r\x00"):
		return fmt.Errorf("%s: the value contains a line break or NUL, which nccl.conf cannot express", s.Name)
	case strings.ContainsFunc(s.Value, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Errorf("%s: the value %q contains a character that does not print", s.Name, s.Value)
	case len(s.Value) > env.MaxConfValue:
		return fmt.Errorf("%s: the value has %d bytes, but NCCL reads at most %d", s.Name, len(s.Value), env.MaxConfValue)
	}
	return nil
}

// RenderConf renders nccl.conf: KEY=VALUE without quotes or spaces, and the reasons as comments in
// column 0, which NCCL 2.26.2 and later skip.
func RenderConf(e Env) ([]byte, error) {
	return render(e, func(s Setting) string { return s.Name + "=" + s.Value })
}

// RenderShell renders exports for a POSIX shell, with values in single quotes.
func RenderShell(e Env) ([]byte, error) {
	return render(e, func(s Setting) string {
		return "export " + s.Name + "=" + Quote(s.Value)
	})
}

// Quote quotes a string as one word of a POSIX shell.
func Quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// Comment returns a reason as a comment of one line. A reason may quote a host: what does not print is replaced.
func Comment(reason string) string {
	return "# " + strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, strings.Join(strings.Fields(reason), " "))
}

func render(e Env, line func(Setting) string) ([]byte, error) {
	var out bytes.Buffer
	for _, s := range e {
		if err := check(s); err != nil {
			return nil, err
		}
		fmt.Fprintf(&out, "%s\n%s\n", Comment(s.Reason), line(s))
	}
	return out.Bytes(), nil
}
