package transport

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// OwnID returns an ID of this program's build. It is short for the ID that Go's linker writes into every program, which
// already is a hash of its content: a helper must start fast, and reads only the head of its file.
func OwnID() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program's file: %w", err)
	}
	id, err := goBuildID(self)
	if err != nil {
		return "", fmt.Errorf("read the build ID of %s: %w; build it with `make build`", self, err)
	}
	sum := sha256.Sum256(id)
	return hex.EncodeToString(sum[:8]), nil
}

// goBuildID reads the linker's ID: a note in an ELF file, and elsewhere text at the start of the code (cmd/internal/buildid of Go).
// Both are near the start of the file. debug/elf would read much more, and each start of the helper on a host would pay for it.
func goBuildID(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	for _, size := range []int64{8 << 10, 64 << 10} {
		head, err := io.ReadAll(io.NewSectionReader(f, 0, size))
		if err != nil {
			return nil, err
		}
		if id := buildIDIn(head); len(id) > 0 {
			return id, nil
		}
	}
	return nil, errors.New("it has none")
}

// buildIDIn returns the linker's ID, or nil.
func buildIDIn(head []byte) []byte {
	if bytes.HasPrefix(head, []byte("\x7fELF")) && len(head) > 5 {
		var order binary.ByteOrder = binary.LittleEndian
		note := []byte("\x04\x00\x00\x00Go\x00\x00") // its type and its name, which follow the lengths of the name and of the ID (elf(5))
		if head[5] == 2 {
			order, note = binary.BigEndian, []byte("\x00\x00\x00\x04Go\x00\x00")
		}
		lengths, id, found := bytes.Cut(head, note)
		if !found || len(lengths) < 8 {
			return nil
		}
		size := order.Uint32(lengths[len(lengths)-4:])
		if size > 256 || int(size) > len(id) {
			return nil
		}
		return id[:size]
	}
	_, after, _ := bytes.Cut(head, []byte("\xff Go build ID: \""))
	id, _, closed := bytes.Cut(after, []byte("\"\n \xff"))
	if !closed {
		return nil
	}
	return id
}

// Helpers finds the helper for a host's architecture: this program itself, or the same build for that architecture.
type Helpers struct {
	ID   string
	Cure func(goarch string) string // says how to get a helper that is missing
}

// Version returns the part of the helper's file name on the hosts that identifies the build.
func (h Helpers) Version() string { return h.ID }

// Build returns the helper for linux and that architecture.
func (h Helpers) Build(goarch string) (Build, error) {
	self, err := os.Executable()
	if err != nil {
		return Build{}, fmt.Errorf("find this program's file: %w", err)
	}
	if target, err := filepath.EvalSymlinks(self); err == nil { // package managers of macOS link to their programs
		self = target
	}
	name, dir := "fabricform-linux-"+goarch, filepath.Dir(self)
	var candidates []string
	if runtime.GOOS == "linux" && runtime.GOARCH == goarch {
		candidates = append(candidates, self)
	}
	if dir := os.Getenv("FABRICFORM_HELPER_DIR"); dir != "" {
		candidates = append(candidates, filepath.Join(dir, name))
	}
	candidates = append(candidates, beside(dir, goarch)...)
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
	return Build{}, fmt.Errorf("no helper for linux/%s: there is no %s in %s, in %s or in $FABRICFORM_HELPER_DIR; %s",
		goarch, name, dir, filepath.Clean(filepath.Join(dir, "../lib/fabricform")), h.Cure(goarch))
}

// beside returns where the helper for an architecture is if this program is in that folder: where an archive or a checkout
// has it, where a package of a distribution has it, and where `GOOS=linux GOARCH=… go install` puts it.
func beside(dir, goarch string) []string {
	name := "fabricform-linux-" + goarch
	return []string{filepath.Join(dir, name), filepath.Join(dir, "../lib/fabricform", name), filepath.Join(dir, "linux_"+goarch, "fabricform")}
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
