package transport

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pkg/sftp"
)

// TestTheStartScriptRunsNobodyElsesProgram: sudo may run the helper as root, so that whoever can write the file or
// its folder would be root.
func TestTheStartScriptRunsNobodyElsesProgram(t *testing.T) {
	const version, nobody = "00000000000000aa", 65534
	for _, c := range []struct {
		name         string
		folder, file os.FileMode
		above        os.FileMode // of the folder above; 0: 0700
		owner        string      // what belongs to somebody else: "above", "folder" or "file"
		link         bool
		runs         bool
	}{
		{name: "private", folder: 0o700, file: 0o700, runs: true},
		{name: "a folder that a group may write to", folder: 0o770, file: 0o700},
		{name: "a folder that all may write to", folder: 0o707, file: 0o700},
		{name: "a folder that others may read", folder: 0o755, file: 0o700},
		{name: "a file that a group may write to", folder: 0o700, file: 0o720},
		{name: "a file that all may write to", folder: 0o700, file: 0o702},
		{name: "a file that nobody may run", folder: 0o700, file: 0o600},
		{name: "a link to a file", folder: 0o700, file: 0o700, link: true},
		{name: "a folder above that others may read", folder: 0o700, file: 0o700, above: 0o755, runs: true},
		{name: "a folder above that a group may write to", folder: 0o700, file: 0o700, above: 0o775},
		{name: "a folder above that all may write to", folder: 0o700, file: 0o700, above: 0o777},
		{name: "a folder above where only owners may rename", folder: 0o700, file: 0o700, above: 0o777 | os.ModeSticky, runs: true},
		{name: "another user's folder above", folder: 0o700, file: 0o700, above: 0o755, owner: "above"},
		{name: "another user's folder above where only owners may rename", folder: 0o700, file: 0o700, above: 0o777 | os.ModeSticky, owner: "above"},
		{name: "another user's folder", folder: 0o700, file: 0o700, owner: "folder"},
		{name: "another user's file", folder: 0o700, file: 0o700, owner: "file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.owner != "" && os.Getuid() != 0 {
				t.Skip("needs root, to give a file to another user")
			}
			home, tools := t.TempDir(), t.TempDir()
			folder := filepath.Join(home, ".cache", "fabricform")
			file := filepath.Join(folder, "fabricform-"+version)
			program := []byte("#!/bin/sh\necho \"ran $*\"\n")
			if err := os.MkdirAll(folder, 0o700); err != nil {
				t.Fatal(err)
			}
			at := file
			if c.link {
				at = filepath.Join(home, "program")
				if err := os.Symlink(at, file); err != nil {
					t.Fatal(err)
				}
			}
			for path, text := range map[string][]byte{at: program, filepath.Join(tools, "sudo"): []byte("#!/bin/sh\nshift 2\nexec \"$@\"\n")} {
				if err := os.WriteFile(path, text, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			above := filepath.Dir(folder)
			for path, mode := range map[string]os.FileMode{at: c.file, folder: c.folder, above: cmp.Or(c.above, 0o700)} {
				if err := os.Chmod(path, mode); err != nil {
					t.Fatal(err)
				}
			}
			if belongs, is := map[string]string{"above": above, "folder": folder, "file": file}[c.owner]; is {
				if err := os.Chown(belongs, nobody, nobody); err != nil {
					t.Fatal(err)
				}
			}
			shells := []string{"sh", "bash", "busybox sh"} // whichever of them this machine has: a host may have any
			for i := range 2 * len(shells) {
				shell, sudo := shells[i/2], i%2 == 0
				at, err := exec.LookPath(strings.Fields(shell)[0])
				if err != nil {
					continue
				}
				if err := os.Remove(filepath.Join(tools, "sh")); err != nil && !errors.Is(err, fs.ErrNotExist) {
					t.Fatal(err)
				}
				if err := os.Symlink(at, filepath.Join(tools, "sh")); err != nil {
					t.Fatal(err)
				}
				cmd := exec.Command("sh", "-c", script(version, sudo))
				cmd.Path = filepath.Join(tools, "sh")
				cmd.Env = []string{"HOME=" + home, "PATH=" + tools + ":" + os.Getenv("PATH"), "SSH_CONNECTION=10.0.0.1 1 10.0.0.2 22", "SHELL=/usr/bin/fish"}
				out, err := cmd.Output()
				want := missing
				if c.runs {
					want = "ran agent --ssh-connection=10.0.0.1 1 10.0.0.2 22"
				}
				first, rest, _ := strings.Cut(string(out), "\n")
				if first != shellRan+" fish" || !strings.HasPrefix(rest, want) || (err == nil) != c.runs {
					t.Errorf("%s, sudo %v: %q, %v", shell, sudo, out, err)
				}
			}
		})
	}
}

