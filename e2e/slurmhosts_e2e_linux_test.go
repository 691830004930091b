//go:build linux

package e2e

import (
	"crypto/rand"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// slurmFabric is what the coordinator on host a reads: the hosts are reached by Slurm, whose network is none of the fabric's cables.
const slurmFabric = `
slurm {
  %s
}
host "a" {
  nic "rail0" {
    netdev = "rail0"
    mtu    = %[2]d
  }
}
host "b" {
  address = "10.77.0.2"
  nic "rail0" {
    netdev = "rail0"
    mtu    = %[2]d
  }
}
host "c" {
  address = "gpu3"
  nic "rail0" {
    netdev = "rail0"
    mtu    = %[2]d
  }
}
host "d" {
  nic "rail0" {
    netdev = "rail0"
    mtu    = %[2]d
  }
}
link "ab" {
  endpoints = [host.a.nic.rail0, host.b.nic.rail0]
  subnet    = "10.50.0.0/24"
}
link "cd" {
  endpoints = [host.c.nic.rail0, host.d.nic.rail0]
  subnet    = "10.50.1.0/24"
}
`

// sharing are the partitions of a cluster whose administrators can run steps beside jobs that have all processors of a node.
const sharing = "PartitionName=all Nodes=ALL Default=YES OverSubscribe=FORCE:1\nPartitionName=share Nodes=ALL OverSubscribe=FORCE:4"

// slurmHosts starts a lab whose hosts are nodes of Slurm, by a network beside the cables between a and b and between c and d.
func slurmHosts(t *testing.T, groups string) slurmCluster {
	t.Helper()
	var cables strings.Builder
	for i, ends := range []string{"ab", "cd"} {
		fmt.Fprintf(&cables, "link %q {\n  endpoints = [host.%c.nic.rail0, host.%c.nic.rail0]\n  subnet = \"10.50.%d.0/24\"\n}\n", ends, ends[0], ends[1], i)
	}
	return slurmCabled(t, slurmCluster{hosts: slurmNodes}, cables.String(), groups)
}

// slurmCabled starts a lab whose hosts are nodes of Slurm, by a network beside those cables.
func slurmCabled(t *testing.T, c slurmCluster, cables, groups string) slurmCluster {
	t.Helper()
	installed(t, "slurmctld", "slurmd", "munged", "sbatch")
	var text strings.Builder
	var members []string
	for i, n := range c.hosts {
		fmt.Fprintf(&text, "host %q {\n  nic \"rail0\" {\n    netdev = \"rail0\"\n  }\n  nic \"slurm\" {\n    netdev      = \"eth0\"\n    host_number = %d\n  }\n}\n",
			n.name, i+1)
		members = append(members, "host."+n.name+".nic.slurm")
	}
	fmt.Fprintf(&text, "network \"slurm\" {\n  members = [%s]\n  subnet  = \"10.77.0.0/24\"\n}\n", strings.Join(members, ", "))
	text.WriteString(cables)
	c.fabric = filepath.Join(t.TempDir(), "cluster.hcl")
	if err := os.WriteFile(c.fabric, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	c.state = labUpFor(t, c.fabric)
	c.startSlurm(t, func(int) string { return "eth0" }, sharing, groups)
	return c
}

// declare writes the fabric that the coordinator reads.
func (c slurmCluster) declare(t *testing.T, slurm string, mtu int) {
	t.Helper()
	c.on(t, "a", fmt.Sprintf(slurmFabric, slurm, mtu), `cat > /root/f.hcl`)
}

// coordinate runs fabricform on host a.
func (c slurmCluster) coordinate(t *testing.T, args ...string) answer {
	t.Helper()
	return tryCommand(t, c.state, exec.Command(bin, append([]string{"lab", "exec", c.fabric, c.hosts[0].name, "--", "timeout", "300", bin}, args...)...))
}

// hold starts a job on a host's node, and returns its ID.
func (c slurmCluster) hold(t *testing.T, node string, processors int, program string) (id string) {
	t.Helper()
	id = c.submit(t, "--nodelist="+node, "--nodes=1", fmt.Sprintf("--cpus-per-task=%d", processors), "--wrap="+program)
	c.on(t, c.hosts[0].name, "", `until squeue -h -t running -j "$1" | grep -q .; do sleep 0.05; done`, id)
	return id
}

// states returns the states of all nodes, and the reasons of those that have one.
func (c slurmCluster) states(t *testing.T) string {
	t.Helper()
	return strings.ReplaceAll(c.on(t, c.hosts[0].name, "", `sinfo -h -p all -N -o "%N %T %E"`), "* ", " ") // a * marks a node until the next ping
}

// TestSlurmReachesHosts plans, applies and finds drift on nodes of a real Slurm, without SSH. Jobs are waited for.
func TestSlurmReachesHosts(t *testing.T) {
	together(t)
	c := slurmHosts(t, "")
	c.declare(t, "wave = 2", 9000)
	c.coordinate(t, "plan", "/root/f.hcl").want(t, 0, "Plan: ")
	c.idle(t)
	c.coordinate(t, "apply", "-auto-approve", "/root/f.hcl").want(t, 0, "ping")
	c.idle(t)
	c.coordinate(t, "plan", "-detailed-exitcode", "/root/f.hcl").want(t, 0)
	c.coordinate(t, "verify", "/root/f.hcl").want(t, 0, "throughput")
	for _, n := range slurmNodes {
		if left := c.on(t, n.name, "", "ls /var/tmp | grep -E '^fabricform-[A-Z2-7]{26}'; ls /var/lib/fabricform/helpers | wc -l"); left != "1\n" {
			t.Errorf("host %s has %q: want one installed helper, and nothing that was sent", n.name, left)
		}
	}
	c.on(t, "d", "", "ip link set rail0 mtu 8000")
	c.coordinate(t, "plan", "-detailed-exitcode", "/root/f.hcl").want(t, 2, "8000 → 9000")

	// A job runs on d: the apply drains the node, and waits until the job has ended by itself.
	job := c.hold(t, "d", 1, "sleep 12")
	c.coordinate(t, "verify", "-only", "tcp", "/root/f.hcl").want(t, 4, "unreachable d: busy (job "+job+")", "b → a")
	c.coordinate(t, "apply", "-auto-approve", "/root/f.hcl").want(t, 0, "d: waiting for job "+job)
	if state, _ := c.ended(t, job); state != "COMPLETED" {
		t.Errorf("the job is %s", state)
	}
	c.idle(t)
	if s := c.states(t); s != "a idle none\nb idle none\nd idle none\ngpu3 idle none\n" {
		t.Errorf("not all is as before: %s", s)
	}
	c.coordinate(t, "plan", "-detailed-exitcode", "/root/f.hcl").want(t, 0)

	// Without its node's munge, a helper says why it ends. The others are read.
	c.on(t, "d", "", "mount --bind /dev/null /usr/bin/unmunge")
	c.coordinate(t, "plan", "/root/f.hcl").want(t, 4, "d: unreachable", "decode the credential", "a, b, c as declared")
	c.on(t, "d", "", "umount /usr/bin/unmunge")

	// From a node that is not the controller, the way of another node to the controller is fenced, too.
	fence := `host "d" {
  route "ctl" {
    nic = nic.rail0
    to  = "10.77.0.1/32"
    via = "10.50.1.1"
  }`
	c.on(t, "b", strings.Replace(fmt.Sprintf(slurmFabric, "", 9000), `host "d" {`, fence, 1), `cat > /root/f.hcl`)
	from := exec.Command(bin, "lab", "exec", c.fabric, "b", "--", bin, "plan", "-host=c", "-host=d", "/root/f.hcl")
	tryCommand(t, c.state, from).want(t, 1, "would carry the replies of your connection by Slurm to 10.77.0.1")
}

// TestSlurmJobsAreNotDisturbed shows what an apply does where jobs do not end.
func TestSlurmJobsAreNotDisturbed(t *testing.T) {
	together(t)
	c := slurmHosts(t, "")
	c.declare(t, "wave = 2\n  drain_timeout = \"3s\"", 9000)
	part := c.hold(t, "b", 1, "sleep 1000")
	whole := c.hold(t, "gpu3", 16, "sleep 1000")
	t.Run("a plan does not wait", func(t *testing.T) {
		c.coordinate(t, "plan", "/root/f.hcl").want(t, 4, "busy (job "+whole+"): not read", "mtu")
		c.declare(t, "partition = \"share\"", 9000)
		c.coordinate(t, "plan", "/root/f.hcl").want(t, 0, "a, b, c, d  (4 hosts")
	})
	t.Run("a job that does not end", func(t *testing.T) {
		c.declare(t, "partition = \"share\"\n  wave = 2\n  drain_timeout = \"3s\"", 9000)
		a := c.coordinate(t, "apply", "-auto-approve", "/root/f.hcl")
		a.want(t, 4, "given back to jobs: a, c", "job "+whole+" did not end within 3s")
		if s := c.states(t); strings.Contains(s, "drain") {
			t.Errorf("nodes stay drained: %s", s)
		}
		c.on(t, "b", "", "[ $(cat /sys/class/net/rail0/mtu) = 1500 ]")
	})
	t.Run("the coordinator is killed", func(t *testing.T) {
		c.declare(t, "partition = \"share\"\n  wave = 2", 9000)
		c.on(t, "a", "", `"$1" apply -auto-approve /root/f.hcl & until sinfo -h -p all -t drain -o %D | grep -q .; do sleep 0.05; done; kill -9 $!`, bin)
		left := ""
		for _, word := range strings.Fields(c.states(t)) {
			if strings.HasPrefix(word, "nodename=") {
				left += " " + word
			}
		}
		if left != " nodename=a nodename=gpu3" {
			t.Fatalf("the reasons do not say how to end them: %s", c.states(t))
		}
		c.on(t, "a", "", "scontrol update nodename=a,gpu3 state=undrain; while squeue -h -n fabricform | grep -q .; do sleep 0.1; done")
	})
	t.Run("too many drained nodes", func(t *testing.T) {
		c.on(t, "a", "", `scontrol update nodename=d state=drain reason="a fan is broken"`)
		c.declare(t, "partition = \"share\"\n  max_drained = 1", 9000)
		c.coordinate(t, "apply", "-auto-approve", "/root/f.hcl").want(t, 1, "a fan is broken", "max_drained is 1")
		if s := c.states(t); strings.Count(s, "drain") != 1 || !strings.Contains(s, "a fan is broken") {
			t.Errorf("other nodes are drained: %s", s)
		}
	})
	for _, job := range []string{part, whole} {
		if out := c.on(t, "a", "", `squeue -h -j "$1" -o %T`, job); out != "RUNNING\n" {
			t.Errorf("job %s is %q", job, out)
		}
	}
}

// freezer is where this machine's control groups are by which a job's processes are found and frozen (cgroup v1).
const freezer = "/sys/fs/cgroup/freezer"

// TestSlurmStepsEndAndHostsRevert: Slurm tracks processes by control groups, and kills all that is in a step's when the step ends. In the
// middle of an apply, the step is cancelled, or slurmstepd is killed; the guardians have left its group, and the hosts revert.
func TestSlurmStepsEndAndHostsRevert(t *testing.T) {
	together(t)
	if _, err := os.Stat(filepath.Join(freezer, "cgroup.procs")); err != nil {
		t.Skipf("this machine has no control groups of version 1: %v", err)
	}
	groups := "fabricform-e2e-" + rand.Text()
	t.Cleanup(func() { // after the lab's end
		for _, n := range slurmNodes {
			var all []string
			_ = filepath.WalkDir(filepath.Join(freezer, groups+n.name), func(path string, d fs.DirEntry, err error) error {
				if err == nil && d.IsDir() {
					all = append(all, path)
				}
				return nil
			})
			for _, group := range slices.Backward(all) {
				_ = os.Remove(group) // one that is not empty stays, and says so in the next listing
			}
		}
	})
	c := slurmHosts(t, groups)
	c.declare(t, "wave = 2", 9000)
	for i, how := range []struct{ name, end string }{
		{"the job is cancelled", "scancel --name=fabricform"},
		{"all of it is killed at once", "kill -9 $p $(pgrep slurmstepd); scancel --name=fabricform"},
	} {
		t.Run(how.name, func(t *testing.T) {
			c.on(t, "a", "", `"$1" apply -auto-approve -lease=8s /root/f.hcl >/run/log 2>&1 & p=$!
until [ "$(cat /sys/class/net/rail0/mtu)" = 9000 ]; do sleep 0.01; done
kill -STOP $p
`+how.end+`
sleep 1; kill -9 $p 2>/dev/null; wait $p || true
`, bin)
			for _, host := range []string{"a", "c"} {
				if left := c.on(t, host, "", `pgrep -f "[ ]agent --dial-back" || true; grep -h freezer /proc/$(pgrep -f "guard watc[h]")/cgroup`); !strings.HasSuffix(left, "/fabricform\n") {
					t.Errorf("on host %s, the guardian is not in a group of its own: %q", host, left)
				}
			}
			for _, host := range []string{"a", "c"} {
				said := c.on(t, host, "", `while pgrep -f "guard watc[h]" >/dev/null; do sleep 0.1; done
cat /sys/class/net/rail0/mtu; grep -l '"state": *"reverted"' /var/lib/fabricform/transactions/*.json | wc -l`)
				if said != fmt.Sprintf("1500\n%d\n", i+1) {
					t.Errorf("host %s did not revert: %q", host, said)
				}
			}
			c.on(t, "a", "", `scontrol update nodename=a,gpu3 state=undrain`)
		})
	}
}

// TestSlurmWithoutRoot: the coordinator is an ordinary user, whose steps start the helper by the sudo rule of docs/slurm.md. Such a user may read
// and measure; the one as whom slurmctld runs may also drain.
func TestSlurmWithoutRoot(t *testing.T) {
	together(t)
	installed(t, "sudo")
	c := slurmHosts(t, "")
	program, err := os.ReadFile(bin)
	if err != nil {
		t.Fatal(err)
	}
	c.on(t, "a", string(program), "cat > /var/fabricform; chmod 755 /var/fabricform")
	c.on(t, "a", fmt.Sprintf(slurmFabric, "wave = 2", 9000), "cat > /var/f.hcl")
	for _, n := range slurmNodes {
		c.on(t, n.name, "", "useradd -m -u 64124 deploy")
	}
	as := func(args ...string) answer {
		t.Helper()
		return tryCommand(t, c.state, exec.Command(bin, append([]string{"lab", "exec", c.fabric, "a", "--", "setpriv", "--reuid=64124", "--regid=64124", "--clear-groups",
			"env", "HOME=/home/deploy", "timeout", "300", "/var/fabricform"}, args...)...))
	}

	c.on(t, "a", fmt.Sprintf(slurmFabric, "sudo = false", 9000), "cat > /var/root.hcl")
	as("plan", "/var/root.hcl").want(t, 4, "the helper needs root, and slurm.sudo is false")
	as("plan", "/var/f.hcl").want(t, 4, "sudo does not start it", "docs/slurm.md")
	c.idle(t)
	for _, n := range slurmNodes {
		c.on(t, n.name, sudoRules(t), "cat > /etc/sudoers.d/fabricform; chmod 440 /etc/sudoers.d/fabricform; visudo -cq")
		if left := c.on(t, n.name, "", "ls /var/tmp /var/lib/fabricform 2>/dev/null || true"); strings.Contains(left, "fabricform-") {
			t.Errorf("host %s keeps what was sent: %s", n.name, left)
		}
	}
	for range 2 { // the second one finds the program installed
		as("plan", "/var/f.hcl").want(t, 0, "Plan: ", "mtu")
		c.idle(t)
	}
	for _, n := range slurmNodes {
		if left := c.on(t, n.name, "", "ls /var/tmp; ls -l /var/lib/fabricform/helpers | grep -c root"); left != "1\n" {
			t.Errorf("host %s has %q: want one helper of root, and nothing that was sent", n.name, left)
		}
	}
	as("apply", "-auto-approve", "/var/f.hcl").want(t, 1, "drain node", "may not drain")
	c.idle(t)
	if s := c.states(t); strings.Contains(s, "drain") {
		t.Errorf("nodes stay drained: %s", s)
	}

	c.on(t, "a", "", `kill $(cat /run/slurm/slurmctld.pid); while pgrep -x slurmctld >/dev/null; do sleep 0.1; done`)
	for _, n := range slurmNodes {
		c.on(t, n.name, "", `sed -i 's/^SlurmUser=.*/SlurmUser=deploy/' /etc/slurm/slurm.conf
kill $(cat /run/slurm/slurmd.pid); while pgrep -x slurmd >/dev/null; do sleep 0.1; done`)
	}
	c.on(t, "a", "", `chown -R deploy /run/slurm/state /var/log/slurm; chown deploy /run/slurm; slurmctld; until scontrol ping | grep -q UP; do sleep 0.2; done`)
	for _, n := range slurmNodes {
		c.on(t, n.name, "", "slurmd")
	}
	c.idle(t)
	as("apply", "-auto-approve", "/var/f.hcl").want(t, 0, "ping")
	c.idle(t)
	if s := c.states(t); s != "a idle none\nb idle none\nd idle none\ngpu3 idle none\n" {
		t.Errorf("not all is as before: %s", s)
	}
	as("plan", "-detailed-exitcode", "/var/f.hcl").want(t, 0)
}

// sudoRules returns the rules of docs/slurm.md by which the user deploy starts helpers.
func sudoRules(t *testing.T) (rules string) {
	t.Helper()
	for _, b := range blocks(readPage(t, "../docs/slurm.md")) {
		if b.kind == "sudoers" {
			rules += strings.Join(b.lines, "\n") + "\n"
		}
	}
	return rules
}
