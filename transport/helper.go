package transport

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// OwnID names the build of this program by its own content.
func OwnID() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program's file: %w", err)
	}
	sum, _, err := HashFile(self)
	if err != nil {
		return "", err
	}
	return sum[:16], nil
}

// Helpers finds the helper for a host's architecture: this very program, or a build beside it.
type Helpers struct{ ID string }

// Version names the build in the helper's file name on the hosts.
func (h Helpers) Version() string { return h.ID }

// Build returns the helper for linux and that architecture.
func (h Helpers) Build(goarch string) (Build, error) {
	self, err := os.Executable()
	if err != nil {
		return Build{}, fmt.Errorf("find this program's file: %w", err)
	}
	name := "fabricform-linux-" + goarch
	var candidates []string
	if runtime.GOOS == "linux" && runtime.GOARCH == goarch {
		candidates = append(candidates, self)
	}
	if dir := os.Getenv("FABRICFORM_HELPER_DIR"); dir != "" {
		candidates = append(candidates, filepath.Join(dir, name))
	}
	candidates = append(candidates, filepath.Join(filepath.Dir(self), name))
	for _, path := range candidates {
		sum, size, err := HashFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return Build{}, err
		}
		return Build{SHA256: sum, Size: size, Open: func() (io.ReadCloser, error) { return os.Open(path) }}, nil
	}
	return Build{}, fmt.Errorf("no helper for linux/%s: put %s beside this program or into $FABRICFORM_HELPER_DIR (`make build` makes it)", goarch, name)
}

// HashFile is the SHA-256 of a file, and its size in bytes.
func HashFile(path string) (sum string, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, fmt.Errorf("read file: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	h := sha256.New()
	size, err = io.Copy(h, f)
	if err != nil {
		return "", 0, fmt.Errorf("read %s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), size, nil
}