// TestAFolderRenamedWhileItIsListedIsNotUsed: the owner of a folder can rename it between its check and its use, and
// show nothing or another folder to the check.
func TestAFolderRenamedWhileItIsListedIsNotUsed(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to give a folder to another user")
	}
	const version = "00000000000000aa"
	lister, err := exec.LookPath("ls")
	if err != nil {
		t.Fatal(err)
	}
	for _, shown := range []string{"nothing", "another folder"} {
		for _, shell := range []string{"dash", "bash"} { // whichever of them this machine has; busybox has an ls of its own
			at, err := exec.LookPath(shell)
			if err != nil {
				continue
			}
			home, tools := t.TempDir(), t.TempDir()
			folder := filepath.Join(home, ".cache", "fabricform")
			ran, listed := filepath.Join(home, "ran"), filepath.Join(home, "listed")
			ls := "#!/bin/sh\n: > " + listed + "\nmv " + folder + " " + folder + ".away\nmv " + folder + ".shown " + folder + " 2>/dev/null\n" +
				lister + " \"$@\"\nstatus=$?\nmv " + folder + " " + folder + ".shown 2>/dev/null\nmv " + folder + ".away " + folder + "\nexit $status\n"
			folders := []string{folder}
			if shown != "nothing" {
				folders = append(folders, folder+".shown")
			}
			for _, f := range folders {
				if err := os.MkdirAll(f, 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(f, "fabricform-"+version), []byte("#!/bin/sh\n: > "+ran+"\n"), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Chown(folder, 65534, 65534); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(tools, "ls"), []byte(ls), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(tools, "sudo"), []byte("#!/bin/sh\nshift 2\nexec \"$@\"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(at, filepath.Join(tools, "sh")); err != nil {
				t.Fatal(err)
			}
			for what, line := range map[string]string{"start": script(version, false), "start with sudo": script(version, true), "install": examine(folder, version, `"$f" version`)} {
				cmd := exec.Command("sh", "-c", line)
				cmd.Path = filepath.Join(tools, "sh")
				cmd.Env = []string{"HOME=" + home, "PATH=" + tools + ":" + os.Getenv("PATH")}
				out, err := cmd.Output()
				if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.ExitCode() != exitMissing {
					t.Errorf("%s, %s, %s is shown: %q, %v", shell, what, shown, out, err)
				}
				if _, err := os.Stat(ran); err == nil {
					t.Errorf("%s, %s, %s is shown: the other user's program ran", shell, what, shown)
				}
				if err := os.Remove(listed); err != nil {
					t.Errorf("%s, %s, %s is shown: it was not listed: %v", shell, what, shown, err)
				}
				_ = os.Remove(ran)
			}
		}
	}
}

// TestWhatIsNotListedIsNotUsed: a path that ls did not list was not examined, whatever the reason.
func TestWhatIsNotListedIsNotUsed(t *testing.T) {
	const version = "00000000000000aa"
	lister, err := exec.LookPath("ls")
	if err != nil {
		t.Fatal(err)
	}
	for text, runs := range map[string]bool{lister + ` "$@"`: true, "exit 0": false, lister + ` "$@"; exit 1`: false, lister + ` "$@" | sed 1d`: false} {
		home, tools := t.TempDir(), t.TempDir()
		folder := filepath.Join(home, ".cache", "fabricform")
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		for path, text := range map[string]string{filepath.Join(folder, "fabricform-"+version): "exit 0", filepath.Join(tools, "ls"): text} {
			if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		for _, line := range []string{script(version, false), examine(folder, version, `"$f" version`)} {
			cmd := exec.Command("sh", "-c", line)
			cmd.Env = []string{"HOME=" + home, "PATH=" + tools + ":" + os.Getenv("PATH")}
			if out, err := cmd.Output(); (err == nil) != runs {
				t.Errorf("%s: %q, %v", text, out, err)
			}
		}
	}
}

// loggedIn returns a test server and a connection to it.
func loggedIn(t *testing.T) (*server, *connection) {
	t.Helper()
	t.Setenv("SSH_AUTH_SOCK", "")
	s := openssh(t, nil)
	s.write("known", s.line(s.host))
	c, err := new(Dialer).connect(t.Context(), Target{Name: "h", Address: "127.0.0.1", Port: s.port, User: currentUser(), IdentityFile: s.path("id"), KnownHosts: s.path("known"), ConnectTimeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	return s, c
}

// TestAHelperThatArrivedDamagedIsNotRun: the host hashes what it has before anything in it runs.
func TestAHelperThatArrivedDamagedIsNotRun(t *testing.T) {
	s, c := loggedIn(t)
	files, err := sftp.NewClient(c.client)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	ran := filepath.Join(t.TempDir(), "ran")
	program := "#!/bin/sh\ntouch " + ran + "\n"
	s.write("program", program)
	sum, size, err := HashFile(s.path("program"))
	if err != nil {
		t.Fatal(err)
	}
	for _, upload := range []struct {
		sent string
		good bool
	}{{program + "# damaged", false}, {program, true}} {
		dir := filepath.Join(t.TempDir(), "fabricform")
		build := Build{SHA256: sum, Size: size, Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(upload.sent)), nil }}
		err := c.place(files, strconv.Itoa(os.Getuid()), dir, "00000000000000aa", build)
		if upload.good != (err == nil) || err != nil && !strings.Contains(err.Error(), "check hash") {
			t.Errorf("placed: %v", err)
		}
		if _, err := os.Stat(ran); (err == nil) != upload.good {
			t.Errorf("it ran: %v, want %v", err == nil, upload.good)
		}
		if left, err := os.ReadDir(dir); err != nil || (len(left) > 0) != upload.good {
			t.Errorf("left: %v, %v", left, err)
		}
	}
}

// TestNothingIsTriedInAnotherUsersFolder: whoever made the folder in the shared temporary directory first could
// exchange the program between its check and its first start, which is root's where the login is root's. A folder
// that an earlier build used in that state is told with its cure.
func TestNothingIsTriedInAnotherUsersFolder(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to give a folder to another user")
	}
	t.Setenv("SSH_AUTH_SOCK", "")
	s := openssh(t, nil)
	s.write("known", s.line(s.host))
	ran := filepath.Join(t.TempDir(), "ran")
	s.write("program", "#!/bin/sh\ntouch "+ran+"\n")
	sum, size, err := HashFile(s.path("program"))
	if err != nil {
		t.Fatal(err)
	}
	build := Build{SHA256: sum, Size: size, Open: func() (io.ReadCloser, error) { return os.Open(s.path("program")) }}
	for _, c := range []struct {
		name          string
		above, folder os.FileMode
		other         string // what belongs to another user
		cure          string // "": it is used
	}{
		{name: "the login user's", above: os.ModeSticky | 0o777, folder: 0o700},
		{name: "another user's", above: os.ModeSticky | 0o777, folder: 0o700, other: "folder", cure: "remove it as root (rm -r "},
		{name: "open to others", above: 0o755, folder: 0o755, cure: "run chmod 700 "},
		{name: "below another user's", above: 0o755, folder: 0o700, other: "above", cure: "give it to root or the login user"},
		{name: "below what others may write", above: 0o775, folder: 0o700, cure: "run chmod go-w "},
	} {
		above := t.TempDir()
		dir := filepath.Join(above, "fabricform")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for path, mode := range map[string]os.FileMode{dir: c.folder, above: c.above} {
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
		}
		if at, is := map[string]string{"above": above, "folder": dir}[c.other]; is {
			if err := os.Chown(at, 65534, 65534); err != nil {
				t.Fatal(err)
			}
		}
		var warned []string
		d := &Dialer{Helper: brought{build}, Warn: func(_, message string) { warned = append(warned, message) }}
		target := Target{Name: "h", Address: "127.0.0.1", Port: s.port, User: currentUser(), IdentityFile: s.path("id"), KnownHosts: s.path("known"), ConnectTimeout: 5 * time.Second}
		conn, err := d.connect(t.Context(), target)
		if err != nil {
			t.Fatal(err)
		}
		err = d.install(t.Context(), conn, target, absence{system: "Linux", machine: "x86_64", uid: "0", folders: []string{dir}}, "00000000000000aa")
		conn.close()
		if c.cure == "" && (err != nil || len(warned) > 0) || c.cure != "" && (err == nil || len(warned) != 1 || !strings.Contains(warned[0], c.cure) || !strings.Contains(err.Error(), c.cure)) {
			t.Errorf("%s: %v; warned %q", c.name, err, warned)
		}
		if _, err := os.Stat(ran); (err == nil) != (c.cure == "") {
			t.Errorf("%s: it ran: %v", c.name, err == nil)
		}
		os.Remove(ran)
	}
}

// brought is a helper that is the same for every architecture.
type brought struct{ build Build }

func (b brought) Version() string             { return "00000000000000aa" }
func (b brought) Build(string) (Build, error) { return b.build, nil }

// TestAHomeOnAnotherMachineIsTold: there root may not read it, and the folder that the helper is uploaded to is a local one.
func TestAHomeOnAnotherMachineIsTold(t *testing.T) {
	tools := t.TempDir()
	for kind, want := range map[string]string{"nfs": "remote", "fuseblk": "remote", "ext2/ext3": "local", "UNKNOWN (0x1)": "local"} {
		if err := os.WriteFile(filepath.Join(tools, "stat"), []byte("#!/bin/sh\necho '"+kind+"'\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("sh", "-c", script("00000000000000aa", false))
		cmd.Env = []string{"HOME=/home/h", "PATH=" + tools + ":" + os.Getenv("PATH")}
		if out, _ := cmd.Output(); !strings.HasSuffix(string(out), " "+want+" /home/h\n") { // it exits with exitMissing
			t.Errorf("%s: %q", kind, out)
		}
	}
}

// TestALoginStartsOneProgramBeforeTheHelper: every program costs each login a millisecond, so the script needs only ls. A system
// without /proc also needs id.
func TestALoginStartsOneProgramBeforeTheHelper(t *testing.T) {
	home, tools := homeWithHelper(t), t.TempDir()
	link := func(names ...string) {
		t.Helper()
		for _, name := range names {
			at, err := exec.LookPath(name)
			if err == nil {
				err = os.Symlink(at, filepath.Join(tools, name))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	link("sh", "ls")
	line := script("00000000000000aa", false)
	elsewhere := strings.ReplaceAll(line, "/proc/self/status", "/nonexistent/status")
	run := func(line string) string {
		cmd := exec.Command("sh", "-c", line)
		cmd.Env = []string{"HOME=" + home, "PATH=" + tools}
		out, _ := cmd.Output() // what it printed says how it ended
		return string(out)
	}
	if out := run(line); !strings.HasSuffix(out, "ran of home\n") {
		t.Errorf("it did not start with ls alone: %q", out)
	}
	if out := run(elsewhere); strings.Contains(out, "ran") {
		t.Errorf("it started without a user ID: %q", out)
	}
	link("id")
	if out := run(elsewhere); !strings.HasSuffix(out, "ran of home\n") {
		t.Errorf("it did not start with id: %q", out)
	}
}

// homeWithHelper returns a home with a helper that prints where it is from.
func homeWithHelper(t *testing.T) (home string) {
	t.Helper()
	home = t.TempDir()
	putHelper(t, filepath.Join(home, ".cache", "fabricform"), "home")
	return home
}

func putHelper(t *testing.T, folder, from string) {
	t.Helper()
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "fabricform-00000000000000aa"), []byte("#!/bin/sh\necho ran of "+from+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
}

// TestTheHelperOfALocalFolderIsPreferredToThatOfARemoteHome: root may not read the home.
func TestTheHelperOfALocalFolderIsPreferredToThatOfARemoteHome(t *testing.T) {
	home, tools, local := homeWithHelper(t), t.TempDir(), t.TempDir()
	putHelper(t, filepath.Join(local, strconv.Itoa(os.Getuid())), "local")
	line := strings.ReplaceAll(script("00000000000000aa", false), "/var/tmp/fabricform-", local+"/")
	for kind, want := range map[string]string{"nfs": "local", "ext2/ext3": "home"} {
		if err := os.WriteFile(filepath.Join(tools, "stat"), []byte("#!/bin/sh\necho '"+kind+"'\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("sh", "-c", line)
		cmd.Env = []string{"HOME=" + home, "PATH=" + tools + ":" + os.Getenv("PATH")}
		if out, err := cmd.Output(); err != nil || !strings.HasSuffix(string(out), "ran of "+want+"\n") {
			t.Errorf("%s: %q, %v", kind, out, err)
		}
	}
}

// TestNothingIsLookedAtInAnotherUsersFolder: its owner, or a link there, could lead to a file system that never answers.
func TestNothingIsLookedAtInAnotherUsersFolder(t *testing.T) {
	for _, kind := range []string{"own folder", "link", "another user's folder"} {
		home, tools, local := homeWithHelper(t), t.TempDir(), t.TempDir()
		folder, looked := filepath.Join(local, strconv.Itoa(os.Getuid())), filepath.Join(tools, "looked")
		putHelper(t, folder, "local")
		var err error
		switch kind {
		case "link":
			if err = os.Rename(folder, folder+".there"); err == nil {
				err = os.Symlink(folder+".there", folder)
			}
		case "another user's folder":
			if os.Getuid() != 0 {
				continue
			}
			err = os.Chown(folder, 65534, 65534)
		}
		if err != nil {
			t.Fatal(err)
		}
		// The type of the home is asked for only if the program was found in a second folder.
		if err := os.WriteFile(filepath.Join(tools, "stat"), []byte("#!/bin/sh\n: > "+looked+"\necho nfs\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		for at, want := range map[string]string{home: "ran of home\n", t.TempDir(): missing} {
			if kind == "own folder" {
				want = "ran of local\n"
			}
			_ = os.Remove(looked)
			cmd := exec.Command("sh", "-c", strings.ReplaceAll(script("00000000000000aa", false), "/var/tmp/fabricform-", local+"/"))
			cmd.Env = []string{"HOME=" + at, "PATH=" + tools + ":" + os.Getenv("PATH")}
			out, _ := cmd.Output() // what it printed says how it ended
			if _, err := os.Stat(looked); !strings.Contains(string(out), want) || at == home && (err == nil) != (kind == "own folder") {
				t.Errorf("%s: %q, stat ran: %v", kind, out, err == nil)
			}
		}
	}
}

// TestNothingIsKeptBehindALinkInVarTmp: the start script would not find it there.
func TestNothingIsKeptBehindALinkInVarTmp(t *testing.T) {
	_, c := loggedIn(t)
	files, err := sftp.NewClient(c.client)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	dir, err := os.MkdirTemp("/var/tmp", "fabricform-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Symlink(t.TempDir(), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := makePrivate(files, filepath.Join(dir, "link")); err == nil || !strings.Contains(err.Error(), "it is a symbolic link") {
		t.Errorf("a link is used: %v", err)
	}
	if err := makePrivate(files, filepath.Join(dir, "folder")); err != nil {
		t.Error(err)
	}
}
