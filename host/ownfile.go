package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/fabricform/fabricform/host/file"
)

// NCCLConf is the only file that we write without "fabricform" in its name, because NCCL reads no other file by default.
const NCCLConf = "/etc/nccl.conf"

// OwnFile returns an error unless a path is one of our own configuration files. We write and remove only NCCLConf and
// files below /etc with our name in theirs, so that a mistake of a caller cannot affect the files of others.
func OwnFile(path string) error {
	if path == NCCLConf {
		return nil
	}
	if filepath.Clean(path) != path || !strings.HasPrefix(path, "/etc/") || !strings.Contains(filepath.Base(path), "fabricform") {
		return fmt.Errorf("%q is not one of fabricform's own configuration files", path)
	}
	return nil
}

func putFile(root, path string, text []byte, perm fs.FileMode) error {
	if err := OwnFile(path); err != nil {
		return err
	}
	if err := file.Replace(filepath.Join(root, path), text, perm); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func putFolder(root, path string) error {
	if filepath.Clean(path) != path || !strings.HasPrefix(path, "/etc/") {
		return fmt.Errorf("%q is not a folder below /etc", path)
	}
	err := os.Mkdir(filepath.Join(root, path), 0o755)
	if err == nil {
		err = file.SyncFolder(filepath.Dir(filepath.Join(root, path)))
	} else if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("make folder %s: %w", path, err)
	}
	return nil
}

func removeFile(root, path string) error {
	full := filepath.Join(root, path)
	info, err := os.Lstat(full)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	case err == nil && !info.IsDir():
		err = OwnFile(path)
	case err == nil && (filepath.Clean(path) != path || !strings.HasPrefix(path, "/etc/")):
		err = errors.New("not a folder below /etc")
	}
	if err == nil {
		err = file.Remove(full)
	}
	if err != nil {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return nil
}

// stage writes files below a new folder. discard removes all of them, so they are not synced.
func stage(files map[string][]byte) (root string, discard func() error, err error) {
	root, err = os.MkdirTemp("", "fabricform-")
	if err != nil {
		return "", nil, fmt.Errorf("stage files: %w", err)
	}
	discard = func() error { return os.RemoveAll(root) }
	for path, text := range files {
		full := filepath.Join(root, filepath.Clean("/"+path))
		err := os.MkdirAll(filepath.Dir(full), 0o755)
		if err == nil {
			err = os.WriteFile(full, text, 0o600)
		}
		if err != nil {
			return "", nil, errors.Join(fmt.Errorf("stage files: %w", err), discard())
		}
	}
	return root, discard, nil
}
