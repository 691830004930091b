package persist

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
)

// Asker is what Check needs of a host: it changes nothing but a folder of its own.
type Asker interface {
	ReadFile(path string) ([]byte, error)
	ReadDir(path string) ([]string, error)
	Stat(path string) (host.FileStat, error)
	Stage(files map[string][]byte) (root string, discard func() error, err error)
	Ask(ctx context.Context, stdin []byte, name string, args ...string) (host.Answer, error)
}

// Check lets each manager's own parser read the wanted files in a staged copy, beside what others
// wrote. networkd has no parser to ask; what it makes of a file is seen when it takes it over. A
// program that is not there has nothing to say.
func Check(ctx context.Context, h Asker, wanted []File) error {
	var errs []error
	for _, f := range wanted {
		var err error
		switch {
		case f.Folder:
		case reloads(f.Path) == facts.NetworkManager:
			err = checkKeyfile(ctx, h, f)
		case path.Dir(f.Path) == unitFolder:
			err = checkStaged(ctx, h, f, "systemd-analyze", "verify", "--man=no")
		case reloads(f.Path) == "udev":
			err = checkStaged(ctx, h, f, "udevadm", "verify", "--no-summary")
		}
		errs = append(errs, err)
	}
	if f := of(wanted, "/etc/netplan"); f != nil {
		errs = append(errs, checkNetplan(ctx, h, f[0]))
	}
	if fs := of(wanted, "/etc/network/interfaces.d"); fs != nil {
		errs = append(errs, checkIfupdown(ctx, h, fs))
	}
	return errors.Join(errs...)
}

func of(wanted []File, folder string) []File {
	var out []File
	for _, f := range wanted {
		if path.Dir(f.Path) == folder {
			out = append(out, f)
		}
	}
	return out
}

// refused turns a parser's answer into an error; a parser too old to know the request says nothing.
func refused(a host.Answer, err error, f, root string) error {
	if errors.Is(err, host.ErrNoProgram) {
		return nil
	}
	said := strings.TrimSpace(strings.ReplaceAll(a.Stderr+a.Stdout, root, ""))
	if err != nil || a.Exit == 0 || strings.Contains(strings.ToLower(said), "unknown command") || strings.Contains(said, "'--offline' is unknown") {
		return err
	}
	return fmt.Errorf("check %s before it is written: exit %d: %s", f, a.Exit, said)
}

func checkKeyfile(ctx context.Context, h Asker, f File) error {
	id := strings.TrimSuffix(path.Base(f.Path), ".nmconnection")
	a, err := h.Ask(ctx, []byte(f.Text), "nmcli", "--offline", "connection", "modify", "connection.id", id)
	return refused(a, err, f.Path, "")
}

func checkStaged(ctx context.Context, h Asker, f File, program string, args ...string) (err error) {
	root, discard, err := h.Stage(map[string][]byte{f.Path: []byte(f.Text)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, discard()) }()
	a, err := h.Ask(ctx, nil, program, append(args, root+f.Path)...)
	return refused(a, err, f.Path, root)
}

// checkNetplan generates into a copy of all of netplan's files, first without ours: one broken file
// of somebody else's keeps netplan from reading any.
func checkNetplan(ctx context.Context, h Asker, f File) error {
	files := map[string][]byte{}
	for _, dir := range []string{"/lib/netplan", "/etc/netplan", "/run/netplan"} {
		if err := copyFolder(h, dir, ".yaml", files); err != nil {
			return err
		}
	}
	delete(files, f.Path)
	generate := func() (said error, err error) {
		root, discard, err := h.Stage(files)
		if err != nil {
			return nil, err
		}
		a, err := h.Ask(ctx, nil, "netplan", "generate", "--root-dir", root)
		return refused(a, err, f.Path, root), discard()
	}
	said, err := generate()
	if said != nil || err != nil {
		return errors.Join(fmt.Errorf("netplan cannot read what is there already, so that it would not read our file either: %w", errors.Join(said, err)))
	}
	files[f.Path] = []byte(f.Text)
	said, err = generate()
	return errors.Join(said, err)
}

// checkIfupdown asks for the list of all interfaces. What names the folder from the root is made to
// name it from the file, as others do, so that both lead into the copy.
func checkIfupdown(ctx context.Context, h Asker, wanted []File) (err error) {
	const main, dir = "/etc/network/interfaces", "/etc/network/interfaces.d"
	files := map[string][]byte{}
	if err := copyFolder(h, dir, "", files); err != nil {
		return err
	}
	for _, f := range wanted {
		files[f.Path] = []byte(f.Text)
	}
	text, err := h.ReadFile(main)
	if err != nil {
		return fmt.Errorf("read %s: %w", main, err)
	}
	files[main] = []byte(strings.ReplaceAll(string(text), dir, path.Base(dir)))
	root, discard, err := h.Stage(files)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, discard()) }()
	a, err := h.Ask(ctx, nil, "ifquery", "--interfaces="+root+main, "--list", "--all")
	a.Stdout = ""
	if a.Exit == 0 && passedOver(a.Stderr) {
		a.Exit = 1
	}
	return refused(a, err, wanted[0].Path, root)
}

// passedOver says whether ifquery complains of more than it warns of: it tells what it passes over, and
// ends as if all were well (seen with 0.8.44).
func passedOver(said string) bool {
	for line := range strings.Lines(said) {
		if strings.Contains(line, "ifquery: ") && !strings.Contains(line, "warning") {
			return true
		}
	}
	return false
}

// copyFolder adds a folder's files with that ending; a folder that is not there has none.
func copyFolder(h Asker, dir, ending string, files map[string][]byte) error {
	names, err := h.ReadDir(dir)
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
		text, there, err := readFile(h, path.Join(dir, n))
		if err != nil {
			return fmt.Errorf("read %s: %w", path.Join(dir, n), err)
		}
		if there {
			files[path.Join(dir, n)] = text
		}
	}
	return nil
}

// readFile reads a file, or the one that a link leads to.
func readFile(h Asker, at string) (text []byte, there bool, err error) {
	stat, err := h.Stat(at)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !stat.Mode.IsRegular() && stat.Mode.Type() != fs.ModeSymlink {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	text, err = h.ReadFile(at)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EISDIR) {
		return nil, false, nil
	}
	return text, err == nil, err
}
