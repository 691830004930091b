package netns

import (
	"os"

	"github.com/fabricform/fabricform/lab/site"
)

// Down ends every holder, and with it its namespaces and all in them, and removes the folder. It
// also works on what a crash has left.
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
	return os.RemoveAll(l.dir)
}
