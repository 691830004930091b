package explain

import (
	"fmt"
	"strings"

	"github.com/fabricform/fabricform/nccl/env"
)

// conf reads nccl.conf as NCCL does: KEY=VALUE, nothing trimmed, the first of equal names wins.
func (r *reading) conf(text string) {
	var all []setting
	first := map[string]int{}
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSuffix(line, "\n")
		if bare, cr := strings.CutSuffix(line, "\r"); cr {
			r.say(number, env.Warning, "Line ends of Windows", "Lines end in CR LF.", "NCCL before 2.30 takes the CR for a part of the value.", "Save the file with LF alone.")
			line = bare
		}
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if len(line) >= env.MaxConfLine {
			r.say(number, env.Error, "Line too long", fmt.Sprintf("The line has %d bytes; NCCL takes %d for a line.", len(line), env.MaxConfLine-1), "What follows is read as a line of its own.", "Shorten it.")
			continue
		}
		name, value, found := strings.Cut(line, "=")
		if !r.confLine(number, name, value, found) {
			continue
		}
		if at := first[name]; at > 0 {
			r.add(number, env.Finding{Severity: env.Warning, Name: name, Summary: "Set twice", Wrong: fmt.Sprintf("%s stands in line %d, too, and NCCL takes the first.", name, at), Costs: "This line does nothing.", Instead: "Keep one of them."})
			continue
		}
		first[name] = number
		all = append(all, setting{line: number, name: name, value: value, where: "nccl.conf"})
	}
	r.settings(all)
}

// confLine says what is wrong with a line's form; false where NCCL gets nothing out of it.
func (r *reading) confLine(number int, name, value string, found bool) bool {
	bare := strings.TrimSpace(name)
	bare = strings.TrimSpace(strings.TrimPrefix(bare, "export "))
	switch {
	case !found && strings.HasPrefix(strings.TrimSpace(name), "#"):
		return false // an indented comment: NCCL skips it for want of a =
	case !found:
		r.say(number, env.Error, "Line without =", fmt.Sprintf("%q is no KEY=VALUE.", shorten(name)), "NCCL skips it without a word.", "Write KEY=VALUE, or # in the first column.")
		return false
	case strings.HasPrefix(bare, "#"):
		r.say(number, env.Warning, "Comment that NCCL takes for a variable", "A comment begins with # in the first column.", "", "Move the # there.")
		return false
	case bare != name:
		r.say(number, env.Error, "Name with more than the name", fmt.Sprintf("%q is the name for NCCL: it knows neither export nor blanks.", shorten(name)), "The variable is not set.", fmt.Sprintf("Write %s=%s.", bare, shorten(strings.TrimSpace(value))))
		return false
	}
	trimmed := strings.TrimSpace(value)
	switch {
	case len(value) > env.MaxConfValue:
		r.say(number, env.Error, "Value too long", fmt.Sprintf("The value of %s has %d bytes; NCCL takes %d.", name, len(value), env.MaxConfValue), "The rest is cut off without a word.", "Shorten it.")
	case len(trimmed) > 1 && (trimmed[0] == '"' || trimmed[0] == '\''):
		r.say(number, env.Error, "Quotes belong to the value", fmt.Sprintf("%s=%s: NCCL knows no quotes.", name, shorten(value)), "A quoted number is read as 0, and a quoted name matches nothing.", fmt.Sprintf("Write %s=%s.", name, shorten(strings.Trim(trimmed, `"'`))))
		return false
	case strings.Contains(value, "$"):
		r.say(number, env.Error, "Variables are not replaced", fmt.Sprintf("%s=%s: NCCL takes $ as it stands.", name, shorten(value)), "", "Write the value itself.")
		return false
	}
	return true
}

// shorten keeps messages readable.
func shorten(s string) string {
	if len(s) > 80 {
		return strings.ToValidUTF8(s[:77], "") + "…"
	}
	return s
}
