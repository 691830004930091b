package facts

import (
	"crypto/sha256"
	"encoding/hex"
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
// is in a snapshot, with one exception: nccl.conf holds settings alone, and NCCL takes them whoever
// wrote them. One that is no plain file has no text.
type File struct {
	host.FileStat
	Text string `json:"text"`
}

// Digest names a file's content with its mode, and its owner where that is not root.
func (f File) Digest() string {
	sum := sha256.Sum256([]byte(f.Text))
	out := fmt.Sprintf("sha256:%s,%04o", hex.EncodeToString(sum[:8]), f.Mode.Perm())
	if f.UID != 0 || f.GID != 0 {
		out += fmt.Sprintf(",owner=%d:%d", f.UID, f.GID)
	}
	return out
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
			if host.OwnFile(at) != nil || strings.HasPrefix(name, ".") {
				continue
			}
			stat, err := r.Stat(at)
			plain := stat.Mode.IsRegular()
			if err != nil || !plain && at != host.NCCLConf {
				continue
			}
			if s.Files == nil {
				s.Files = map[string]File{}
			}
			if !plain {
				s.Files[at] = File{FileStat: stat}
				continue
			}
			text, err := r.ReadFile(at)
			if err != nil {
				return fmt.Errorf("read %s: %w", at, err)
			}
			s.Files[at] = File{stat, string(text[:min(len(text), maxFile)])}
		}
	}
	return nil
}
