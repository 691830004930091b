package ofed

import (
	"regexp"
	"slices"
	"strings"
)

// ofedLine is what `ofed_info -s` prints: MLNX_OFED names itself, and DOCA-OFED is the internal one.
var ofedLine = regexp.MustCompile(`^(MLNX_OFED_LINUX|OFED-internal)-([0-9][0-9A-Za-z.-]{0,62}?):?$`)

// parseOFED reads the answer of `ofed_info -s`; false where no line says a stack.
func parseOFED(answer string) (stack, version string, ok bool) {
	for line := range strings.Lines(answer) {
		m := ofedLine.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		if m[1] == "OFED-internal" {
			return DOCAOFED, m[2], true
		}
		return MLNXOFED, m[2], true
	}
	return "", "", false
}

// parseModinfo reads what modinfo(8) prints of several modules; each begins with its file's name.
func parseModinfo(answer string) []Module {
	var out []Module
	for line := range strings.Lines(answer) {
		key, value, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		value = strings.TrimSpace(value)
		if key == "filename" {
			out = append(out, Module{File: value})
			continue
		}
		if len(out) == 0 {
			continue
		}
		m := &out[len(out)-1]
		switch key {
		case "name":
			m.Name = value
		case "srcversion":
			m.Source = value
		case "signer":
			m.Signer = value
		}
	}
	return slices.DeleteFunc(out, func(m Module) bool { return m.Name == "" })
}
