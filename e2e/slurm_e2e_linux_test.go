//go:build linux

package e2e

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// slurmHost is a host of a lab, which is a node of a Slurm cluster as well.
type slurmHost struct {
	name, node string // as the lab and as Slurm know it
	netdev     string
}

// slurmNodes are four hosts. Their interfaces have different names, and host c is known to Slurm as gpu3, by its hostname.
var slurmNodes = []slurmHost{{"a", "a", "rail0"}, {"b", "b", "ib0"}, {"c", "gpu3", "rail0"}, {"d", "d", "rail0"}}

// slurmValue has what shells, Slurm and srun --export give a meaning.
const slurmValue = "/tmp/it's \"$(touch x)\" `y` \\n %s $Z # é: a, b; c"

// slurmNode makes a lab's host a node of Slurm; $1 is its number, $2 its interface, $3 munge's key and $4 are the partitions. With $5, the
// name of a control group, Slurm tracks processes by control groups below that one. $6 is the host's name for Slurm, and stdin has /etc/hosts.
// All that it writes is the host's own: /etc, /run, /var and /dev of a lab's hosts are. The first node has the controller. The
// hosts have 2 GPUs, and the third one 3; Slurm is told of $7.
const slurmNode = `set -eu
ip link set "$2" up; ip addr add "10.77.0.$1/24" dev "$2"
cat > /etc/hosts
mount -t tmpfs gpus /proc/driver
mkdir -p /proc/driver/nvidia/gpus/0000:01:00.0 /proc/driver/nvidia/gpus/0000:02:00.0
mount -t tmpfs cgroup /sys/fs/cgroup # without one, slurmd does not start
mkdir -p /dev/shm /etc/munge /etc/slurm /run/munge /run/slurm/state /var/lib/munge /var/log/munge /var/log/slurm
mount -t tmpfs shm /dev/shm
for i in 0 1 2 3 4 5 6 7; do ln -s null /dev/nvidia$i; done
printf '%s' "$3" > /run/key
chmod 400 /run/key
chown 0:0 /run/munge /var/lib/munge /var/log/munge
munged --force --key-file=/run/key
echo CgroupPlugin=cgroup/v1 > /etc/slurm/cgroup.conf
track=${5:+cgroup}
echo "Name=gpu File=/dev/nvidia[0-$(($7-1))]" > /etc/slurm/gres.conf
cat > /etc/slurm/slurm.conf <<EOF
ClusterName=test
SlurmctldHost=$(sed -n 's/^10.77.0.1 //p' /etc/hosts)
SlurmUser=root
SlurmdUser=root
StateSaveLocation=/run/slurm/state
SlurmdSpoolDir=/run/slurm/spool
SlurmdPidFile=/run/slurm/slurmd.pid
SlurmctldPidFile=/run/slurm/slurmctld.pid
SlurmdLogFile=/var/log/slurm/slurmd.log
SlurmctldLogFile=/var/log/slurm/slurmctld.log
ProctrackType=proctrack/${track:-linuxproc}
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=batch_sched_delay=0,sched_interval=1
SlurmdParameters=config_overrides
GresTypes=gpu
NodeName=$(sed -n 's/^10.77.* //p' /etc/hosts | paste -sd,) CPUs=16 Gres=gpu:$7
$4
EOF
[ "$6" = "$(hostname)" ] || hostname "$6.example"
case $1 in
1) slurmctld ;;
3) mkdir /proc/driver/nvidia/gpus/0000:03:00.0 ;;
esac
[ "$5" ] || exec slurmd
mkdir /sys/fs/cgroup/freezer
mount -t cgroup -o freezer freezer /sys/fs/cgroup/freezer
mkdir "/sys/fs/cgroup/freezer/$5"
echo $$ > "/sys/fs/cgroup/freezer/$5/cgroup.procs"
umount /sys/fs/cgroup/freezer
exec unshare --cgroup sh -c 'mount -t cgroup -o freezer freezer /sys/fs/cgroup/freezer && exec slurmd'
`

