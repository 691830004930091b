package persist

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/netmanager"
	"github.com/fabricform/fabricform/providers/netif"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/retry"
)

// step is one file that is written or removed.
type step struct {
	path   string
	folder bool
	text   string
	mode   fs.FileMode
	put    bool        // false removes the file
	was    *facts.File // nil if there was no file
}

// steps returns the changes with the texts of the files.
func steps(got *Status, changes []resource.Change) ([]step, error) {
	var out []step
	for _, c := range changes {
		what, at, _ := strings.Cut(c.Attribute, " ")
		if what != "file" && what != "folder" {
			continue // a manager that has not read our file yet: apply makes it read the file
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
			return nil, fmt.Errorf("%s is no longer one of the declared files: plan again", at)
		}
		out = append(out, s)
	}
	return out, nil
}

// apply writes the changed files and makes managers use them. If a manager does not, apply restores all files
// and makes managers read them again.
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
		err = netmanager.Reload(ctx, h, unread(got), nil, nil)
	}
	if err == nil {
		err = manageAgain(ctx, h, want)
	}
	if err == nil {
		err = awaitTakings(ctx, h, want)
	}
	if err != nil {
		return errors.Join(err, revert(ctx, h, inverse(todo), nil))
	}
	return nil
}

// inverse returns the steps that revert the given ones, the last one first.
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

// write takes the steps. If none fails, it makes managers read the changed files.
func write(ctx context.Context, h host.Host, todo []step) error {
	for _, s := range todo {
		if err := s.do(h); err != nil {
			return err
		}
	}
	return reread(ctx, h, todo)
}

// unreadMark is a file that exists while files have been restored that managers have not read yet. A revert may be killed between the two,
// and the next one finds all files as they were.
const unreadMark = "/etc/.fabricform-unread"

