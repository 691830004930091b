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

// OwnID returns an ID of this program's build, derived from the content of its file.
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

// Helpers finds the helper for a host's architecture: this program itself, or another build beside it.
type Helpers struct{ ID string }

// Version returns the part of the helper's file name on the hosts that identifies the build.
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
	return Build{}, fmt.Errorf("no helper for linux/%s: put %s beside this program or into $FABRICFORM_HELPER_DIR (`make build` builds it)", goarch, name)
}

// HashFile returns the SHA-256 of a file and its size in bytes.
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
