package netmanager

import (
	"context"
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/fabricform/fabricform/host"
)

// source is a file of a manager that configures a link, and its lines; none if they were not found.
type source struct {
	file  string
	spans [][2]int // first and last
}

// sources returns the files behind a claim that a person edits: a front's own files, instead of one that it generated.
func sources(ctx context.Context, r host.Reader, netdev string, c Claim) (out []source) {
	m := Lookup(c.Manager)
	if m == nil || m.Stanzas == nil {
		return []source{{file: c.File}}
	}
	files := []string{c.File}
	if m.Front {
		files = nil
		for _, dir := range netplanFolders {
			for _, name := range filesIn(ctx, r, dir, ".yaml") {
				files = append(files, path.Join(dir, name))
			}
		}
	}
	for _, file := range files {
		if raw, err := r.ReadFile(ctx, file); err == nil {
			if spans := m.Stanzas(string(raw), netdev); spans != nil {
				out = append(out, source{file, spans})
			}
		}
	}
	if out == nil {
		out = []source{{file: c.File}}
	}
	return out
}

// Files names the files in which a person has configured the link.
func Files(ctx context.Context, r host.Reader, netdev string, c Claim) string {
	var out []string
	for _, s := range sources(ctx, r, netdev, c) {
		out = append(out, s.file)
	}
	return strings.Join(out, ", ")
}

// Removal says what a person removes so that no file of the manager configures the link any more: lines of a file, or the whole file.
func Removal(ctx context.Context, r host.Reader, netdev string, c Claim) string {
	var out []string
	for _, s := range sources(ctx, r, netdev, c) {
		var spans []string
		for _, l := range s.spans {
			span := fmt.Sprintf("lines %d to %d", l[0], l[1])
			if l[0] == l[1] {
				span = fmt.Sprintf("line %d", l[0])
			}
			spans = append(spans, span)
		}
		if spans != nil {
			out = append(out, strings.Join(spans, " and ")+" of "+s.file)
		}
	}
	switch m := Lookup(c.Manager); {
	case out != nil:
		return fmt.Sprintf("remove %s, a file of %s", strings.Join(out, ", and "), c.Manager)
	case m != nil && m.Stanzas != nil:
		return fmt.Sprintf("remove %s from %s, a file of %s", netdev, c.File, c.Manager)
	case c.Exact:
		return fmt.Sprintf("remove %s, a file of %s, or what it says of %s", c.File, c.Manager, netdev)
	}
	return fmt.Sprintf("exclude %s from the pattern in %s, a file of %s", netdev, c.File, c.Manager)
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