// revert takes all steps even if one fails, and then makes managers read the changed files, and those of again.
func revert(ctx context.Context, h host.Host, todo, again []step) error {
	if len(todo)+len(again) == 0 {
		return nil
	}
	_ = h.PutFile(unreadMark, []byte("# fabricform: network managers have not read restored files yet\n"), 0o600) // without it, the steps still count
	var errs []error
	for _, s := range todo {
		errs = append(errs, s.do(h))
	}
	if err := reread(ctx, h, slices.Concat(todo, again)); err != nil {
		return errors.Join(append(errs, err)...)
	}
	return errors.Join(append(errs, h.RemoveFile(unreadMark))...)
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

// reread makes systemd, udev and managers read the changed files.
func reread(ctx context.Context, h host.Host, todo []step) error {
	read := map[*netmanager.Manager]bool{}
	dirs := map[string]bool{}
	var dropped []string
	comes := changing(ctx)
	restart := map[*netmanager.Manager]bool{}
	for _, s := range todo {
		dirs[path.Dir(s.path)] = true
		if m := s.manager(); m != nil {
			read[m] = true
			if s.put && m.Restarts != nil && m.Restarts(s.path, s.text) {
				restart[m] = true
			}
			for _, netdev := range s.drops(m) {
				// What NetworkManager makes again is not to stay, and it gives the members back.
				if !comes[netdev] || !netmanager.Remakes(ctx, h) {
					dropped = append(dropped, netdev)
				}
			}
		}
	}
	load, err := onlyRead(ctx, h, todo)
	if err != nil {
		return err
	}
	err = reloadKeeping(ctx, h, dropped, func() error {
		if dirs[unitFolder] || dirs[wantsFolder] || dirs["/etc/systemd/system.conf.d"] {
			if err := netmanager.Run(ctx, h, "systemctl", "daemon-reload"); err != nil {
				return err
			}
		}
		if dirs[rulesFolder] {
			if err := netmanager.Run(ctx, h, "udevadm", "control", "--reload"); err != nil {
				return err
			}
		}
		return netmanager.Reload(ctx, h, read, restart, load)
	})
	for _, s := range todo {
		if !s.put && path.Dir(s.path) == unitFolder && !strings.Contains(s.path, "@.") { // a template runs for a moment at boot
			err = errors.Join(err, forget(ctx, h, path.Base(s.path)))
		}
	}
	return err
}

// onlyRead returns the files that the claimer reads, if it must not read all. It remembers profiles whose files are gone until it does, and then
// removes what it configured by them. If a NIC still has the addresses of our profile, they are to stay: they were there before our first apply, or
// are still declared. So is a device, or the membership in a bond, that the transaction leaves as it is. The claimer forgets such a profile at the next
// boot, and no profile of others.
func onlyRead(ctx context.Context, h host.Host, todo []step) (map[*netmanager.Manager][]string, error) {
	todo = slices.DeleteFunc(slices.Clone(todo), func(s step) bool { m := s.manager(); return m == nil || m.Profiles == nil })
	if len(todo) == 0 {
		return nil, nil
	}
	snap, err := resource.Gather(ctx, h, handsOff{})
	if err != nil {
		return nil, err
	}
	var read []string
	now := map[string]bool{} // by netdev
	for _, s := range todo {
		for _, p := range s.manager().Profiles(s.path, s.text) {
			now[p.Netdev] = true
			read = append(read, p.File)
		}
	}
	keeps, comes := false, changing(ctx)
	for _, s := range todo {
		if s.was == nil {
			continue
		}
		for _, p := range s.manager().Profiles(s.path, s.was.Text) {
			switch {
			case now[p.Netdev]:
			case slices.Contains(netmanager.Part.Of(snap).InCharge, p.Netdev) && !comes[p.Netdev] && has(snap, p):
				keeps = true
			default:
				read = append(read, p.File)
			}
		}
	}
	for netdev := range netmanager.Part.Of(snap).Orphans {
		keeps = keeps || !now[netdev]
	}
	if !keeps {
		return nil, nil
	}
	return map[*netmanager.Manager][]string{claimer: read}, nil
}

// changing returns the devices that come or go with the transaction, and the members that join a bond or leave it. That such a one is there says
// nothing: NetworkManager makes a bond or VLAN again as soon as it is removed, and takes its members, until it forgets the profile (seen with 1.52).
func changing(ctx context.Context) map[string]bool {
	out := map[string]bool{}
	for _, a := range resource.Changed(ctx) {
		out[netif.Comes(a)] = true
	}
	return out
}

// has reports whether a link is what a profile makes of it: a device, a member of a bond, or a NIC with all addresses of the profile, if it has some.
func has(snap *facts.Snapshot, p netmanager.Profile) bool {
	l := snap.Link(p.Netdev)
	switch {
	case l != nil && p.Device != "":
		return l.Kind == p.Device
	case l != nil && p.Port:
		return l.Master != 0
	}
	return l != nil && len(p.Addresses) > 0 && !slices.ContainsFunc(p.Addresses, func(address string) bool {
		return !slices.ContainsFunc(snap.Addrs, func(a host.Addr) bool { return a.Index == l.Index && a.Prefix.String() == address })
	})
}

// manager returns the manager that reads the step's file; nil if none does.
func (s step) manager() *netmanager.Manager {
	for _, m := range netmanager.All {
		if m.Folder == path.Dir(s.path) {
			return m
		}
	}
	return nil
}

// drops returns the NICs whose configuration a manager removes because of a step.
func (s step) drops(m *netmanager.Manager) []string {
	if s.was == nil || m.Drops == nil {
		return nil
	}
	return m.Drops(s.was.Text, s.text)
}

// unread returns the managers that have not read their files yet.
func unread(got *Status) map[*netmanager.Manager]bool {
	read := map[*netmanager.Manager]bool{}
	for _, t := range got.InUse {
		if t.Now != t.Want {
			read[t.link.Manager] = true
		}
	}
	return read
}

// managePatience is how long a manager may take to configure a NIC; emulated machines are slow.
const managePatience = 30 * time.Second

// await gathers facts until late returns "", and otherwise times out with its last answer.
func await(ctx context.Context, h host.Host, late func(*facts.Snapshot) string) error {
	return retry.Until(ctx, 100*time.Millisecond, managePatience, func() (bool, error) {
		snap, err := resource.Gather(ctx, h, provider{}, Spec{})
		if err != nil {
			return true, err
		}
		why := late(snap)
		if why == "" {
			return true, nil
		}
		return false, fmt.Errorf("timed out after %s: %s; read the network manager's status and journal", managePatience, why)
	})
}

// awaitTakings waits until each manager has configured its NICs from our files, as far as managers report that.
func awaitTakings(ctx context.Context, h host.Host, want Spec) error {
	return await(ctx, h, func(snap *facts.Snapshot) string {
		got, err := Observe(snap, want)
		if err != nil {
			return err.Error()
		}
		for _, t := range got.InUse {
			l := snap.Link(t.Netdev)
			done := t.link.By().Done
			if l != nil && (t.Now != t.Want || done != nil && !done(ctx, h, *l)) {
				return fmt.Sprintf("%s is configured by %q instead of %s", t.Netdev, t.Now, t.Want)
			}
		}
		return ""
	})
}
