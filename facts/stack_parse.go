package facts

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// ofedLine is what `ofed_info -s` prints: MLNX_OFED names itself, and DOCA-OFED is the internal one.
var ofedLine = regexp.MustCompile(`^(MLNX_OFED_LINUX|OFED-internal)-([0-9][0-9A-Za-z.-]{0,62}?):?$`)

// ParseOFED reads the answer of `ofed_info -s`; false where no line says a stack.
func ParseOFED(answer string) (stack, version string, ok bool) {
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

// ParseRelease reads os-release(5).
func ParseRelease(text string) Release {
	var r Release
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if !ok {
			continue
		}
		value = strings.Trim(value, `"'`)
		switch key {
		case "ID":
			r.ID = value
		case "VERSION_ID":
			r.Version = value
		case "ID_LIKE":
			r.Like = strings.Fields(value)
		case "VERSION":
			r.Variant = value
		}
	}
	return r
}

// ParseModinfo reads what modinfo(8) prints of several modules; each begins with its file's name.
func ParseModinfo(answer string) []StackModule {
	var out []StackModule
	for line := range strings.Lines(answer) {
		key, value, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		value = strings.TrimSpace(value)
		if key == "filename" {
			out = append(out, StackModule{File: value})
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
	return slices.DeleteFunc(out, func(m StackModule) bool { return m.Name == "" })
}

// ParseDpkg reads /var/lib/dpkg/status, and behind it what dpkg has not entered there yet: the packages
// that are asked for, where they are installed, and all whose installation broke off.
func ParseDpkg(status string, wanted []string) map[string]Package {
	states := map[[2]string]Package{} // by name and architecture: one may be there for two
	for stanza := range strings.SplitSeq(status, "\n\n") {
		var k [2]string
		var state, version string
		for line := range strings.Lines(stanza) {
			switch field, value, _ := strings.Cut(line, ":"); field {
			case "Package":
				k[0] = strings.TrimSpace(value)
			case "Architecture":
				k[1] = strings.TrimSpace(value)
			case "Status": // want, error flag, state: dpkg(1)
				if f := strings.Fields(value); len(f) == 3 {
					state = f[2]
				}
			case "Version":
				version = strings.TrimSpace(value)
			}
		}
		if state == "installed" {
			state = ""
		}
		delete(states, k)
		if k[0] != "" && state != "not-installed" && state != "config-files" {
			states[k] = Package{version, state}
		}
	}
	out := map[string]Package{}
	for _, k := range slices.SortedFunc(maps.Keys(states), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		if p, name := states[k], k[0]; p.Unfinished != "" || slices.Contains(wanted, name) && out[name].Unfinished == "" {
			out[name] = p
		}
	}
	return out
}

// ParseRPM reads the answer of `rpm -q` with the format of rpmFormat; what is not installed is told
// in a sentence, which has no tab.
func ParseRPM(answer string) map[string]Package {
	out := map[string]Package{}
	for line := range strings.Lines(answer) {
		if name, version, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok && name != "" && version != "" {
			out[name] = Package{Version: strings.TrimPrefix(version, "(none):")}
		}
	}
	return out
}
