package apply

import (
	"errors"
	"fmt"
	"os"

	"github.com/fabricform/fabricform/host/file"
	"github.com/fabricform/fabricform/planner"
)

// WriteSaved writes a saved plan. It does not follow symbolic links, because another user who can write to the folder could
// point one at a file of the operator's.
func WriteSaved(path string, saved *planner.Saved) error {
	text, err := saved.Encode()
	if err != nil {
		return err
	}
	if at, err := os.Lstat(path); err == nil && !at.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file, and -out does not follow links: name another file", path)
	}
	return file.Replace(path, text, 0o600)
}

// ReadSaved reads a plan that this build saved. It returns nil if the path is something else, such as a fabric.
func ReadSaved(path, build string) (*planner.Saved, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil // reading the fabric reports the error
	}
	defer f.Close()
	saved, err := planner.ReadSaved(f, build)
	if errors.Is(err, planner.ErrNotSaved) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return saved, nil
}
