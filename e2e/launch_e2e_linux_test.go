//go:build linux

package e2e

import (
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// mpis are Debian's names of both MPIs, which can be installed side by side.
var mpis = []struct{ name, mpicc, mpirun, format string }{
	{"Open MPI ", "mpicc.openmpi", "/usr/bin/mpirun.openmpi", "mpirun"},
	{"MPICH ", "mpicc.mpich", "/usr/bin/mpirun.mpich", "hydra"},
}

// standInTests compiles the stand-in for the programs of nccl-tests into a folder of /var, which the lab's hosts can read.
func standInTests(t *testing.T, mpicc string, flags ...string) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "fabricform-standin-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	first := ""
	for _, program := range []string{"all_reduce_perf", "broadcast_perf", "sendrecv_perf"} {
		at := filepath.Join(dir, program)
		if first == "" {
			first = at
			if out, err := exec.Command(mpicc, append(flags, "-O1", "-o", at, "../probe/collective/testdata/standin/perf.c")...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		} else if err := os.Link(first, at); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// launchLab is a lab of hosts with a mesh for the user tutu, and with GPUs that only /proc knows.
type launchLab struct {
	t           *testing.T
	path, state string
	hosts       []string
}

// declare writes the fabric, whose collectives run by that MPI.
func (l *launchLab) declare(mesh bool, folder, mpirun string) {
	l.t.Helper()
	var text strings.Builder
	var members []string
	for i, name := range l.hosts {
		fmt.Fprintf(&text, "host %q {\n  nic \"r0\" {\n    netdev    = \"eth0\"\n    addresses = [\"10.77.0.%d/24\"]\n  }\n}\n", name, i+1)
		members = append(members, "host."+name+".nic.r0")
	}
	fmt.Fprintf(&text, "network \"net\" {\n  members = [%s]\n  role    = \"training\"\n}\n", strings.Join(members, ", "))
	fmt.Fprintf(&text, "validate {\n  nccl {\n    run        = \"nccl-tests\"\n    nccl_tests = %q\n    mpirun     = %q\n  }\n}\nnccl {\n  write         = false\n  socket_ifname = \"eth0\"\n}\n", folder, mpirun)
	if mesh {
		fmt.Fprintf(&text, "login_mesh \"train\" {\n  hosts = values(host)\n  user  = \"tutu\"\n}\n")
	}
	if err := os.WriteFile(l.path, []byte(text.String()), 0o600); err != nil {
		l.t.Fatal(err)
	}
}

func (l *launchLab) on(host, script string) string {
	l.t.Helper()
	return inside(l.t, l.state, l.path, host, "sh", "-c", script)
}

// verify runs a case, after which nothing may be left.
func (l *launchLab) verify(code int, texts ...string) {
	l.t.Helper()
	try(l.t, l.state, "verify", "-lab", "-only", "nccl", l.path).want(l.t, code, texts...)
	l.clean()
}

// clean waits until no process of the user is left on any host, no daemon of MPI and no file.
func (l *launchLab) clean() {
	l.t.Helper()
	for _, host := range l.hosts {
		left := ""
		for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(100 * time.Millisecond) {
			// A proxy of Hydra that is killed leaves a file from MPICH 4.1 on (HYDT_topo_hwloc_init in topo_hwloc.c), and so do
			// ranks of MPICH that are killed before all of their host have opened it (MPL_shm_seg_create_attach_templ in mpl_shm_mmap.c).
			if left = l.on(host, "ps -u tutu -o stat=,args= | grep -v ^Z; ls -d /tmp/* 2>/dev/null | grep -Ev '^/tmp/(hydra_hwloc_xmlfile_|mpich_shar_tmp)'; true"); left == "" {
				break
			}
		}
		if left != "" {
			l.t.Errorf("on %s there is left:\n%s", host, left)
		}
	}
}

// hanging starts a verify whose ranks hang, and returns it when all do.
func (l *launchLab) hanging() *exec.Cmd {
	l.t.Helper()
	cmd := exec.Command(bin, "verify", "-lab", "-only", "nccl", l.path)
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+l.state, "NO_COLOR=1")
	if err := cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		n := 0
		for _, host := range l.hosts {
			n += strings.Count(l.on(host, "pgrep -u tutu -x all_reduce_perf; true"), "\n")
		}
		if n == 2*len(l.hosts) {
			// Open MPI's daemons do not always end with mpirun, so they are marked as the ranks are. Release 5 has another name for them.
			for _, host := range l.hosts {
				if pids := l.on(host, "for p in $(pgrep -u tutu -x 'orted|prted'); do grep -qz ^FABRICFORM_FAMILY= /proc/$p/environ || echo $p; done"); pids != "" {
					l.t.Errorf("daemons on %s have no mark: %s", host, pids)
				}
			}
			return cmd
		}
		if time.Since(began) > 2*time.Minute {
			l.t.Fatalf("%d ranks run", n)
		}
	}
}

// TestNCCLTestsOverAMesh: Debian's Open MPI and MPICH start ranks over OpenSSH with the mesh's keys, by verify and by the scripts that
// render prints. GPUs and programs are stand-ins, so that this says nothing of NCCL. MPI, its launchers, the logins, and what the
// ranks exchange are real. Whatever happens to the client or to a helper, no rank survives it.
func TestNCCLTestsOverAMesh(t *testing.T) {
	together(t)
	inFull(t, "Debian13", inDebian13)
	for _, m := range mpis {
		installed(t, m.mpicc, m.mpirun)
	}
	open := mpis[0]
	good, dies := standInTests(t, open.mpicc), standInTests(t, open.mpicc, "-DDIES=3")
	wrong, hangs := standInTests(t, open.mpicc, "-DWRONG=3"), standInTests(t, open.mpicc, "-DHANGS=3")
	mpich, mpichHangs := standInTests(t, mpis[1].mpicc), standInTests(t, mpis[1].mpicc, "-DHANGS=3")

	l := &launchLab{t: t, path: filepath.Join(t.TempDir(), "launch.hcl"), hosts: []string{"a", "b", "c"}}
	l.declare(false, good, open.mpirun)
	l.state = labUpFor(t, l.path)
	for _, host := range l.hosts {
		l.on(host, "useradd -m -d /home/tutu -s /bin/sh -p '*' tutu && mount -t tmpfs tmpfs /proc/driver && mkdir -p /proc/driver/nvidia/gpus/0000:01:00.0 /proc/driver/nvidia/gpus/0000:02:00.0")
	}
	apply := func() { t.Helper(); try(t, l.state, "apply", "-lab", "-auto-approve", "-no-verify", l.path).want(t, 0) }
	apply()
	l.verify(0, "skipped: nccl-tests needs login_mesh or slurm")
	l.declare(true, good, open.mpirun)
	l.verify(3, "a cannot log in to b as tutu: ")
	apply()

	for i, m := range mpis {
		folder := []string{good, mpich}[i]
		l.declare(true, folder, m.mpirun)
		l.verify(0, "6 on 3 hosts", m.name, "all_reduce", "broadcast", "send_recv", "GB/s bus bandwidth at ")
		// The script that users get, on another host than the first.
		a := try(t, l.state, "render", "nccl", "-lab", "-format", m.format, l.path)
		a.want(t, 0, "# As tutu on one of these hosts: ", "exec '"+m.mpirun+"'")
		out := l.on("b", "echo "+base64.StdEncoding.EncodeToString([]byte(a.out))+" | base64 -d >/run/script; su tutu -c 'sh /run/script "+folder+"/all_reduce_perf -b 64 -e 65536 -f 4' 2>&1")
		for _, want := range []string{"Rank  0 ", "on          a", "Rank  5 ", "on          c", "# Out of bounds values : 0 OK"} {
			if !strings.Contains(out, want) {
				t.Errorf("%s: %q is not in\n%s", m.format, want, out)
			}
		}
	}

	l.declare(true, t.TempDir(), open.mpirun)
	l.verify(3, "host b: ", "all_reduce_perf does not exist; build nccl-tests with MPI=1")
	l.declare(true, dies, open.mpirun)
	l.verify(3, "all_reduce_perf: ", "rank 3", "node b", "signal 9")
	l.declare(true, wrong, open.mpirun)
	l.verify(3, "6 wrong, first with 64 B", "nccl-tests found wrong values")
	l.declare(true, good, open.mpirun)
	l.on("a", "nft 'add table inet t; add chain inet t in { type filter hook input priority 0; }; add rule inet t in ip daddr 10.77.0.1 tcp flags & (syn | ack) == syn reject'")
	l.verify(3, "b (10.77.0.2 on eth0) cannot connect to TCP port", "of a (10.77.0.1 on eth0)")
	l.on("a", "nft delete table inet t")

	// The client is told to stop, or killed; a helper is killed, on the first host and on another one.
	end := func(host string) func(*exec.Cmd) {
		return func(cmd *exec.Cmd) {
			l.on(host, "pkill -KILL -f '[f]abricform.* agent'")
			if err := cmd.Wait(); err == nil {
				t.Errorf("verify passes without the helper of %s", host)
			}
			// A helper that is killed leaves its files, and no ranks. The next one removes the files.
			if left := l.on(host, "ls -d /tmp/fabricform-*"); left == "" {
				t.Error("the ranks of a helper that is killed had no folder")
			}
			try(t, l.state, "plan", "-lab", l.path).want(t, 0)
		}
	}
	l.declare(true, hangs, open.mpirun)
	for name, do := range map[string]func(*exec.Cmd){
		"interrupted": func(cmd *exec.Cmd) { _ = cmd.Process.Signal(syscall.SIGINT); _ = cmd.Wait() },
		"first":       end("a"),
	} {
		t.Log(name)
		do(l.hanging())
		l.clean()
	}
	l.declare(true, mpichHangs, mpis[1].mpirun)
	for name, do := range map[string]func(*exec.Cmd){
		"killed":  func(cmd *exec.Cmd) { _ = cmd.Process.Kill(); _ = cmd.Wait() },
		"another": end("b"),
	} {
		t.Log(name)
		do(l.hanging())
		l.clean()
	}
}

// inDebian13 runs the test once more on a machine whose programs are Debian 13's: Open MPI 5, which starts its daemons by PRRTE's
// prterun, MPICH 4.2 and OpenSSH 10.
func inDebian13(t *testing.T) {
	tree, err := os.MkdirTemp("/var/tmp", "fabricform-debian-")
	if err != nil {
		t.Fatal(err)
	}
	run := func(env []string, name string, args ...string) {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "FABRICFORM_") }), env...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
	}
	t.Cleanup(func() { run(nil, "rm", "-rf", "--one-file-system", tree) })
	run(nil, "mmdebstrap", "--variant=minbase", "--include="+strings.Join([]string{"openmpi-bin", "libopenmpi-dev", "mpich", "libmpich-dev", "gcc",
		"libc6-dev", "openssh-server", "openssh-client", "iproute2", "nftables", "procps", "passwd", "kmod", "ethtool"}, ","), "trixie", tree)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	run(nil, "cp", self, tree+"/usr/local/bin/e2e.test")
	run(nil, "cp", "-r", filepath.Dir(bin), tree+"/opt/bin")
	// In a root of its own, not in a chroot: a lab's hosts enter each other's namespaces, which begin at the root of all.
	run([]string{"FABRICFORM_E2E=1", "FABRICFORM_BIN=/opt/bin/" + filepath.Base(bin), "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "CI=true"},
		"unshare", "--mount", "--propagation=private", "sh", "-c", `set -e
mount --bind "$1" "$1"
for d in proc sys dev; do mount --rbind "/$d" "$1/$d"; done
for d in tmp run; do mount -t tmpfs tmpfs "$1/$d"; done
mkdir "$1/run/sshd"
mount --bind .. "$1/srv"
cd "$1"
pivot_root . mnt
umount -l /mnt
cd /srv/e2e
exec /usr/local/bin/e2e.test -test.count=1 -test.timeout=20m -test.run="^TestNCCLTestsOverAMesh$"`, "sh", tree)
}
