package launch

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fabricform/fabricform/nccl"
)

// hostile is a job whose values hold what shells, YAML and Open MPI give a meaning.
func hostile() Job {
	env := func(own string) nccl.Env {
		return nccl.Env{
			{Name: "NCCL_IB_HCA", Value: "=mlx5_1,mlx5_2:1", Reason: "a list\nof devices"}, {Name: "NCCL_NET_FORCE_MERGE", Value: "a,b;c,d", Reason: "r"},
			{Name: "NCCL_DEBUG_FILE", Value: `it's "$(touch x)" ` + "`y` \\n %s ${Z} # é: {a: [b]}", Reason: "r"}, {Name: "NCCL_SOCKET_IFNAME", Value: "=" + own, Reason: "r"},
		}
	}
	return Job{Fabric: "f", Hosts: []Host{
		{Name: "a", Hostname: "a", Address: "10.0.0.1", Management: netip.MustParsePrefix("10.0.0.0/24"), GPUs: 2, Socket: "eth0", RDMA: true, Env: env("eth0"), NICs: []NIC{{Name: "r", Netdev: "eth0", MTU: 9000, Addresses: []netip.Prefix{netip.MustParsePrefix("10.1.0.1/24")}}}},
		{Name: "b", Hostname: "b.example", Address: "10.0.0.2", Management: netip.MustParsePrefix("10.0.0.0/24"), GPUs: 2, Socket: "eth1", RDMA: true, Env: env("eth1")},
	}}
}

