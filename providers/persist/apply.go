package persist

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/netmanager"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/retry"
)

// step is one file that is written or removed.
type step struct {
	path   string
	folder bool
	text   string
	mode   fs.FileMode
	put    bool        // else it is removed
	was    *facts.File // nil: there was none
}

// steps are the changes with the files' texts.
func steps(got *Status, changes []resource.Change) ([]step, error) {
	var out []step
	for _, c := range changes {
		what, at, _ := strings.Cut(c.Attribute, " ")
		if what != "file" && what != "folder" {
			continue // a manager that has not read our file: reading it is what follows
		}
		s := step{path: at, folder: what == "folder", put: c.To != ""}
		if f, there := got.Found[at]; there {
			s.was = &f
		}
		for _, f := range got.Wanted {
			if f.Path == at {
				s.text, s.mode = f.Text, f.Mode
			}
		}
		if s.put && !s.folder && s.text == "" {
			return nil, fmt.Errorf("%s is wanted no more; plan again", at)
		}
		out = append(out, s)
	}
	return out, nil
}

// apply writes what the changes say and lets managers take it over. Where one does not, all files are
// as before, and managers have read them again.
func apply(ctx context.Context, h host.Host, snap *facts.Snapshot, want Spec, got *Status, changes []resource.Change) (err error) {
	todo, err := steps(got, changes)
	if err != nil {
		return err
	}
	release, err := pledge(ctx, h, snap, want)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	err = write(ctx, h, todo)
	if err == nil && len(todo) == 0 {
		err = netmanager.Reload(ctx, h, unread(got))
	}
	if err == nil {
		err = takeUp(ctx, h, want)
	}
	if err == nil {
		err = awaitTakings(ctx, h, want)
	}
	if err != nil {
		return errors.Join(err, putBack(ctx, h, inverse(todo)))
	}
	return nil
}

// inverse is the way back, the last step first.
func inverse(todo []step) []step {
	var out []step
	for i := len(todo) - 1; i >= 0; i-- {
		s := step{path: todo[i].path, folder: todo[i].folder}
		if w := todo[i].was; w != nil {
			s.put, s.text, s.mode = true, w.Text, w.Mode.Perm()
		}
		if todo[i].put {
			s.was = &facts.File{Text: todo[i].text}
		}
		out = append(out, s)
	}
	return out
}

// write makes the steps up to one that fails, and has managers read what changed where none does.
func write(ctx context.Context, h host.Host, todo []step) error {
	for _, s := range todo {
		if err := s.do(h); err != nil {
			return err
		}
	}
	return told(ctx, h, todo)
}

// putBack makes the steps of a way back: past one that fails, and managers read what was changed.
func putBack(ctx context.Context, h host.Host, todo []step) error {
	var errs []error
	for _, s := range todo {
		errs = append(errs, s.do(h))
	}
	return errors.Join(append(errs, told(ctx, h, todo))...)
}

func (s step) do(h host.Host) error {
	switch {
	case s.folder && s.put:
		return h.PutFolder(s.path)
	case s.put:
		return h.PutFile(s.path, []byte(s.text), s.mode)
	}
	return h.RemoveFile(s.path)
}

// told has systemd, udev and managers read what changed.
func told(ctx context.Context, h host.Host, todo []step) error {
	read := map[*netmanager.Manager]bool{}
	dirs := map[string]bool{}
	var dropped []string
	for _, s := range todo {
		dirs[path.Dir(s.path)] = true
		if m := s.manager(); m != nil {
			read[m] = true
			dropped = append(dropped, s.drops(m)...)
		}
	}
	err := keeping(ctx, h, dropped, func() error {
		if dirs[unitFolder] || dirs["/etc/systemd/system.conf.d"] {
			if err := netmanager.Run(ctx, h, "systemctl", "daemon-reload"); err != nil {
				return err
			}
		}
		if dirs[rulesFolder] {
			if err := netmanager.Run(ctx, h, "udevadm", "control", "--reload"); err != nil {
				return err
			}
		}
		return netmanager.Reload(ctx, h, read)
	})
	for _, s := range todo {
		if !s.put && path.Dir(s.path) == unitFolder {
			err = errors.Join(err, forget(ctx, h, path.Base(s.path)))
		}
	}
	return err
}

// manager is the one that reads the step's file; nil: none does.
func (s step) manager() *netmanager.Manager {
	for _, m := range netmanager.All {
		if m.Folder == path.Dir(s.path) {
			return m
		}
	}
	return nil
}

// drops are the NICs that a manager empties by a step.
func (s step) drops(m *netmanager.Manager) []string {
	if s.was == nil || m.Drops == nil {
		return nil
	}
	return m.Drops(s.was.Text, s.text)
}

// unread are the managers that should have read files and have not.
func unread(got *Status) map[*netmanager.Manager]bool {
	read := map[*netmanager.Manager]bool{}
	for _, t := range got.Taken {
		if t.Now != t.Want {
			read[t.link.Manager] = true
		}
	}
	return read
}

// takePatience is how long a manager may take to configure a NIC; emulated machines are slow.
const takePatience = 30 * time.Second

// await looks again until nothing is late.
func await(ctx context.Context, h host.Host, late func(*facts.Snapshot) string) error {
	return retry.Until(ctx, 100*time.Millisecond, takePatience, func() (bool, error) {
		snap, err := resource.Gather(ctx, h, provider{}, Spec{})
		if err != nil {
			return true, err
		}
		why := late(snap)
		if why == "" {
			return true, nil
		}
		return false, fmt.Errorf("the network manager is not done within %s: %s; its status and journal say why", takePatience, why)
	})
}

// awaitTakings waits until each manager that tells so says that it configures the NICs by our files,
// and is done with it.
func awaitTakings(ctx context.Context, h host.Host, want Spec) error {
	return await(ctx, h, func(snap *facts.Snapshot) string {
		got, err := Observe(snap, want)
		if err != nil {
			return err.Error()
		}
		for _, t := range got.Taken {
			l := snap.Link(t.Netdev)
			done := t.link.By().Done
			if l != nil && (t.Now != t.Want || done != nil && !done(ctx, h, *l)) {
				return fmt.Sprintf("%s is configured by %q, and is to be by %s", t.Netdev, t.Now, t.Want)
			}
		}
		return ""
	})
}
