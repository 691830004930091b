package main

import (
	"fmt"
	"path"
	"strings"

	"github.com/fabricform/fabricform/fabric"
)

// selection narrows a command to some hosts. A term is a glob on names, or label=glob.
type selection struct{ hosts, exclude []string }

// hosts are those that the terms choose; nil where there are no terms.
func (s selection) choose(f *fabric.Fabric) (map[string]bool, error) {
	if len(s.hosts)+len(s.exclude) == 0 {
		return nil, nil
	}
	chosen := map[string]bool{}
	used := map[string]bool{}
	for _, h := range f.Hosts {
		in, err := chosenBy(h, s.hosts, used)
		if err != nil {
			return nil, err
		}
		out, err := chosenBy(h, s.exclude, used)
		if err != nil {
			return nil, err
		}
		chosen[h.Name] = (in || len(s.hosts) == 0) && !out
	}
	for _, term := range append(append([]string{}, s.hosts...), s.exclude...) {
		if !used[term] {
			return nil, fmt.Errorf("%q names no host of the fabric: it is a glob on names such as 'gpu0*', or a label such as rack=r1", term)
		}
	}
	return chosen, nil
}

// chosenBy says whether one of the terms chooses the host.
func chosenBy(h *fabric.Host, terms []string, used map[string]bool) (bool, error) {
	found := false
	for _, term := range terms {
		text, pattern := h.Name, term
		if label, glob, is := strings.Cut(term, "="); is {
			text, pattern = h.Labels[label], glob
		}
		ok, err := path.Match(pattern, text)
		if err != nil {
			return false, fmt.Errorf("%q is no glob: %w", term, err)
		}
		if ok {
			found, used[term] = true, true
		}
	}
	return found, nil
}
