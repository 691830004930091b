//go:build linux

package slurm

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestNobodyElseReachesWhatIsSent: a step makes the folder for the program, for its user alone, and goes on as the program in it. It does not
// take a folder that is there: whoever made it could replace the program that root starts.
func TestNobodyElseReachesWhatIsSent(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "helpers", "sent")
	begin := func() (*exec.Cmd, io.WriteCloser, *bufio.Reader) {
		t.Helper()
		cmd := exec.Command("/bin/sh", "-c", receiver, "sh", "word")
		cmd.Env = append(os.Environ(), "SLURMD_NODENAME=n1", "SLURM_STEP_ID=3")
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err == nil {
			_, err = fmt.Fprintln(in, dir)
		}
		if err != nil {
			t.Fatal(err)
		}
		return cmd, in, bufio.NewReader(out)
	}
	cmd, in, out := begin()
	if said, err := out.ReadString('\n'); err != nil || said != "word n1 3\n" {
		t.Fatalf("%q, %v", said, err)
	}
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if info, err := os.Lstat(d); err != nil || info.Mode() != fs.ModeDir|0o700 {
			t.Fatal(info, err)
		}
	}
	if shown, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", cmd.Process.Pid)); err != nil || strings.Contains(string(shown), dir) {
		t.Errorf("every user can read the folder's name: %q, %v", shown, err)
	}
	second, _, other := begin()
	if said, _ := other.ReadString('\n'); said != "" || second.Wait() == nil {
		t.Errorf("it takes a folder that is there: %q", said)
	}
	f, err := os.Create(filepath.Join(dir, "gz"))
	if err != nil {
		t.Fatal(err)
	}
	w := gzip.NewWriter(f)
	fmt.Fprint(w, "#!/bin/sh\necho \"$0 $*\"\ncat\n")
	if err := w.Close(); err != nil || f.Close() != nil {
		t.Fatal(err)
	}
	fmt.Fprint(in, "word\ncredential")
	_ = in.Close()
	rest, _ := io.ReadAll(out)
	if want := dir + "/new agent --dial-back\ncredential"; string(rest) != want || cmd.Wait() != nil {
		t.Errorf("%q, want %q", rest, want)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 || left[0].Name() != "new" {
		t.Error(left, err)
	}

	dir = filepath.Join(t.TempDir(), "another word")
	cmd, in, out = begin()
	_, _ = out.ReadString('\n')
	pack := exec.Command("sh", "-c", `printf '#!/bin/sh\necho it runs\n' | gzip > "$1"`, "sh", filepath.Join(dir, "gz"))
	if err := pack.Run(); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(in, "Word\ncredential")
	_ = in.Close()
	if said, _ := io.ReadAll(out); len(said) > 0 || cmd.Wait() == nil {
		t.Errorf("after another word, %q", said)
	}

	dir = filepath.Join(t.TempDir(), "none")
	cmd, in, out = begin()
	_, _ = out.ReadString('\n')
	_ = in.Close() // the coordinator has ended
	if err := cmd.Wait(); err == nil {
		t.Error("without a program, it says that all is well")
	}
	if _, err := os.Lstat(dir); err == nil {
		t.Error("the folder stays")
	}
}

// A cluster of one node, n1, whose srun only says what its step would say, and keeps what the step is told.
const (
	fakeSrun = `#!/bin/sh
cd "$(dirname "$0")"
echo "$*" > step
for word; do :; done
IFS= read -r folder
echo "$folder" > folder
echo "a prolog says n1 99"
echo "said n1 98"
echo "$word n1 x"
echo "$word n1 3"
cat > told
`
	fakeSbcast = `#!/bin/sh
cd "$(dirname "$0")"
echo "$*" > copied
`
)

// TestAProgramIsSentToItsStep: into a folder whose name no argument of srun has; only the step's own line says that it is ready.
func TestAProgramIsSentToItsStep(t *testing.T) {
	for _, sudo := range []bool{false, true} {
		dir := t.TempDir()
		for name, text := range map[string]string{"srun": fakeSrun, "sbcast": fakeSbcast, "gz": ""} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
		file := &packed{path: filepath.Join(dir, "gz")}
		file.once.Do(func() {})
		c := &Cluster{packed: map[string]*packed{"amd64": file}}
		p, err := c.send(t.Context(), step{hold: &hold{job: "7"}, goarch: "amd64", sudo: sudo}, []string{"n1"})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.tell("credential"); err != nil {
			t.Fatal(err)
		}
		p.wait()
		said := map[string]string{}
		for _, name := range []string{"step", "folder", "told", "copied"} {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			said[name] = strings.TrimSuffix(string(text), "\n")
		}
		where := sentByRoot
		if sudo {
			where = sentBySudo
		}
		words := strings.Fields(said["step"])
		word := words[len(words)-1]
		if !strings.HasPrefix(said["folder"], where) || len(said["folder"]) != len(where)+26 || strings.Contains(said["step"], said["folder"]) {
			t.Errorf("sudo %v: the folder is %q, and the step %q", sudo, said["folder"], said["step"])
		}
		if said["told"] != word+"\ncredential" || !strings.HasPrefix(said["copied"], "--jobid=7.3 ") || !strings.HasSuffix(said["copied"], " "+file.path+" "+said["folder"]+"/gz") {
			t.Errorf("sudo %v: the step is told %q, and sbcast %q", sudo, said["told"], said["copied"])
		}
		if !strings.Contains(said["step"], " --export=PATH=/usr/sbin:/usr/bin:/sbin:/bin ") || !strings.Contains(said["step"], " --chdir=/ ") || !strings.Contains(said["step"], " --jobid=7 ") {
			t.Errorf("the step has the operator's environment or folder, or is in another job: %q", said["step"])
		}
	}
}
