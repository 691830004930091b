package main

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
	"sync"

	"github.com/fabricform/fabricform/transport"
)

// linkedID is the hash of the sources, set by the linker in `make build`, so that the builds for
// all architectures share it. A plain `go build` leaves it empty: the program's own hash serves.
var linkedID string

// buildID names this build; helper and laptop must agree on it.
var buildID = sync.OnceValues(func() (string, error) {
	if linkedID != "" {
		return linkedID, nil
	}
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program's file: %w", err)
	}
	sum, _, err := hashFile(self)
	if err != nil {
		return "", err
	}
	return sum[:16], nil
})

// helpers finds the helper for a host's architecture: this very program, or a build beside it.
type helpers struct{ id string }

// Version names the build in the helper's file name on the hosts.
func (h helpers) Version() string { return h.id }

// Build returns the helper for linux and that architecture.
func (h helpers) Build(goarch string) (transport.Build, error) {
	self, err := os.Executable()
	if err != nil {
		return transport.Build{}, fmt.Errorf("find this program's file: %w", err)
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
		sum, size, err := hashFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return transport.Build{}, err
		}
		return transport.Build{SHA256: sum, Size: size, Open: func() (io.ReadCloser, error) { return os.Open(path) }}, nil
	}
	return transport.Build{}, fmt.Errorf("no helper for linux/%s: put %s beside this program or into $FABRICFORM_HELPER_DIR (`make build` makes it)", goarch, name)
}

func hashFile(path string) (sum string, size int64, err error) {
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
