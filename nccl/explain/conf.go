package explain

import (
	"fmt"
	"strings"

	"github.com/fabricform/fabricform/nccl/env"
)

// conf parses nccl.conf as NCCL does: KEY=VALUE, nothing trimmed, the first of equal names wins.
func (r *reading) conf(text string) {
	var all []setting
	first := map[string]int{}
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSuffix(line, "\n")
		if bare, cr := strings.CutSuffix(line, "\r"); cr {
			r.say(number, env.Warning, "Windows line endings", "Lines end in CR LF.", "NCCL before 2.30 treats the CR as part of the value.", "Save the file with LF line endings.")
			line = bare
		}
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if len(line) >= env.MaxConfLine {
			r.say(number, env.Error, "Line too long", fmt.Sprintf("The line has %d bytes, but NCCL reads at most %d.", len(line), env.MaxConfLine-1), "NCCL reads the rest as another line.", "Shorten it.")
			continue
		}
		name, value, found := strings.Cut(line, "=")
		if !r.confLine(number, name, value, found) {
			r.mark(number, settingLine) // a finding names what is wrong with it
			continue
		}
		if at := first[name]; at > 0 {
			r.add(number, env.Finding{Severity: env.Warning, Name: name, Summary: "Set twice", Wrong: fmt.Sprintf("%s is also set in line %d, and NCCL uses the first.", name, at), Costs: "This line has no effect.", Instead: "Keep one of them."})
			continue
		}
		first[name] = number
		all = append(all, setting{line: number, name: name, value: value, where: confFile})
	}
	r.settings(all)
}

// confLine reports problems with the form of a line. It returns false if NCCL reads no usable setting from it.
func (r *reading) confLine(number int, name, value string, found bool) bool {
	bare := strings.TrimSpace(name)
	bare = strings.TrimSpace(strings.TrimPrefix(bare, "export "))
	switch {
	case !found && strings.HasPrefix(strings.TrimSpace(name), "#"):
		return false // an indented comment, which NCCL skips because it has no =
	case !found:
		r.say(number, env.Error, "Line without =", fmt.Sprintf("%q is not KEY=VALUE.", shorten(name)), "NCCL silently skips it.", "Write KEY=VALUE, or # in the first column.")
		return false
	case strings.HasPrefix(bare, "#"):
		r.say(number, env.Warning, "Comment that NCCL reads as a variable", "NCCL recognizes comments only with # in the first column.", "", "Move the # to the first column.")
		return false
	case bare != name:
		r.say(number, env.Error, "Invalid variable name", fmt.Sprintf("NCCL reads %q as the name: it supports neither export nor spaces.", shorten(name)), "The variable is not set.", fmt.Sprintf("Write %s=%s.", bare, shorten(strings.TrimSpace(value))))
		return false
	}
	trimmed := strings.TrimSpace(value)
	switch {
	case len(value) > env.MaxConfValue:
		r.say(number, env.Error, "Value too long", fmt.Sprintf("The value of %s has %d bytes, but NCCL reads at most %d.", name, len(value), env.MaxConfValue), "NCCL silently drops the rest.", "Shorten it.")
	case len(trimmed) > 1 && (trimmed[0] == '"' || trimmed[0] == '\''):
		r.say(number, env.Error, "Quotes become part of the value", fmt.Sprintf("%s=%s: NCCL does not remove quotes.", name, shorten(value)), "A quoted number is read as 0, and a quoted name matches nothing.", fmt.Sprintf("Write %s=%s.", name, shorten(strings.Trim(trimmed, `"'`))))
		return false
	case strings.Contains(value, "$"):
		r.say(number, env.Error, "Variables are not expanded", fmt.Sprintf("%s=%s: NCCL reads $ literally.", name, shorten(value)), "", "Write the value itself.")
		return false
	}
	return true
}

// shorten cuts a long text for a message.
func shorten(s string) string {
	if len(s) > 80 {
		return strings.ToValidUTF8(s[:77], "") + "…"
	}
	return s
}
