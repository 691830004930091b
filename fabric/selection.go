package fabric

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// Selection narrows a command to some hosts. A term is a glob on names, or label=glob.
type Selection struct {
	Hosts, Exclude []string
	Link           string // a link, a network or a path of one: its ends alone
}

// Choose returns the hosts that the terms choose; nil if there are no terms. It returns an error if no host is left: a command would
// otherwise report success without looking at any host.
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
			return nil, fmt.Errorf("%q names none of the hosts: it is a glob on names such as 'gpu0*', or a label such as rack=r1",
				term)
		}
	}
	if !slices.Contains(slices.Collect(maps.Values(chosen)), true) {
		return nil, errors.New("-host, -exclude and -link leave no host")
	}
	return chosen, nil
}

// endsOf are the hosts at the ends of a link, of a path, or of all paths of a network; "" has none.
func endsOf(f *Fabric, link string) (map[string]bool, error) {
	if link == "" {
		return nil, nil
	}
	ends := map[string]bool{}
	for _, p := range f.Paths() {
		if p.Name == link || p.Network != nil && p.Network.Name == link {
			for _, e := range p.Endpoints {
				ends[e.Host] = true
			}
		}
	}
	if len(ends) == 0 {
		return nil, fmt.Errorf("-link %s: the fabric has no such link or network; there are %s", link, strings.Join(f.LinkTerms(), ", "))
	}
	return ends, nil
}

// LinkTerms are the values of Selection.Link: networks, links, and paths of networks.
func (f *Fabric) LinkTerms() (out []string) {
	for _, n := range f.Networks {
		out = append(out, n.Name)
	}
	for _, p := range f.Paths() {
		out = append(out, p.Name)
	}
	return out
}

// HostTerms are terms of a Selection without wildcards, in order: the name of each host, and each label with its value. Labels
// that a term cannot name are left out.
func (f *Fabric) HostTerms() []string {
	terms := map[string]bool{}
	for _, h := range f.Hosts {
		terms[h.Name] = true
		for label, value := range h.Labels {
			if value != "" && !strings.Contains(label, "=") && !strings.ContainsAny(value, `*?[\`) {
				terms[label+"="+value] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(terms))
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
