package netns

import (
	"github.com/fabricform/fabricform/lab/site"
)

// Down kills every holder, which ends its namespaces and everything in them, and removes the directory. It
// also works after a crash.
func (l *Lab) Down() error {
	all := []site.Process{l.state.Net}
	if l.state.Router != nil {
		all = append(all, *l.state.Router)
	}
	for _, h := range l.state.Hosts {
		all = append(all, h.Process)
	}
	if err := site.End(all...); err != nil {
		return err
	}
	return site.Remove(l.dir)
}
