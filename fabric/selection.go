package fabric

import (
	"fmt"
	"path"
	"strings"
)

// Selection narrows a command to some hosts. A term is a glob on names, or label=glob.
type Selection struct {
	Hosts, Exclude []string
	Link           string // a link, a network or a path of one: its ends alone
}

// Choose are the hosts that the terms choose; nil where there are no terms.
func (s Selection) Choose(f *Fabric) (map[string]bool, error) {
	if len(s.Hosts)+len(s.Exclude) == 0 && s.Link == "" {
		return nil, nil
	}
	ends, err := endsOf(f, s.Link)
	if err != nil {
		return nil, err
	}
	chosen := map[string]bool{}
	used := map[string]bool{}
	for _, h := range f.Hosts {
		in, err := chosenBy(h, s.Hosts, used)
		if err != nil {
			return nil, err
		}
		out, err := chosenBy(h, s.Exclude, used)
		if err != nil {
			return nil, err
		}
		chosen[h.Name] = (in || len(s.Hosts) == 0) && !out && (s.Link == "" || ends[h.Name])
	}
	for _, term := range append(append([]string{}, s.Hosts...), s.Exclude...) {
		if !used[term] {
			return nil, fmt.Errorf("%q names no host of the fabric: it is a glob on names such as 'gpu0*', or a label such as rack=r1",
				term)
		}
	}
	return chosen, nil
}

// endsOf are the hosts at the ends of a link, of a path, or of all paths of a network; "" has none.
func endsOf(f *Fabric, link string) (map[string]bool, error) {
	if link == "" {
		return nil, nil
	}
	ends := map[string]bool{}
	var there []string
	for _, n := range f.Networks {
		there = append(there, n.Name)
	}
	for _, p := range f.Paths() {
		there = append(there, p.Name)
		if p.Name == link || p.Network != nil && p.Network.Name == link {
			for _, e := range p.Endpoints {
				ends[e.Host] = true
			}
		}
	}
	if len(ends) == 0 {
		return nil, fmt.Errorf("-link %s: the fabric has no such link or network; there are %s", link, strings.Join(there, ", "))
	}
	return ends, nil
}

// chosenBy says whether one of the terms chooses the host.
func chosenBy(h *Host, terms []string, used map[string]bool) (bool, error) {
	found := false
	for _, term := range terms {
		text, pattern := h.Name, term
		if label, glob, is := strings.Cut(term, "="); is {
			text, pattern = h.Labels[label], glob
		}
		ok, err := path.Match(pattern, text)
		if err != nil {
			return false, fmt.Errorf("%q is not a valid glob: %w", term, err)
		}
		if ok {
			found, used[term] = true, true
		}
	}
	return found, nil
}
