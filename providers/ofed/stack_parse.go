package ofed

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// ofedLine is the line that `ofed_info -s` prints. DOCA-OFED calls itself OFED-internal.
var ofedLine = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(MLNX_OFED_LINUX|OFED-internal)-([0-9][0-9A-Za-z.-]{0,62}?):?$`)
})

// parseOFED parses the output of `ofed_info -s`; ok is false when no line names a stack.
func parseOFED(answer string) (stack, version string, ok bool) {
	for line := range strings.Lines(answer) {
		m := ofedLine().FindStringSubmatch(strings.TrimSpace(line))
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

// parseModinfo parses the output of modinfo(8) for several modules; each begins with its file name.
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
