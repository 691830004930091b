package launch

import (
	"bufio"
	"bytes"
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

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/nccl"
	"github.com/fabricform/fabricform/nccl/env"
)

// hostile is a job whose values hold what shells, YAML and Open MPI give a meaning.
func hostile() Job {
	env := func(own string) nccl.Env {
		return nccl.Env{
			{Name: "NCCL_IB_HCA", Value: "=mlx5_1,mlx5_2:1", Reason: "a list\nof devices"}, {Name: "NCCL_NET_FORCE_MERGE", Value: "a,b;c,d", Reason: "r"},
			{Name: "NCCL_DEBUG_FILE", Value: `it's "$(touch x)" ` + "`y` \\n %s ${Z} $(NCCL_IB_HCA) $$ # é: {a: [b]}", Reason: "r"}, {Name: "NCCL_SOCKET_IFNAME", Value: "=" + own, Reason: "r"},
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
		"torchrun": tell, "docker": tell, "tell": tell, "mpirun": tell, "mpiexec.hydra": tell, "ssh": "#!/bin/sh\n",
		"podman":   strings.Replace(tell, "\n", "\n[ \"$1\" != --version ] || { echo podman version 5.4.2; exit; }\n", 1),
		"srun":     "#!/bin/sh\n[ \"$1\" != --mpi=list ] || { echo \"${PLUGINS-srun: pmix}\" >&2; exit; }\nexport SRUN=\"$*\"\nwhile [ \"${1#-}\" != \"$1\" ]; do shift; done\nexec \"$@\"\n",
		"scontrol": "#!/bin/sh\necho \"$3\" | tr , '\\n'\n",
		"uname":    "#!/bin/sh\necho " + hostname + "\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	node, _, _ := strings.Cut(hostname, ".") // as Slurm names it
	return []string{"PATH=" + dir + ":/usr/bin:/bin", "TMPDIR=" + dir, "SLURM_JOB_NODELIST=" + node, "SLURM_JOB_ID=1234", "SLURMD_NODENAME=" + node,
		"SLURM_PROCID=5", "SLURM_NTASKS=6", "SLURM_LOCALID=1", "SLURM_CPUS_PER_TASK=7"}
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
	files, err := Render(format, j)
	if err != nil || len(files) != 1 {
		t.Fatal(len(files), err)
	}
	return files[0].Text
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

func TestShellsReadTheSettings(t *testing.T) {
	j := hostile()
	_, got := run(t, append(rendered(t, "shell", one(j, 0)), "tell\n"...), "a")
	same(t, "shell", slices.Concat(j.Hosts[0].Env, j.Hosts[0].torch()), got)

	args, got := run(t, rendered(t, "torchrun", one(j, 1)), "b.example", "train.py", "--x y")
	same(t, "torchrun", slices.Concat(j.Hosts[1].Env, j.Hosts[1].torch()), got)
	if !slices.Equal(args[len(args)-2:], []string{"train.py", "--x y"}) || !slices.Contains(args, "--nproc-per-node=2") {
		t.Errorf("%q", args)
	}

	conf := map[string]string{}
	for _, v := range env.ReadConf(string(rendered(t, "conf", one(j, 0)))) {
		conf[v.Name] = v.Value
	}
	same(t, "conf", j.Hosts[0].Env, conf)
}

func TestContainersGetTheSettings(t *testing.T) {
	common := []string{"--rm", "--network=host", "--ipc=host", "--ulimit", "memlock=-1:-1", "--cap-add=IPC_LOCK", "--security-opt=label=disable"}
	for name, c := range map[string]struct {
		engine string
		change func(*Host)
		want   []string // options beside the common ones and variables
	}{
		"Docker":              {"docker", func(*Host) {}, []string{"--device=/dev/infiniband", "--gpus=all"}},
		"Podman":              {"podman", func(*Host) {}, []string{"--device=/dev/infiniband", "--device=nvidia.com/gpu=all"}},
		"no GPUs":             {"docker", func(h *Host) { h.GPUs = 0 }, []string{"--device=/dev/infiniband"}},
		"no RDMA":             {"podman", func(h *Host) { h.RDMA, h.GPUs = false, 0 }, nil},
		"the host's own file": {"docker", func(h *Host) { h.File = "/etc/nccl.conf" }, []string{"--device=/dev/infiniband", "--mount", "type=bind,source=/etc/nccl.conf,target=/etc/nccl.conf,readonly", "--gpus=all"}},
	} {
		j := one(hostile(), 0)
		c.change(&j.Hosts[0])
		args, _ := run(t, append([]byte("export DOCKER="+c.engine+"\n"), rendered(t, "docker", j)...), "a", "image", "program", "-x $y")
		if len(args) < 4 || args[0] != "run" || !slices.Equal(args[len(args)-3:], []string{"image", "program", "-x $y"}) {
			t.Errorf("%s: %q", name, args)
			continue
		}
		var options []string
		got := map[string]string{}
		for args = args[1 : len(args)-3]; len(args) > 0; args = args[1:] {
			if args[0] != "-e" {
				options = append(options, args[0])
				continue
			}
			variable, v, _ := strings.Cut(args[1], "=")
			got[variable], args = v, args[1:]
		}
		if want := slices.Concat(common, c.want); !slices.Equal(options, want) {
			t.Errorf("%s: %q, want %q", name, options, want)
		}
		want := slices.Concat(j.Hosts[0].Env, j.Hosts[0].torch())
		if j.Hosts[0].File != "" {
			want = j.Hosts[0].torch() // NCCL's are in the file
		}
		if same(t, name, want, got); len(got) != len(want) {
			t.Errorf("%s: %q", name, got)
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

		args, _ = run(t, rendered(t, "hydra", j), "launcher", "tell", "-b 8")
		inner.Reset() // what Hydra would start on the host
		for k, a := range args {
			if a == "-genv" {
				inner.WriteString("export " + args[k+1] + "=" + nccl.Quote(args[k+2]) + "\n")
			}
		}
		for _, word := range args[slices.Index(args, "sh"):] {
			inner.WriteString(nccl.Quote(word) + " ")
		}
		_, env = run(t, []byte(inner.String()+"\n"), h.Hostname)
		same(t, "hydra", h.Env, env)

		lines, _ := run(t, rendered(t, "slurm-prolog", j), h.Hostname)
		got = map[string]string{}
		for line := range strings.Lines(lines[0]) {
			name, v, _ := strings.Cut(strings.TrimPrefix(strings.TrimSuffix(line, "\n"), "export "), "=")
			got[name] = v
		}
		same(t, "slurm-prolog", j.Hosts[i].Env, got)
	}
}

// The launchers name hosts as a login_mesh knows them, and the declared mpirun.
func TestLaunchersFollowTheMesh(t *testing.T) {
	f := &fabric.Fabric{Name: "f", LoginMeshes: []*fabric.LoginMesh{{Name: "some", User: "other", Hosts: []fabric.HostRef{"a"}}, {Name: "train", User: "tutu", Hosts: []fabric.HostRef{"a", "b"}}}}
	f.Validate.NCCL.MPIRun = "/opt/my mpi/bin/mpirun"
	snaps := map[string]*facts.Snapshot{"a": {}, "b": {}}
	for i, name := range []string{"a", "b"} {
		f.Hosts = append(f.Hosts, &fabric.Host{Name: name, Address: name + ".example"})
		snaps[name].Management.Dialled = netip.MustParseAddr([]string{"192.0.2.7", "2001:db8::7"}[i])
	}
	for format, want := range map[string]string{
		"mpirun": "# As tutu on one of these hosts: sh FILE |\n192.0.2.7 slots=1\n2001:db8::7 slots=1\nEOF\n|exec '/opt/my mpi/bin/mpirun' $",
		"hydra":  "# As tutu on one of these hosts: sh FILE |\n192.0.2.7:1\nb:1\nEOF\n|exec '/opt/my mpi/bin/mpirun' -f",
	} {
		text := string(rendered(t, format, New(f, snaps)))
		for _, part := range strings.Split(want, "|") {
			if !strings.Contains(text, part) {
				t.Errorf("%s: %q is not in\n%s", format, part, text)
			}
		}
	}
	f.LoginMeshes = f.LoginMeshes[:1] // b is in none
	if text := string(rendered(t, "mpirun", New(f, snaps))); !strings.Contains(text, "\n# sh FILE ") || !strings.Contains(text, "\nb.example slots=1\n") {
		t.Error(text)
	}
}

// TestScriptsOfMPINeedAProgram: Hydra itself ends with a segmentation fault without one.
func TestScriptsOfMPINeedAProgram(t *testing.T) {
	for _, format := range []string{"mpirun", "hydra"} {
		cmd := exec.Command("sh", "-s")
		cmd.Env, cmd.Stdin = fake(t, "a"), bytes.NewReader(rendered(t, format, hostile()))
		if out, err := cmd.CombinedOutput(); err == nil || string(out) != "no program given: sh FILE PROGRAM …\n" {
			t.Errorf("%s: %v, %q", format, err, out)
		}
	}
}

// TestScriptsOfMPITryTheLoginsFirst: Hydra waits without end for a host whose login fails. The names are text, and never options or
// commands of a shell.
func TestScriptsOfMPITryTheLoginsFirst(t *testing.T) {
	j := hostile()
	c := j.Hosts[1]
	c.Name, c.Hostname, c.Address = "c", "c", "-oProxyCommand=touch x;$(touch y)'"
	j.Hosts = append(j.Hosts, c)
	const ssh = "#!/bin/sh\necho \"$*\" >> \"$TMPDIR/tried\"\nshift $(($# - 2))\n[ \"$1\" != \"$REFUSED\" ] || { echo 'Permission denied (publickey).' >&2; exit 255; }\n"
	for _, format := range []string{"mpirun", "hydra"} {
		for _, refused := range []string{"", "10.0.0.2", c.Address} {
			cmd := exec.Command("sh", "-s", "tell")
			cmd.Env, cmd.Dir, cmd.Stdin = append(fake(t, "a"), "REFUSED="+refused), t.TempDir(), bytes.NewReader(rendered(t, format, j))
			dir := strings.TrimPrefix(cmd.Env[1], "TMPDIR=")
			if err := os.WriteFile(filepath.Join(dir, "ssh"), []byte(ssh), 0o755); err != nil {
				t.Fatal(err)
			}
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			started := bytes.Contains(out, []byte("ENVIRONMENT"))
			if started != (refused == "") || started != (err == nil) {
				t.Errorf("%s, %q refuses: started %v, %v: %s", format, refused, started, err, stderr.String())
			}
			name := map[string]string{"10.0.0.2": "b", c.Address: "c"}[refused]
			if want := "cannot log in from a to host " + name + ": ssh " + refused + " true\n"; refused != "" &&
				(!strings.Contains(stderr.String(), want) || !strings.Contains(stderr.String(), "nothing was started; ")) {
				t.Errorf("%s: %q is not in %q", format, want, stderr.String())
			}
			const options = "-n -x -o BatchMode=yes -o ConnectTimeout=10 -- "
			tried, _ := os.ReadFile(filepath.Join(dir, "tried"))
			want := []string{options + "10.0.0.2 true", options + c.Address + " true"} // not a itself
			if got := strings.Split(strings.TrimSpace(string(tried)), "\n"); len(got) != 2 || !slices.Contains(got, want[0]) || !slices.Contains(got, want[1]) {
				t.Errorf("%s tried %q", format, got)
			}
			if left, _ := os.ReadDir(cmd.Dir); len(left) > 0 {
				t.Errorf("%s: a name was run: %v", format, left)
			}
		}
	}
}

// TestScriptsFindTheLibrariesOfADeclaredMPI: verify proves these scripts in an environment that has no more than a user's login.
func TestScriptsFindTheLibrariesOfADeclaredMPI(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "it's mpi")
	j := hostile()
	j.MPIRun = filepath.Join(dir, "bin", "mpirun")
	err1 := os.MkdirAll(filepath.Dir(j.MPIRun), 0o755)
	err2 := os.WriteFile(j.MPIRun, []byte("#!/bin/sh\nprintf 'ENVIRONMENT\\0'\nexec env -0\n"), 0o755)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ format, user, root string }{{"mpirun", "root", "1"}, {"mpirun", "ann", ""}, {"hydra", "root", ""}} {
		j.User = c.user
		for set, more := range map[string]string{"": "", "export LD_LIBRARY_PATH=/opt/cuda/lib\n": ":/opt/cuda/lib"} {
			_, env := run(t, append([]byte(set), rendered(t, c.format, j)...), "a", "tell")
			if want := dir + "/lib:" + dir + "/lib64" + more; env["LD_LIBRARY_PATH"] != want {
				t.Errorf("%s: libraries are searched in %s, want %s", c.format, env["LD_LIBRARY_PATH"], want)
			}
			for _, name := range []string{"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "PRTE_ALLOW_RUN_AS_ROOT", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM"} {
				if env[name] != c.root {
					t.Errorf("%s as %s: %s is %q", c.format, c.user, name, env[name])
				}
			}
		}
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
	err3 := os.WriteFile(filepath.Join(dir, "ssh"), []byte("#!/bin/sh\n"), 0o755)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	cmd = exec.Command(shell, script, "x")
	cmd.Env = []string{"PATH=" + dir + ":/usr/bin:/bin", "TMPDIR=" + temporary}
	return cmd, temporary
}

func TestRenderRefusesWhatNoFormatCanSay(t *testing.T) {
	for _, j := range []Job{
		{}, {Hosts: []Host{{Name: "a", Hostname: "a\nb"}}}, {Hosts: []Host{{Name: "a", Env: nccl.Env{{Name: "A", Value: "x\ny"}}}}},
	} {
		for _, format := range Names() {
			if files, err := Render(format, j); err == nil {
				t.Errorf("%s: %d files", format, len(files))
			}
		}
	}
	if _, err := Render("ini", hostile()); err == nil {
		t.Error("there is no format ini")
	}
}
