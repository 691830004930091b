//go:build linux

package e2e

import (
	"os/exec"
	"strings"
	"testing"
)

// slurmController starts a slurmctld in namespaces of its own, with the topology.conf on stdin and the nodes in $1, and prints the
// topology that it uses. It needs an address besides those of lo: Slurm resolves names with AI_ADDRCONFIG.
const slurmController = `set -u
exec 2>&1
mount -t tmpfs t /run; mount -t tmpfs t /etc/slurm
mkdir -p /run/munge /run/state
ip link set lo up; ip link add v0 type veth peer name v1; ip link set v0 up; ip addr add 10.77.0.1/24 dev v0
hostname ctl
cat > /etc/slurm/topology.conf
cat > /etc/slurm/slurm.conf <<'EOF'
ClusterName=x
SlurmctldHost=ctl(10.77.0.1)
SlurmUser=root
StateSaveLocation=/run/state
SlurmctldPidFile=/run/slurmctld.pid
SlurmctldLogFile=/run/log
TopologyPlugin=topology/tree
PartitionName=all Nodes=ALL Default=YES
EOF
i=1
for node in $1; do echo "NodeName=$node NodeAddr=10.77.0.$((i+1))" >> /etc/slurm/slurm.conf; i=$((i+1)); done
dd if=/dev/urandom of=/run/key bs=128 count=1 2>/dev/null; chmod 400 /run/key
echo 10.77.0.1 ctl > /run/hosts; mount --bind /run/hosts /etc/hosts
munged --force --key-file=/run/key --pid-file=/run/munge/pid --log-file=/run/munge/log --seed-file=/run/munge/seed
slurmctld -D >/dev/null 2>&1 &
for i in 1 2 3 4 5 6 7 8 9; do sleep 1; timeout 5 scontrol show topology > /run/topology 2>/dev/null && break; done
cat /run/topology
grep -i -E 'topology|switch|fatal|leaf' /run/log
exit 0
`

// TestSlurmTopologyStarts gives the rendered topology.conf to Slurm's own controller, and asks it what it has read.
func TestSlurmTopologyStarts(t *testing.T) {
	together(t)
	installed(t, "slurmctld", "munged", "scontrol", "unshare")
	state := t.TempDir()
	for _, c := range []struct{ file, nodes, want string }{
		{"../examples/training-cluster.hcl", "gpu00 gpu01 gpu02 gpu03 gpu04 gpu05 gpu06 gpu07 gpu08 gpu09 gpu10 gpu11 gpu12 gpu13 gpu14 gpu15",
			"SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=gpu[00-15]\n"},
		{"../examples/routed-leaf.hcl", "node0 node1 node2 node3", "SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=node0\n" +
			"SwitchName=leaf2 Level=0 LinkSpeed=1 Nodes=node1\nSwitchName=leaf3 Level=0 LinkSpeed=1 Nodes=node2\n" +
			"SwitchName=leaf4 Level=0 LinkSpeed=1 Nodes=node3\nSwitchName=spine1 Level=1 LinkSpeed=1 Nodes=node[0-3] Switches=leaf[1-4]\n"},
		{"../cmd/fabricform/testdata/islands.hcl", "a b c d e f login", "SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=a,b\nSwitchName=leaf2 Level=0 LinkSpeed=1 Nodes=c\n" +
			"SwitchName=leaf3 Level=0 LinkSpeed=1 Nodes=d\nSwitchName=spine1 Level=1 LinkSpeed=1 Nodes=a,b,c,d Switches=leaf[1-3]\n" +
			"SwitchName=leaf4 Level=0 LinkSpeed=1 Nodes=e,f\n"},
	} {
		a := try(t, state, "render", "slurm-topology", c.file)
		a.want(t, 0)
		cmd := exec.Command("timeout", "60", "unshare", "--mount", "--net", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc",
			"sh", "-c", slurmController, "sh", c.nodes)
		cmd.Stdin = strings.NewReader(a.out)
		out, err := cmd.CombinedOutput()
		// Slurm also says what the comments say: login is on no switch.
		got := strings.ReplaceAll(string(out), "error: WARNING: switches lack access to 1 nodes: login", "")
		if err != nil || !strings.HasPrefix(got, c.want) || strings.Contains(got, "fatal") || strings.Contains(got, "error") {
			t.Errorf("%s: %v\n%s\n%s", c.file, err, a.out, out)
		}
	}
}
