package netmanager

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/fabricform/fabricform/host"
)

// Asker is the part of a host that Check needs. Its only writes go to temporary folders that it makes.
type Asker interface {
	ReadFile(ctx context.Context, path string) ([]byte, error)
	ReadDir(ctx context.Context, path string) ([]string, error)
	Stat(ctx context.Context, path string) (host.FileStat, error)
	Stage(files map[string][]byte) (root string, discard func() error, err error)
	Ask(ctx context.Context, stdin []byte, name string, args ...string) (host.Answer, error)
}

// ParserError turns the answer of a parser into an error. It ignores parsers that are too old for the request.
func ParserError(a host.Answer, err error, f, root string) error {
	if errors.Is(err, host.ErrNoProgram) {
		return nil
	}
	said := strings.TrimSpace(strings.ReplaceAll(a.Stderr+a.Stdout, root, ""))
	if err != nil || a.Exit == 0 || strings.Contains(strings.ToLower(said), "unknown command") ||
		strings.Contains(said, "'--offline' is unknown") {
		return err
	}
	return fmt.Errorf("check %s before it is written: exit %d: %s", f, a.Exit, said)
}

// copyFolder adds the files of a folder that end in ending. A missing folder counts as empty.
func copyFolder(ctx context.Context, h Asker, dir, ending string, files map[string][]byte) error {
	names, err := h.ReadDir(ctx, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list %s: %w", dir, err)
	}
	slices.Sort(names)
	for _, n := range names {
		if strings.HasPrefix(n, ".") || !strings.HasSuffix(n, ending) {
			continue
		}
		text, there, err := readFile(ctx, h, path.Join(dir, n))
		if err != nil {
			return fmt.Errorf("read %s: %w", path.Join(dir, n), err)
		}
		if there {
			files[path.Join(dir, n)] = text
		}
	}
	return nil
}

// readFile reads a file, following symbolic links; there is false if the file is missing or not a regular file.
func readFile(ctx context.Context, h Asker, at string) (text []byte, there bool, err error) {
	stat, err := h.Stat(ctx, at)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !stat.Mode.IsRegular() && stat.Mode.Type() != fs.ModeSymlink {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	text, err = h.ReadFile(ctx, at)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EISDIR) {
		return nil, false, nil
	}
	return text, err == nil, err
}

// Run runs a program of a manager. It returns an error unless the program exits with 0.
func Run(ctx context.Context, h host.Host, argv ...string) error {
	a, err := h.Ask(ctx, nil, argv[0], argv[1:]...)
	if err != nil {
		return err
	}
	if a.Exit != 0 {
		return fmt.Errorf("%s: exit %d: %s", strings.Join(argv, " "), a.Exit, strings.TrimSpace(a.Stderr+a.Stdout))
	}
	return nil
}
