package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// tenant returns an account of another user than root, if the test runs as root, with an empty home.
func tenant(t *testing.T) Account {
	t.Helper()
	a := Account{Name: "tenant", UID: os.Geteuid(), GID: os.Getegid(), Home: filepath.Join(t.TempDir(), "home")}
	if a.UID == 0 {
		a.UID, a.GID = 64123, 64124
	}
	for dir := filepath.Dir(a.Home); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Mkdir(a.Home, 0o700), os.Chown(a.Home, a.UID, a.GID)); err != nil {
		t.Fatal(err)
	}
	return a
}

// TestFilesOfAHomeAreTheUsers: they are made with the user's rights, so that they belong to the user.
func TestFilesOfAHomeAreTheUsers(t *testing.T) {
	a := tenant(t)
	if has, err := hasLoginFolder(a); has || err != nil {
		t.Fatal(has, err)
	}
	if f, err := loginFile(a, AuthorizedKeys); f != nil || err != nil {
		t.Fatal(f, err)
	}
	if err := errors.Join(putLoginFolder(a), putLoginFolder(a), putLoginFile(a, "fabricform_x", nil, []byte("one"), 0o600), putLoginFile(a, "fabricform_x", &LoginFile{Perm: 0o600, Text: []byte("one")}, []byte("two"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for path, mode := range map[string]fs.FileMode{"": fs.ModeDir | 0o700, "fabricform_x": 0o600} {
		info, err := os.Lstat(filepath.Join(a.Home, ".ssh", path))
		if err != nil {
			t.Fatal(err)
		}
		owner := info.Sys().(*syscall.Stat_t)
		if info.Mode() != mode || int(owner.Uid) != a.UID || int(owner.Gid) != a.GID {
			t.Errorf("%q: %s %d:%d", path, info.Mode(), owner.Uid, owner.Gid)
		}
	}
	if f, err := loginFile(a, "fabricform_x"); err != nil || string(f.Text) != "two" || f.Perm != 0o600 {
		t.Errorf("%v %v", f, err)
	}
	if os.Geteuid() != 0 {
		return
	}
	if err := os.WriteFile(filepath.Join(t.TempDir(), "of-root"), nil, 0o600); err != nil {
		t.Error("the rights of root are lost:", err)
	}
	if err := errors.Join(removeLoginFolder(a), removeLoginFile(a, "fabricform_x"), removeLoginFile(a, "fabricform_x"), removeLoginFolder(a), removeLoginFolder(a)); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(a.Home); err != nil || len(left) != 0 {
		t.Errorf("%v %v", left, err)
	}
}

// TestAHomeThatOthersCouldReplaceIsRefused: a symbolic link, a foreign owner, or a folder that others can write to.
func TestAHomeThatOthersCouldReplaceIsRefused(t *testing.T) {
	victim := filepath.Join(t.TempDir(), "victim")
	for name, c := range map[string]struct {
		spoil func(a Account, ssh string) error
		says  string
	}{
		"~/.ssh is a link": {func(_ Account, ssh string) error {
			return errors.Join(os.Remove(filepath.Join(ssh, AuthorizedKeys)), os.Remove(ssh), os.Symlink(filepath.Dir(victim), ssh))
		}, "symbolic link"},
		"the file is a link": {func(_ Account, ssh string) error {
			at := filepath.Join(ssh, AuthorizedKeys)
			return errors.Join(os.Remove(at), os.WriteFile(victim, []byte("whole"), 0o644), os.Symlink(victim, at))
		}, "symbolic link"},
		"a named pipe":            {func(a Account, ssh string) error { return mkfifo(a, filepath.Join(ssh, AuthorizedKeys)) }, "regular file"},
		"a writable home":         {func(a Account, _ string) error { return os.Chmod(a.Home, 0o720) }, "writable by others"},
		"a writable ~/.ssh":       {func(_ Account, ssh string) error { return os.Chmod(ssh, 0o702) }, "writable by others"},
		"a writable file":         {func(_ Account, ssh string) error { return os.Chmod(filepath.Join(ssh, AuthorizedKeys), 0o622) }, "writable by others"},
		"a writable parent":       {func(a Account, _ string) error { return os.Chmod(filepath.Dir(a.Home), 0o777) }, "writable by others"},
		"a foreign ~/.ssh":        {func(_ Account, ssh string) error { return foreignly(ssh) }, "belongs to user"},
		"a foreign file":          {func(_ Account, ssh string) error { return foreignly(filepath.Join(ssh, AuthorizedKeys)) }, "belongs to user"},
		"a foreign home":          {func(a Account, _ string) error { return foreignly(a.Home) }, "belongs to user"},
		"a sticky folder is fine": {func(a Account, _ string) error { return os.Chmod(filepath.Dir(a.Home), 0o777|fs.ModeSticky) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := tenant(t)
			ssh := filepath.Join(a.Home, ".ssh")
			if err := errors.Join(putLoginFolder(a), putLoginFile(a, AuthorizedKeys, nil, []byte("theirs"), 0o644)); err != nil {
				t.Fatal(err)
			}
			if os.Geteuid() != 0 && strings.Contains(name, "foreign") {
				return // only root can give files away
			}
			if err := c.spoil(a, ssh); err != nil {
				t.Fatal(err)
			}
			_, err := loginFile(a, AuthorizedKeys)
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("read: %v", err)
			}
			if c.says != "" {
				_ = putLoginFile(a, AuthorizedKeys, &LoginFile{Perm: 0o644, Text: []byte("theirs")}, []byte("ours"), 0o600)
			}
			if text, err := os.ReadFile(victim); err == nil && string(text) != "whole" {
				t.Errorf("the link was followed: %q", text)
			}
		})
	}
	a := tenant(t)
	for _, name := range []string{"", ".", "id_rsa", "config", "../x", "fabricform_/../id_rsa", "fabricform_\x00"} {
		if _, err := loginFile(a, name); err == nil {
			t.Errorf("%q is read", name)
		}
		if err := putLoginFile(a, name, nil, nil, 0o600); err == nil {
			t.Errorf("%q is written", name)
		}
	}
}

// TestAHomeThatOnlyAGroupMayEnter: the user's supplementary groups count, those of root do not, and root's are as they were afterwards.
func TestAHomeThatOnlyAGroupMayEnter(t *testing.T) {
	if os.Geteuid() != 0 {
		return // only root has other groups to take on
	}
	const group = 64125
	a := tenant(t)
	parent := filepath.Dir(a.Home)
	if err := errors.Join(os.Chown(parent, 0, group), os.Chmod(parent, 0o710)); err != nil {
		t.Fatal(err)
	}
	before, err := syscall.Getgroups()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := hasLoginFolder(a); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("without the group: %v", err)
	}
	a.Groups = []int{a.GID, group}
	if err := errors.Join(putLoginFolder(a), putLoginFile(a, "fabricform_x", nil, []byte("one"), 0o600)); err != nil {
		t.Error(err)
	}
	if after, err := syscall.Getgroups(); err != nil || !slices.Equal(before, after) {
		t.Errorf("%v %v, before %v", after, err, before)
	}
}

// TestTheGroupsOfAUserAreLookedUp: in the same databases as the user.
func TestTheGroupsOfAUserAreLookedUp(t *testing.T) {
	a, err := LookUp(t.Context(), kernel{}, "root")
	if err != nil || a.UID != 0 || a.Home != "/root" || !slices.Contains(a.Groups, 0) || a.Shell == "" {
		t.Errorf("%+v %v", a, err)
	}
	if a, err := LookUp(t.Context(), kernel{}, "nobody-like-this"); a != nil || err != nil {
		t.Errorf("%+v %v", a, err)
	}
}

func mkfifo(a Account, path string) error {
	return errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600), os.Lchown(path, a.UID, a.GID))
}

