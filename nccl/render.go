package nccl

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"github.com/fabricform/fabricform/nccl/env"
)

// name is what may stand before the first = of a line, for NCCL and for a shell alike.
var name = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func check(s Setting) error {
	switch {
	case !name.MatchString(s.Name):
		return fmt.Errorf("%q is no variable name", s.Name)
	case strings.ContainsAny(s.Value, "\n\r\x00"):
		return fmt.Errorf("%s: its value holds a line break or NUL, which no file of NCCL's can say", s.Name)
	case len(s.Value) > env.MaxConfValue:
		return fmt.Errorf("%s: its value has %d bytes; NCCL reads %d", s.Name, len(s.Value), env.MaxConfValue)
	}
	return nil
}

// RenderConf renders nccl.conf: KEY=VALUE without quotes or blanks, and reasons as comments in
// column 0, where NCCL 2.26.2 and later skip them.
func RenderConf(e Env) ([]byte, error) {
	return render(e, func(s Setting) string { return s.Name + "=" + s.Value })
}

// RenderShell renders POSIX shell exports. Every byte of a value stands in single quotes.
func RenderShell(e Env) ([]byte, error) {
	return render(e, func(s Setting) string {
		return "export " + s.Name + "=" + Quote(s.Value)
	})
}

// Quote makes a word of a POSIX shell: every byte stands for itself.
func Quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// Comment is a reason as one line of a comment.
func Comment(reason string) string { return "# " + strings.Join(strings.Fields(reason), " ") }

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
