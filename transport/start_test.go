package transport

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
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
		owner        string // who belongs to somebody else: "folder" or "file"
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
			for path, mode := range map[string]os.FileMode{at: c.file, folder: c.folder} {
				if err := os.Chmod(path, mode); err != nil {
					t.Fatal(err)
				}
			}
			if belongs, is := map[string]string{"folder": folder, "file": file}[c.owner]; is {
				if err := os.Chown(belongs, nobody, nobody); err != nil {
					t.Fatal(err)
				}
			}
			for _, sudo := range []bool{false, true} {
				cmd := exec.Command("sh", "-c", script(version, sudo))
				cmd.Env = []string{"HOME=" + home, "PATH=" + tools + ":" + os.Getenv("PATH"), "SSH_CONNECTION=10.0.0.1 1 10.0.0.2 22"}
				out, err := cmd.Output()
				want := missing
				if c.runs {
					want = "ran agent --ssh-connection=10.0.0.1 1 10.0.0.2 22"
				}
				if !strings.HasPrefix(string(out), want) || (err == nil) != c.runs {
					t.Errorf("sudo %v: %q, %v", sudo, out, err)
				}
			}
		})
	}
}

// TestAHelperThatArrivedDamagedIsNotRun: the host hashes what it has before anything in it runs.
func TestAHelperThatArrivedDamagedIsNotRun(t *testing.T) {
	t.Setenv("SSH_AUTH_SOCK", "")
	s := openssh(t, nil)
	s.write("known", s.line(s.host))
	c, err := new(Dialer).connect(t.Context(), Target{Name: "h", Address: "127.0.0.1", Port: s.port, User: currentUser(), IdentityFile: s.path("id"), KnownHosts: s.path("known"), ConnectTimeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
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
		err := c.place(files, dir, "00000000000000aa", build)
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