func foreignly(path string) error {
	return errors.Join(os.Lchown(path, 64999, 64999), os.Chmod(path, 0o755))
}

func TestAHomeOnAFileServerIsTheSameForAllClients(t *testing.T) {
	const table = "36 35 0:50 / /home rw shared:1 - nfs4 filer:/export/home rw,addr=10.0.0.9\n37 35 8:1 / / rw - ext4 /dev/sda1 rw\n"
	if kind, source := mountOf(table, "36"); kind != "nfs4" || source != "filer:/export/home" {
		t.Errorf("%s %s", kind, source)
	}
	if kind, _ := mountOf(table, "3"); kind != "" {
		t.Errorf("%s", kind)
	}
	a, b := tenant(t), tenant(t)
	one, err := homeID(a)
	if err != nil {
		t.Fatal(err)
	}
	if two, err := homeID(b); err != nil || two == one || !strings.HasPrefix(one, "local ") {
		t.Errorf("%s and %s, %v", one, two, err)
	}
	a.Home += "/."
	if again, err := homeID(a); err != nil || again != one {
		t.Errorf("%s and %s, %v", one, again, err)
	}
}

// TestAFileThatChangedMeanwhileIsNotReplaced: a line that the user added after it was read would be lost. Another writer's staged
// file is not touched, because the home may be shared.
func TestAFileThatChangedMeanwhileIsNotReplaced(t *testing.T) {
	a := tenant(t)
	one, two := &LoginFile{Perm: 0o600, Text: []byte("one")}, &LoginFile{Perm: 0o600, Text: []byte("two")}
	if err := errors.Join(putLoginFolder(a), putLoginFile(a, AuthorizedKeys, nil, one.Text, 0o600)); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(a.Home, ".ssh", stagedLogin(AuthorizedKeys))
	if err := os.WriteFile(other, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, was := range []*LoginFile{nil, two, {Perm: 0o644, Text: one.Text}} {
		if err := putLoginFile(a, AuthorizedKeys, was, []byte("three"), 0o600); !errors.Is(err, ErrChanged) {
			t.Errorf("%v: %v", was, err)
		}
	}
	if err := putLoginFile(a, "fabricform_x", one, []byte("three"), 0o600); !errors.Is(err, ErrChanged) {
		t.Error(err)
	}
	if f, err := loginFile(a, AuthorizedKeys); err != nil || string(f.Text) != "one" {
		t.Errorf("%v %v", f, err)
	}
	if err := putLoginFile(a, AuthorizedKeys, one, two.Text, 0o600); err != nil {
		t.Error(err)
	}
	names := func() (out string) {
		files, err := os.ReadDir(filepath.Dir(other))
		for _, f := range files {
			out += f.Name() + " "
		}
		return out + fmt.Sprint(err)
	}
	if got := names(); got != ".authorized_keys.fabricform-new authorized_keys <nil>" {
		t.Error(got)
	}
	if err := removeLoginFile(a, AuthorizedKeys); err != nil || names() != "<nil>" {
		t.Error(err, names())
	}
}

// TestOneOfSeveralMakersMakesAFile: hosts that share a home may make a key at the same time. The others learn that there is one.
func TestOneOfSeveralMakersMakesAFile(t *testing.T) {
	a := tenant(t)
	if err := putLoginFolder(a); err != nil {
		t.Fatal(err)
	}
	for round := range 50 {
		name := fmt.Sprintf("fabricform_%d", round)
		begin, made := make(chan struct{}), make(chan string, 4)
		for maker := range cap(made) {
			go func() {
				text := strings.Repeat(fmt.Sprint(maker), 400)
				<-begin
				switch err := putLoginFile(a, name, nil, []byte(text), 0o600); {
				case err == nil:
					made <- text
				case errors.Is(err, ErrChanged):
					made <- ""
				default:
					made <- err.Error()
				}
			}()
		}
		close(begin)
		var by []string
		for range cap(made) {
			if text := <-made; text != "" {
				by = append(by, text)
			}
		}
		f, err := loginFile(a, name)
		if err != nil || len(by) != 1 || string(f.Text) != by[0] {
			t.Fatalf("%d made it, %v: %.10q", len(by), err, by)
		}
	}
	if left, err := filepath.Glob(filepath.Join(a.Home, ".ssh", ".*")); err != nil || len(left) > 0 {
		t.Error(left, err)
	}
}

// A link on NFS whose answer is lost is made again, and then fails.
func TestALinkThatWasMadeIsNotDenied(t *testing.T) {
	a := tenant(t)
	if err := errors.Join(putLoginFolder(a), putLoginFile(a, "fabricform_x", nil, []byte("ours"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]error{"ours": nil, "theirs": ErrChanged} {
		staged := stagedLogin("fabricform_x") + text
		err := inLogin(a, "fabricform_x", func(dir int) error {
			if err := os.WriteFile(filepath.Join(a.Home, ".ssh", staged), []byte(text), 0o600); err != nil {
				return err
			}
			return publish(dir, a, staged, "fabricform_x", []byte(text))
		})
		if !errors.Is(err, want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
