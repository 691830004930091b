package netmanager

import (
	"context"
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/fabricform/fabricform/host"
)

// Removal says what a person removes so that no file of the manager configures the link any more: lines of a file, or the whole file.
func Removal(ctx context.Context, r host.Reader, netdev string, c Claim) string {
	m := Lookup(c.Manager)
	files := []string{c.File}
	if m != nil && m.Front { // the claim is a file that it generates
		files = nil
		for _, dir := range netplanFolders {
			for _, name := range filesIn(ctx, r, dir, ".yaml") {
				files = append(files, path.Join(dir, name))
			}
		}
	}
	if m == nil || m.Stanzas == nil {
		if c.Exact {
			return fmt.Sprintf("remove %s, a file of %s, or what it says of %s", c.File, c.Manager, netdev)
		}
		return fmt.Sprintf("exclude %s from the pattern in %s, a file of %s", netdev, c.File, c.Manager)
	}
	var out []string
	for _, file := range files {
		raw, err := r.ReadFile(ctx, file)
		if err != nil {
			continue
		}
		var spans []string
		for _, s := range m.Stanzas(string(raw), netdev) {
			span := fmt.Sprintf("lines %d to %d", s[0], s[1])
			if s[0] == s[1] {
				span = fmt.Sprintf("line %d", s[0])
			}
			spans = append(spans, span)
		}
		if spans != nil {
			out = append(out, strings.Join(spans, " and ")+" of "+file)
		}
	}
	if out == nil {
		return fmt.Sprintf("remove %s from %s, a file of %s", netdev, c.File, c.Manager)
	}
	return fmt.Sprintf("remove %s, a file of %s", strings.Join(out, ", and "), c.Manager)
}

// netplanStanzas returns the first and the last line of what a file of netplan says below the name of the link. Files in YAML's flow style
// have no such lines.
func netplanStanzas(text, netdev string) (out [][2]int) {
	key := regexp.MustCompile(`^ +["']?` + regexp.QuoteMeta(netdev) + `["']?:\s*(\{.*\}\s*)?(#.*)?$`)
	indent := func(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }
	depth := -1 // of the name, while its lines go on
	for i, line := range strings.Split(text, "\n") {
		blank := strings.TrimSpace(line) == ""
		switch {
		case key.MatchString(line):
			depth = indent(line)
			out = append(out, [2]int{i + 1, i + 1})
		case depth >= 0 && !blank && indent(line) > depth:
			out[len(out)-1][1] = i + 1
		case !blank:
			depth = -1
		}
	}
	return out
}

// ifupdownStanzas returns the first and the last line of each stanza of the link (interfaces(5)).
func ifupdownStanzas(text, netdev string) (out [][2]int) {
	within := false
	for i, line := range strings.Split(text, "\n") {
		w := strings.Fields(line)
		if len(w) == 0 || strings.HasPrefix(w[0], "#") {
			continue
		}
		starts := w[0] == "iface" || w[0] == "auto" || w[0] == "mapping" || strings.HasPrefix(w[0], "source") || strings.HasPrefix(w[0], "allow-") || w[0] == "no-auto-down"
		switch {
		case starts && len(w) > 1 && w[1] == netdev && (w[0] == "iface" || len(w) == 2):
			if last := len(out) - 1; last >= 0 && within {
				out[last][1] = i + 1
			} else {
				out = append(out, [2]int{i + 1, i + 1})
			}
			within = true
		case starts:
			within = false
		case within:
			out[len(out)-1][1] = i + 1
		}
	}
	return out
}