// fake lays programs that stand for those of a cluster: each prints its arguments and its environment,
// separated by NUL, or becomes what it is told to start.
func fake(t *testing.T, hostname string) []string {
	t.Helper()
	dir := t.TempDir()
	tell := "#!/bin/sh\nprintf '%s\\0' \"$@\"\nprintf 'ENVIRONMENT\\0'\nexec env -0\n"
	for name, text := range map[string]string{
		"torchrun": tell, "docker": tell, "tell": tell, "mpirun": tell,
		"srun":  "#!/bin/sh\nshift\nexec \"$@\"\n",
		"uname": "#!/bin/sh\necho " + hostname + "\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return []string{"PATH=" + dir + ":/usr/bin:/bin", "TMPDIR=" + dir}
}

// run starts a rendered script with the fakes, and answers arguments and environment.
func run(t *testing.T, script []byte, hostname string, args ...string) (said []string, env map[string]string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(file, script, 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("bash", append([]string{file}, args...)...)
	cmd.Env = fake(t, hostname)
	cmd.Dir = t.TempDir()
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(cmd.Dir); len(left) > 0 {
		t.Errorf("a value was run: %v", left)
	}
	words, rest, _ := bytes.Cut(out, []byte("ENVIRONMENT\x00"))
	env = map[string]string{}
	for line := range strings.SplitSeq(string(rest), "\x00") {
		if name, v, found := strings.Cut(line, "="); found {
			env[name] = v
		}
	}
	return strings.Split(strings.TrimSuffix(string(words), "\x00"), "\x00"), env
}

func rendered(t *testing.T, format string, j Job) []byte {
	t.Helper()
	text, err := Render(format, j)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// same compares what arrived with what was meant.
func same(t *testing.T, format string, want nccl.Env, got map[string]string) {
	t.Helper()
	for _, v := range want {
		if got[v.Name] != v.Value {
			t.Errorf("%s: %s is %q, want %q", format, v.Name, got[v.Name], v.Value)
		}
	}
}

// one is the job's host alone, so that a format of many texts has one.
func one(j Job, i int) Job { return Job{Fabric: j.Fabric, Hosts: j.Hosts[i : i+1]} }

func TestShellsReadWhatIsMeant(t *testing.T) {
	j := hostile()
	_, env := run(t, append(rendered(t, "shell", one(j, 0)), "tell\n"...), "a")
	same(t, "shell", j.Hosts[0].Env, env)

	args, env := run(t, rendered(t, "torchrun", one(j, 1)), "b.example", "train.py", "--x y")
	same(t, "torchrun", j.Hosts[1].Env, env)
	if env["GLOO_SOCKET_IFNAME"] != "eth1" || !slices.Equal(args[len(args)-2:], []string{"train.py", "--x y"}) || !slices.Contains(args, "--nproc-per-node=2") {
		t.Errorf("%q %q", args, env["GLOO_SOCKET_IFNAME"])
	}

	args, _ = run(t, rendered(t, "docker", one(j, 0)), "a", "image", "nvidia-smi")
	got := map[string]string{}
	for i, a := range args {
		if name, v, found := strings.Cut(a, "="); found && args[i-1] == "-e" {
			got[name] = v
		}
	}
	same(t, "docker", j.Hosts[0].Env, got)
	for _, want := range []string{"--device=/dev/infiniband", "--cap-add=IPC_LOCK", "--network=host", "memlock=-1:-1", "image"} {
		if !slices.Contains(args, want) {
			t.Errorf("docker run lacks %s: %q", want, args)
		}
	}
}

func TestLaunchersGiveEachHostItsOwn(t *testing.T) {
	j := hostile()
	for i, h := range j.Hosts {
		_, env := run(t, rendered(t, "slurm", j), h.Hostname, "tell")
		same(t, "slurm", h.Env, env)

		args, _ := run(t, rendered(t, "mpirun", j), "launcher", "tell", "-b 8")
		got := map[string]string{}
		for k, a := range args {
			if name, v, found := strings.Cut(a, "="); found && args[k-1] == "-x" {
				got[name] = v
			}
		}
		if _, held := got["NCCL_NET_FORCE_MERGE"]; held {
			t.Error("a value with a semicolon is an -x")
		}
		at := slices.Index(args, "sh")
		if at < 0 || !slices.Equal(args[len(args)-2:], []string{"tell", "-b 8"}) {
			t.Fatalf("%q", args)
		}
		var inner strings.Builder // what Open MPI would start on the host
		for name, v := range got {
			inner.WriteString("export " + name + "=" + nccl.Quote(v) + "\n")
		}
		for _, word := range args[at:] {
			inner.WriteString(nccl.Quote(word) + " ")
		}
		_, env = run(t, []byte(inner.String()+"\n"), h.Hostname)
		same(t, "mpirun", h.Env, env)

		lines, _ := run(t, rendered(t, "slurm-prolog", j), h.Hostname)
		got = map[string]string{}
		for line := range strings.Lines(lines[0]) {
			name, v, _ := strings.Cut(strings.TrimPrefix(strings.TrimSuffix(line, "\n"), "export "), "=")
			got[name] = v
		}
		same(t, "slurm-prolog", j.Hosts[i].Env, got)
	}
}

// The script ends with mpirun's status, and leaves no list of hosts.
func TestMpirunsHostfileGoes(t *testing.T) {
	for _, want := range []int{0, 3} {
		for _, shell := range []string{"sh", "bash"} {
			cmd, temporary := mpirunScript(t, shell, fmt.Sprintf("exit %d", want))
			_ = cmd.Run()
			if got := cmd.ProcessState.ExitCode(); got != want {
				t.Errorf("in %s: status %d, want %d", shell, got, want)
			}
			if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
				t.Errorf("in %s: %v stays", shell, left)
			}
		}
	}
}

// A script that cannot write its list of hosts, as on a full disk, leaves none.
func TestMpirunsHostfileGoesWhereItCannotBeWritten(t *testing.T) {
	for _, shell := range []string{"sh", "bash"} {
		cmd, temporary := mpirunScript(t, shell, "exit 0")
		if err := os.WriteFile(filepath.Join(filepath.Dir(cmd.Args[1]), "cat"), []byte("#!/bin/sh\nexit 7\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Run()
		if got := cmd.ProcessState.ExitCode(); got != 7 {
			t.Errorf("in %s: status %d", shell, got)
		}
		if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
			t.Errorf("in %s: %v stays", shell, left)
		}
	}
}

// Who ends the script's process alone, as docker stop does, ends mpirun.
func TestMpirunEndsWithItsScript(t *testing.T) {
	for _, shell := range []string{"sh", "bash"} {
		cmd, temporary := mpirunScript(t, shell, "echo $$\nexec sleep 1000")
		out, err := cmd.StdoutPipe()
		if err := errors.Join(err, cmd.Start()); err != nil {
			t.Fatal(err)
		}
		said := bufio.NewReader(out)
		line, err := said.ReadString('\n') // mpirun runs
		if err := errors.Join(err, cmd.Process.Signal(syscall.SIGTERM)); err != nil {
			t.Fatalf("in %s: %v", shell, err)
		}
		goesOn := time.AfterFunc(20*time.Second, func() {
			pid, err1 := strconv.Atoi(strings.TrimSpace(line))
			mpirun, err2 := os.FindProcess(pid)
			t.Errorf("in %s: mpirun goes on: %v", shell, errors.Join(err1, err2, mpirun.Kill()))
		})
		if rest, err := io.ReadAll(said); err != nil || len(rest) > 0 { // until nobody has it open
			t.Errorf("in %s: %s %v", shell, rest, err)
		}
		goesOn.Stop()
		_ = cmd.Wait() // a signal ended it
		if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
			t.Errorf("in %s: %v stays", shell, left)
		}
	}
}

// mpirunScript is a rendered script with an mpirun that reads its list of hosts twice; temporary is the folder of what
// it leaves.
func mpirunScript(t *testing.T, shell, mpirun string) (cmd *exec.Cmd, temporary string) {
	t.Helper()
	dir, temporary := t.TempDir(), t.TempDir()
	script := filepath.Join(dir, "script")
	const reads = "#!/bin/sh\nfor i in 1 2; do [ \"$(grep -c slots=2 \"$4\")\" = 2 ] || exit 9; done\n"
	err1 := os.WriteFile(filepath.Join(dir, "mpirun"), []byte(reads+mpirun+"\n"), 0o755)
	err2 := os.WriteFile(script, rendered(t, "mpirun", hostile()), 0o644)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	cmd = exec.Command(shell, script, "x")
	cmd.Env = []string{"PATH=" + dir + ":/usr/bin:/bin", "TMPDIR=" + temporary}
	return cmd, temporary
}

func TestYAMLSaysWhatIsMeant(t *testing.T) {
	if err := exec.Command("python3", "-c", "import yaml").Run(); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("python3-yaml is missing, and CI installs it")
		}
		t.Skip("python3-yaml is not installed")
	}
	j := hostile()
	for _, format := range []string{"kubernetes", "kubernetes-multus"} {
		cmd := exec.Command("python3", "-c", "import sys, yaml, json; print(json.dumps(list(yaml.safe_load_all(sys.stdin))))")
		cmd.Stdin = bytes.NewReader(rendered(t, format, j))
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		var objects []struct {
			Kind string
			Spec struct {
				Config      string
				HostNetwork bool `json:"hostNetwork"`
				Containers  []struct {
					Env []struct{ Name, Value string }
				}
			}
		}
		if err := json.Unmarshal(out, &objects); err != nil {
			t.Fatal(err)
		}
		pods := 0
		for _, o := range objects {
			if o.Kind == "NetworkAttachmentDefinition" {
				if !json.Valid([]byte(o.Spec.Config)) || !strings.Contains(o.Spec.Config, "10.1.0.1/24") {
					t.Errorf("%s", o.Spec.Config)
				}
				continue
			}
			got := map[string]string{}
			for _, v := range o.Spec.Containers[0].Env {
				got[v.Name] = v.Value
			}
			want := j.Hosts[pods].Env
			if format == "kubernetes-multus" && pods == 1 {
				want = want[:3] // its socket interface stays on the host
			}
			same(t, format, want, got)
			pods++
		}
		if pods != 2 {
			t.Errorf("%s: %d pods", format, pods)
		}
	}
}

func TestRenderRefusesWhatNoFormatCanSay(t *testing.T) {
	for _, j := range []Job{
		{}, {Hosts: []Host{{Name: "a", Hostname: "a\nb"}}}, {Hosts: []Host{{Name: "a", Env: nccl.Env{{Name: "A", Value: "x\ny"}}}}},
	} {
		for _, format := range Names() {
			if text, err := Render(format, j); err == nil {
				t.Errorf("%s: %s", format, text)
			}
		}
	}
	if _, err := Render("ini", hostile()); err == nil {
		t.Error("there is no format ini")
	}
}
