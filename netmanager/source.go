package netmanager

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/fabricform/fabricform/host"
)

// Removal is what a person takes out of a file so that it configures none of some links any more.
type Removal struct {
	Links []string // by the names of their devices
	Text  string   // "remove …"
}

// files returns the files behind a claim that a person edits: a front's own files, instead of one that it generated.
func files(ctx context.Context, r host.Reader, netdev string, c Claim) (out []string) {
	m := Lookup(c.Manager)
	if m == nil || !m.Front {
		return []string{c.File}
	}
	for _, dir := range netplanFolders {
		for _, name := range filesIn(ctx, r, dir, ".yaml") {
			file := path.Join(dir, name)
			if m.Stanzas(host.Text(ctx, r, file), []string{c.named(netdev)}) != nil {
				out = append(out, file)
			}
		}
	}
	if out == nil {
		out = []string{c.File}
	}
	return out
}

// named returns the name of a link in the files of the claim's manager: a front may have another than that of the device.
func (c Claim) named(netdev string) string {
	for _, m := range All {
		if by := Lookup(c.Manager); m.Behind != nil && by != nil && by.Front && by.Made(m.Behind, c.File) {
			return strings.TrimSuffix(strings.TrimPrefix(c.File, m.Behind.output()), m.Behind.After)
		}
	}
	return netdev
}

// Files names the files in which a person has configured the link.
func Files(ctx context.Context, r host.Reader, netdev string, c Claim) string {
	return strings.Join(files(ctx, r, netdev, c), ", ")
}

// Removals says for each file, by its path, what a person removes so that no file of a manager configures these links any more: lines of
// the file, or the whole file. Each link has a claim.
func Removals(ctx context.Context, r host.Reader, netdevs []string, claims map[string]Claim) (out []Removal) {
	byFile := map[string][]string{}
	for _, netdev := range netdevs {
		for _, file := range files(ctx, r, netdev, claims[netdev]) {
			byFile[file] = append(byFile[file], netdev)
		}
	}
	for _, file := range slices.Sorted(maps.Keys(byFile)) {
		out = append(out, Removal{byFile[file], removal(ctx, r, file, byFile[file], claims)})
	}
	return out
}

// removal says what to remove of one file.
func removal(ctx context.Context, r host.Reader, file string, netdevs []string, claims map[string]Claim) string {
	c := claims[netdevs[0]]
	m := Lookup(c.Manager)
	var named []string
	for _, netdev := range netdevs {
		named = append(named, claims[netdev].named(netdev))
	}
	var lines []string
	if m != nil && m.Stanzas != nil {
		for _, l := range m.Stanzas(host.Text(ctx, r, file), named) {
			span := fmt.Sprintf("lines %d to %d", l[0], l[1])
			if l[0] == l[1] {
				span = fmt.Sprintf("line %d", l[0])
			}
			lines = append(lines, span)
		}
	}
	shared := false // with links that stay
	for netdev, o := range claims {
		shared = shared || o.File == file && !slices.Contains(netdevs, netdev)
	}
	links := strings.Join(named, ", ")
	out := fmt.Sprintf("remove %s, a file of %s", file, c.Manager)
	switch {
	case lines != nil:
		out = fmt.Sprintf("remove %s of %s, a file of %s", strings.Join(lines, " and "), file, c.Manager)
	case m != nil && m.Front:
		out = fmt.Sprintf("remove %s from the files in %s, from which %s made %s", links, m.Folder, m, file)
	case m != nil && m.Stanzas != nil || shared && c.Exact:
		out = fmt.Sprintf("remove %s from %s, a file of %s", links, file, c.Manager)
	case !c.Exact:
		out = fmt.Sprintf("exclude %s from the pattern in %s, a file of %s, or rename the file so that it sorts after ours", links, file, c.Manager)
	}
	if m != nil && m.Front {
		out += ", then run `" + strings.Join(m.Reload, " ") + "`"
	}
	return out
}

// spans sorts lines from first to last, and joins those that follow each other.
func spans(all [][2]int) (out [][2]int) {
	slices.SortFunc(all, func(a, b [2]int) int { return cmp.Or(a[0]-b[0], a[1]-b[1]) })
	for _, s := range all {
		if last := len(out) - 1; last >= 0 && s[0] <= out[last][1]+1 {
			out[last][1] = max(out[last][1], s[1])
		} else {
			out = append(out, s)
		}
	}
	return out
}

// netplanStanzas returns the first and the last lines of what a file of netplan says below the names of links, and of the sections that hold
// nothing else. Files in YAML's flow style have no such lines.
func netplanStanzas(text string, names []string) [][2]int {
	indent := func(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }
	lines := strings.Split(text, "\n")
	says := func(line string) bool { s := strings.TrimSpace(line); return s != "" && s[0] != '#' }
	// below returns the last line of what is below a key, and all lines there that say something.
	below := func(key int) (last int, inner []int) {
		last = key
		for i := key + 1; i < len(lines); i++ {
			deeper := strings.TrimSpace(lines[i]) != "" && indent(lines[i]) > indent(lines[key])
			switch {
			case says(lines[i]) && !deeper:
				return last, inner
			case says(lines[i]):
				inner = append(inner, i)
			}
			if deeper {
				last = i
			}
		}
		return last, inner
	}
	var out [][2]int
	gone := map[int]bool{}
	for i, line := range lines {
		if m := netplanKey().FindStringSubmatch(line); m != nil && slices.Contains(names, m[1]) {
			last, _ := below(i)
			out = append(out, [2]int{i + 1, last + 1})
			for ; i <= last; i++ {
				gone[i] = true
			}
		}
	}
	for i, line := range lines {
		if gone[i] || !netplanKey().MatchString(line) {
			continue
		}
		if last, inner := below(i); inner != nil && !slices.ContainsFunc(inner, func(i int) bool { return !gone[i] }) {
			out = append(out, [2]int{i + 1, last + 1})
		}
	}
	return spans(out)
}

// netplanKey is a key below another one, with a value on the same line only in YAML's flow style.
var netplanKey = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^ +["']?([^"'\s#][^"':]*)["']?:\s*(?:\{.*\}\s*)?(?:#.*)?$`)
})

// ifupdownStanzas returns the first and the last lines of the stanzas of links (interfaces(5)).
func ifupdownStanzas(text string, names []string) [][2]int {
	var out [][2]int
	within := false
	for i, line := range strings.Split(text, "\n") {
		w := strings.Fields(line)
		if len(w) == 0 || strings.HasPrefix(w[0], "#") {
			continue
		}
		starts := w[0] == "iface" || w[0] == "auto" || w[0] == "mapping" || strings.HasPrefix(w[0], "source") || strings.HasPrefix(w[0], "allow-") || w[0] == "no-auto-down"
		others := w[1:]
		if w[0] == "iface" {
			others = w[1:min(2, len(w))]
		}
		others = slices.DeleteFunc(slices.Clone(others), func(name string) bool { return slices.Contains(names, name) })
		switch {
		case starts && len(w) > 1 && len(others) == 0:
			out = append(out, [2]int{i + 1, i + 1})
			within = true
		case starts:
			within = false
		case within:
			out[len(out)-1][1] = i + 1
		}
	}
	return spans(out)
}
