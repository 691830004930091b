package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/fabricform/fabricform/host/file"
)

// recordDir holds the ownership records, one file for each fabric.
const recordDir = file.StateDir

// maxRecord bounds the size of a record that is read: 10,000 owned values need about 1 MiB.
const maxRecord = 16 << 20

// RecordPath returns the path of a fabric's record, for callers that keep a copy of it.
func RecordPath(name string) (string, error) {
	if !recordName().MatchString(name) {
		return "", fmt.Errorf("ownership record %q: not a valid name of a fabric", name)
	}
	return filepath.Join(recordDir, name+".json"), nil
}

// recordName matches the valid names of fabrics, which become file names.
var recordName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`) })

// records reads all records in a folder. A missing folder counts as empty.
func records(dir string) (map[string][]byte, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read ownership records: %w", err)
	}
	out := map[string][]byte{}
	for _, e := range entries {
		name, is := strings.CutSuffix(e.Name(), ".json")
		if !is || !recordName().MatchString(name) {
			continue
		}
		if !e.Type().IsRegular() {
			return nil, fmt.Errorf("read ownership record %s: %s is not a regular file: remove it", name, filepath.Join(dir, e.Name()))
		}
		if info, err := e.Info(); err != nil || info.Size() > maxRecord {
			return nil, fmt.Errorf("read ownership record %s: the file is larger than 16 MiB or was removed: check %s", name,
				filepath.Join(dir, e.Name()))
		}
		if out[name], err = file.Read(filepath.Join(dir, e.Name())); err != nil {
			return nil, fmt.Errorf("read ownership record %s: %w", name, err)
		}
	}
	return out, nil
}

// saveRecord replaces a record atomically, so a crash leaves the old or the new one.
func saveRecord(dir, name string, text []byte) error {
	if !recordName().MatchString(name) {
		return fmt.Errorf("ownership record %q: not a valid name of a fabric", name)
	}
	path := filepath.Join(dir, name+".json")
	if text == nil {
		if err := file.Remove(path); err != nil {
			return fmt.Errorf("remove ownership record: %w", err)
		}
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write ownership record: %w", err)
	}
	if err := file.Replace(path, text, 0o600); err != nil {
		return fmt.Errorf("write ownership record: %w", err)
	}
	return nil
}
