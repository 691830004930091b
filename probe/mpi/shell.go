package mpi

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Command is the command with which a launcher starts its daemon on another host.
type Command struct {
	Program string   // a path or a name, as in the command
	Args    []string // without the program
	Env     []string // assignments, in their order
}

// daemons are the programs with which launchers start ranks: of Open MPI 4, Open MPI 5 and Hydra.
var daemons = []string{"orted", "prted", "hydra_pmi_proxy"}

// assigned are the variables that launchers set for their daemons.
var assigned = []string{"PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "OPAL_PREFIX", "OPAL_LIBDIR", "PRTE_PREFIX", "PMIX_PREFIX"}

// Shell parses the command in a remote shell's command line, after the host's name. No shell runs it. It may have
// assignments of known variables, `export`, and one daemon at the end; anything else is an error. environ is the
// daemon's environment without the assignments.
func Shell(words, environ []string) (Command, error) {
	env := map[string]string{}
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		env[name] = value
	}
	parts, err := split(strings.Join(words, " "), env)
	if err != nil {
		return Command{}, err
	}
	var c Command
	for i, part := range parts {
		switch {
		case len(part) == 0:
		case c.Program != "":
			return Command{}, fmt.Errorf("%.80q comes after the daemon", strings.Join(part, " "))
		case part[0] == "export" && len(part) == 2 && slices.Contains(assigned, part[1]):
		case len(part) == 1 && i < len(parts)-1:
			name, value, is := strings.Cut(part[0], "=")
			if !is || !slices.Contains(assigned, name) {
				return Command{}, fmt.Errorf("%.80q is not an expected assignment", part[0])
			}
			c.Env = append(c.Env, name+"="+value)
		case slices.Contains(daemons, path.Base(part[0])):
			c.Program, c.Args = part[0], part[1:]
		default:
			return Command{}, fmt.Errorf("%.80q is not one of %s", part[0], strings.Join(daemons, ", "))
		}
	}
	switch {
	case c.Program == "":
		return Command{}, errors.New("the command starts no daemon")
	case strings.Contains(c.Program, "/") && (!path.IsAbs(c.Program) || path.Clean(c.Program) != c.Program):
		return Command{}, fmt.Errorf("%.80q is neither a name nor an absolute path", c.Program)
	case slices.Contains(c.Args, "--daemonize"):
		return Command{}, errors.New("the daemon would detach from its parent (--daemonize)")
	}
	return c, nil
}

// split splits a line at blanks and semicolons, as a shell does. It supports quotes, backslashes, and $NAME, ${NAME}
// and ${NAME:-} of assigned variables; any other shell syntax is an error. Assignments update env.
func split(line string, env map[string]string) (parts [][]string, err error) {
	var part []string
	var word strings.Builder
	begun := false
	end := func() {
		if begun {
			if name, value, is := strings.Cut(word.String(), "="); is && len(part) == 0 {
				env[name] = value
			}
			part = append(part, word.String())
		}
		word.Reset()
		begun = false
	}
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case c == ' ' || c == '\t':
			end()
		case c == ';':
			end()
			parts, part = append(parts, part), nil
		case c == '$':
			value, n, err := expand(line[i:], env)
			if err != nil {
				return nil, err
			}
			word.WriteString(value)
			i, begun = i+n-1, true
		case c == '\'' || c == '"':
			text, n, err := quoted(line[i:])
			if err != nil {
				return nil, err
			}
			word.WriteString(text)
			i, begun = i+n-1, true
		case c == '\\' && i+1 < len(line) && line[i+1] >= ' ':
			i, begun = i+1, true
			word.WriteByte(line[i])
		case c < ' ' || c == 0x7f || strings.IndexByte("`&|<>(){}*?!~#\\", c) >= 0 || c == '[' && !begun:
			return nil, fmt.Errorf("unexpected shell syntax at %.80q", line[i:])
		default:
			word.WriteByte(c)
			begun = true
		}
	}
	end()
	return append(parts, part), nil
}

// quoted parses the quoted text at the beginning of s. It returns the text and its length with the quotes. Variables in quotes are an error.
func quoted(s string) (text string, n int, err error) {
	var out strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == s[0]:
			return out.String(), i + 1, nil
		case c < ' ' || c == 0x7f || s[0] == '"' && (c == '$' || c == '`'):
			return "", 0, fmt.Errorf("unexpected shell syntax at %.80q", s[i:])
		case s[0] == '"' && c == '\\' && i+1 < len(s) && strings.IndexByte("\"\\$`", s[i+1]) >= 0:
			i++
			out.WriteByte(s[i])
		default:
			out.WriteByte(c)
		}
	}
	return "", 0, fmt.Errorf("%.80q has no closing quote", s)
}

// expand parses the variable at the beginning of s. It returns its value and the length of the reference.
func expand(s string, env map[string]string) (value string, n int, err error) {
	for _, name := range assigned {
		for _, form := range []string{"${" + name + ":-}", "${" + name + "}", "$" + name} {
			if rest, is := strings.CutPrefix(s, form); is && (strings.HasPrefix(form, "${") || rest == "" || !partOfName(rest[0])) {
				return env[name], len(form), nil
			}
		}
	}
	return "", 0, fmt.Errorf("%.80q is not an expected variable", s)
}

func partOfName(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
}