// slurmMPI is a rank of MPI that says who it is to MPI, and to torch.
const slurmMPI = `
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv) {
  int rank, size, sum;
  char name[64];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  gethostname(name, sizeof name);
  printf("rank %d of %d on %s, sum %d, RANK %s of %s\n", rank, size, name, sum, getenv("RANK"), getenv("WORLD_SIZE"));
  MPI_Finalize();
}
`

// slurmTorch is a rank that meets the others as torch's ranks do: at MASTER_ADDR and MASTER_PORT. The first one prints the environment
// of all.
const slurmTorch = `
import json, os, socket, time
me, at = dict(os.environ), (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if me["RANK"] == "0":
    server = socket.create_server(at)
    server.settimeout(60)
    print(json.dumps(me))
    for _ in range(int(me["WORLD_SIZE"]) - 1):
        print(server.accept()[0].makefile().read())
else:
    for _ in range(600):
        try:
            peer = socket.create_connection(at)
            break
        except ConnectionRefusedError: # rank 0 does not listen yet
            time.sleep(0.1)
    peer.sendall(json.dumps(me).encode())
`

// installed skips the test where a program is missing; CI installs all of them.
func installed(t *testing.T, programs ...string) {
	t.Helper()
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatalf("%s is missing, and CI installs it", program)
			}
			t.Skipf("%s is not installed", program)
		}
	}
}

// slurmCluster is a lab whose hosts run Slurm.
type slurmCluster struct {
	state, fabric string
	hosts         []slurmHost
	gpus          int // of each node, as Slurm is told; 0: 8, so that jobs need not wait for each other
}

// on runs a program of sh on a host, with arguments, and returns what it said.
func (c slurmCluster) on(t *testing.T, host, stdin, program string, args ...string) string {
	t.Helper()
	return c.within(t, "120", host, stdin, program, args...)
}

