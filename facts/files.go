package facts

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/fabricform/fabricform/host"
)

// maxFile bounds a configuration file of ours.
const maxFile = 1 << 20

// File is a configuration file of fabricform's own. What others wrote may hold secrets, and never
// is in a snapshot.
type File struct {
	host.FileStat
	Text string `json:"text"`
}

// readFiles reads our own files in the needed folders. A folder that is not there is absent from
// Folders, and has none.
func (s *Snapshot) readFiles(r host.Reader, folders []string) error {
	for _, dir := range folders {
		names, err := r.ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("list %s: %w", dir, err)
		}
		s.Folders = append(s.Folders, dir)
		for _, name := range names {
			at := path.Join(dir, name)
			stat, err := r.Stat(at)
			if host.OwnFile(at) != nil || strings.HasPrefix(name, ".") || err != nil || !stat.Mode.IsRegular() {
				continue
			}
			text, err := r.ReadFile(at)
			if err != nil {
				return fmt.Errorf("read %s: %w", at, err)
			}
			if s.Files == nil {
				s.Files = map[string]File{}
			}
			s.Files[at] = File{stat, string(text[:min(len(text), maxFile)])}
		}
	}
	return nil
}