// within is on with another limit, in seconds.
func (c slurmCluster) within(t *testing.T, seconds, host, stdin, program string, args ...string) string {
	t.Helper()
	cmd := exec.Command(bin, append([]string{"lab", "exec", c.fabric, host, "--", "timeout", seconds, "sh", "-c", program, "sh"}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	a := tryCommand(t, c.state, cmd)
	a.want(t, 0)
	return a.out
}

// slurmUp starts a lab and Slurm in it.
func slurmUp(t *testing.T) slurmCluster {
	t.Helper()
	installed(t, "slurmctld", "slurmd", "munged", "sbatch", "mpicc.openmpi")
	var text strings.Builder
	var members []string
	for i, n := range slurmNodes {
		fmt.Fprintf(&text, "host %q {\n  nic \"rail0\" {\n    netdev      = %q\n    host_number = %d\n  }\n}\n", n.name, n.netdev, i+1)
		members = append(members, "host."+n.name+".nic.rail0")
	}
	fmt.Fprintf(&text, "network \"rail0\" {\n  members = [%s]\n  subnet  = \"10.77.0.0/24\"\n  role    = \"training\"\n}\n", strings.Join(members, ", "))
	fmt.Fprintf(&text, "nccl {\n  write = false\n  env = {\n    NCCL_DEBUG_FILE = %q\n  }\n}\n", slurmValue)
	c := slurmCluster{fabric: filepath.Join(t.TempDir(), "slurm.hcl"), hosts: slurmNodes}
	if err := os.WriteFile(c.fabric, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	c.state = labUpFor(t, c.fabric)
	c.startSlurm(t, func(i int) string { return slurmNodes[i].netdev }, "PartitionName=all Nodes=ALL Default=YES", "")
	return c
}

// startSlurm makes the hosts nodes of Slurm, each by its interface, and waits until all are idle. With groups, each has a control group of
// that name and its own.
func (c slurmCluster) startSlurm(t *testing.T, netdev func(i int) string, partitions, groups string) {
	t.Helper()
	key := rand.Text() + rand.Text()
	names := "127.0.0.1 localhost\n"
	for i, n := range c.hosts {
		names += fmt.Sprintf("10.77.0.%d %s\n", i+1, n.node)
	}
	for i, n := range c.hosts {
		group := groups
		if groups != "" {
			group += n.name
		}
		c.on(t, n.name, names, slurmNode, fmt.Sprint(i+1), netdev(i), key, partitions, group, n.node, fmt.Sprint(cmp.Or(c.gpus, 8)))
	}
	c.idle(t)
}

// idle waits until all nodes are.
func (c slurmCluster) idle(t *testing.T) {
	t.Helper()
	c.on(t, c.hosts[0].name, "", `until [ "$(sinfo -h -p all -o %D -t idle)" = "$1" ]; do sleep 0.1; done`, fmt.Sprint(len(c.hosts)))
}

// everywhere writes a program to the same path on all hosts.
func (c slurmCluster) everywhere(t *testing.T, path, text string) {
	t.Helper()
	for _, n := range slurmNodes {
		c.on(t, n.name, text, `cat > "$1"; chmod 755 "$1"`, path)
	}
}

// submit hands a job to Slurm, from host a.
func (c slurmCluster) submit(t *testing.T, args ...string) (id string) {
	t.Helper()
	return strings.TrimSpace(c.on(t, c.hosts[0].name, "", `cd /tmp; exec sbatch --parsable --output=/tmp/out-%j "$@"`, args...))
}

// ended waits for a job's end, and returns its state and its output, which lies on its first node.
func (c slurmCluster) ended(t *testing.T, id string) (state, out string) {
	t.Helper()
	said := c.on(t, c.hosts[0].name, "", `while squeue -h -j "$1" | grep -q .; do sleep 0.05; done; scontrol -o show job "$1"`, id)
	first := ""
	for word := range strings.FieldsSeq(said) {
		if v, found := strings.CutPrefix(word, "JobState="); found {
			state = v
		} else if v, found := strings.CutPrefix(word, "BatchHost="); found {
			first = v
		}
	}
	return state, c.on(t, first, "", `cat "/tmp/out-$1"`, id)
}

// noBinding is what srun says of --cpu-bind where slurmd binds no ranks (TaskPlugin=task/none).
const noBinding = "srun: cluster configuration lacks support for cpu binding\n"

// environments reads lines, each of which has the environment of one rank.
func environments(t *testing.T, text string) (out []map[string]string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if line == noBinding {
			continue
		}
		env := map[string]string{}
		if err := json.Unmarshal([]byte(line), &env); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		out = append(out, env)
	}
	return out
}

// TestSlurmJobsStart runs what `render` prints in a real Slurm with munge: ranks of MPI, which find each other by PMIx, and ranks that
// meet as torch's do, on some of the nodes; and the TaskProlog.
func TestSlurmJobsStart(t *testing.T) {
	together(t)
	c := slurmUp(t)
	mpi := filepath.Join(t.TempDir(), "mpi")
	cc := exec.Command("mpicc.openmpi", "-O1", "-o", mpi, "-x", "c", "-")
	cc.Stdin = strings.NewReader(slurmMPI)
	if out, err := cc.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	raw, err := os.ReadFile(mpi)
	if err != nil {
		t.Fatal(err)
	}
	c.everywhere(t, "/tmp/mpi", string(raw))
	c.everywhere(t, "/tmp/torch.py", slurmTorch)

	render := func(format string) string {
		t.Helper()
		a := try(t, c.state, "render", "nccl", "-lab", "-format", format, "-host", "a", "-host", "b", "-host", "c", c.fabric)
		a.want(t, 0)
		return a.out
	}
	script := render("slurm")
	if !strings.Contains(script, "#SBATCH --ntasks-per-node=2\n#SBATCH --gpus-per-node=2\n") {
		t.Error("it does not ask for the GPUs that each host has")
	}
	c.on(t, "a", script, `cat > /tmp/job`)
	whole := c.submit(t, "--nodelist=a,b,gpu3", "/tmp/job", "/tmp/mpi")
	part := c.submit(t, "--nodes=2", "--nodelist=b,gpu3", "--cpus-per-task=2", "/tmp/job", "python3", "/tmp/torch.py")
	foreign := c.submit(t, "--nodes=2", "--nodelist=d,gpu3", "/tmp/job", "touch", "/tmp/started")

	state, out := c.ended(t, whole)
	for rank := range 6 {
		want := fmt.Sprintf("rank %d of 6 on %s, sum 15, RANK %d of 6\n", rank, []string{"a", "b", "gpu3.example"}[rank/2], rank)
		if state != "COMPLETED" || !strings.Contains(out, want) {
			t.Errorf("MPI's job is %s, and does not say %q", state, want)
		}
	}

	state, out = c.ended(t, part)
	ranks := environments(t, out)
	if state != "COMPLETED" || len(ranks) != 4 {
		t.Fatalf("torch's job is %s, with %d ranks", state, len(ranks))
	}
	met := map[string]bool{}
	for _, env := range ranks {
		own := map[string]string{"SLURMD_NODENAME": "b", "NCCL_SOCKET_IFNAME": "=ib0", "GLOO_SOCKET_IFNAME": "ib0"}
		if env["RANK"] > "1" {
			own = map[string]string{"SLURMD_NODENAME": "gpu3", "NCCL_SOCKET_IFNAME": "=rail0", "GLOO_SOCKET_IFNAME": "rail0"}
		}
		maps.Copy(own, map[string]string{"MASTER_ADDR": "10.77.0.2", "WORLD_SIZE": "4", "NCCL_DEBUG_FILE": slurmValue})
		for name, want := range own {
			if env[name] != want {
				t.Errorf("%s of rank %s is %q, want %q", name, env["RANK"], env[name], want)
			}
		}
		met["rank "+env["RANK"]+", local "+env["LOCAL_RANK"]] = true
	}
	for _, want := range []string{"rank 0, local 0", "rank 1, local 1", "rank 2, local 0", "rank 3, local 1"} {
		if !met[want] {
			t.Errorf("%s is missing: %v", want, met)
		}
	}

	state, out = c.ended(t, foreign)
	if want := "Slurm chose node d, which is not a host of fabric default: name nodes that are, as in sbatch --nodes=… --nodelist=a,b,gpu3\n"; state != "FAILED" || out != want {
		t.Errorf("on a node that the fabric does not have, the job is %s", state)
	}
	c.on(t, "c", "", "! [ -e /tmp/started ]")

	c.everywhere(t, "/tmp/prolog", render("slurm-prolog"))
	for _, n := range slurmNodes {
		c.on(t, n.name, "", "echo TaskProlog=/tmp/prolog >> /etc/slurm/slurm.conf")
	}
	const tell = `exec srun --nodes=4 python3 -c 'import json, os; print(json.dumps({n: v for n, v in os.environ.items() if n[:4] in ("NCCL", "GLOO") or n == "SLURMD_NODENAME"}))'`
	wanted := map[string]string{"a": "=rail0", "b": "=ib0", "gpu3": "=rail0"}
	for _, env := range environments(t, c.on(t, "a", "", "scontrol reconfigure; "+tell)) {
		node := env["SLURMD_NODENAME"]
		if value := env["NCCL_DEBUG_FILE"]; env["NCCL_SOCKET_IFNAME"] != wanted[node] || (value == slurmValue) != (node != "d") {
			t.Errorf("the TaskProlog gave %s %q", node, env)
		}
		delete(wanted, node)
	}
	if len(wanted) > 0 {
		t.Errorf("no task ran on %v", wanted)
	}
}
