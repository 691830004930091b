//go:build linux

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// scaleFabric is n hosts on one network. of is the block by which they are reached; with lab, they have the network of Slurm as well.
func scaleFabric(n int, of string, mtu int, lab bool) string {
	var text strings.Builder
	fmt.Fprintf(&text, `fabric "scale" {}

%s

host "h" {
  for_each = { for i in range(%d) : format("h%%02d", i + 1) => i + 1 }

  nic "rail" {
    netdev      = "eth1"
    host_number = each.value
  }
`, of, n)
	if lab {
		text.WriteString("  nic \"slurm\" {\n    netdev      = \"eth0\"\n    host_number = each.value\n  }\n")
	}
	fmt.Fprintf(&text, `}

network "rail" {
  members = [for h in values(host.h) : h.nic.rail]
  subnet  = "10.9.0.0/24"
  mtu     = %d
}
`, mtu)
	if lab {
		text.WriteString("\nnetwork \"slurm\" {\n  members = [for h in values(host.h) : h.nic.slurm]\n  subnet  = \"10.77.0.0/24\"\n}\n")
	}
	return text.String()
}

// slurmOf starts a lab of n hosts, which are nodes of Slurm and can be reached by SSH as well.
func slurmOf(t *testing.T, n int) slurmCluster {
	t.Helper()
	installed(t, "slurmctld", "slurmd", "munged", "sbatch")
	c := slurmCluster{fabric: filepath.Join(t.TempDir(), "scale.hcl")}
	for i := range n {
		name := fmt.Sprintf("h%02d", i+1)
		c.hosts = append(c.hosts, slurmHost{name, name, "eth0"})
	}
	if err := os.WriteFile(c.fabric, []byte(scaleFabric(n, "", 9000, true)), 0o600); err != nil {
		t.Fatal(err)
	}
	c.state = labUpFor(t, c.fabric)
	c.startSlurm(t, func(i int) string { return c.hosts[i].netdev }, sharing, "")
	return c
}

// declareScale writes the fabric that the coordinator reads, and the one for SSH on this machine.
func (c slurmCluster) declareScale(t *testing.T, mtu int) (ssh string) {
	t.Helper()
	n := len(c.hosts)
	c.on(t, c.hosts[0].name, scaleFabric(n, fmt.Sprintf("slurm {\n  wave = %d\n}", n/2), mtu, false), `cat > /root/f.hcl`)
	ssh = filepath.Join(t.TempDir(), "ssh.hcl")
	if err := os.WriteFile(ssh, []byte(scaleFabric(n, "ssh {\n  connect_timeout = \"60s\"\n}", mtu, false)), 0o600); err != nil {
		t.Fatal(err)
	}
	return ssh
}

// took is the time of a command, and the processor time of it and of the programs that it started and waited for.
type took struct{ wall, cpu time.Duration }

// timed runs fabricform where the coordinator is; it reaches the nodes by Slurm.
func (c slurmCluster) timed(t *testing.T, code int, args ...string) (took, answer) {
	t.Helper()
	return c.timing(t, code, append([]string{"lab", "exec", c.fabric, c.hosts[0].name, "--", "timeout", "600", bin}, args...)...)
}

// timing runs the program, which a lab's operator reaches hosts with by SSH.
func (c slurmCluster) timing(t *testing.T, code int, args ...string) (took, answer) {
	t.Helper()
	cmd := exec.Command(bin, args...)
	begun := time.Now()
	a := tryCommand(t, c.state, cmd)
	a.want(t, code)
	return took{time.Since(begun), processorTime(cmd)}, a
}

// busyProcessors keeps this machine's processors busy with twice as many programs, until the returned function is called.
func busyProcessors(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 2 * runtime.NumCPU() {
		all.Go(func() { _ = exec.CommandContext(ctx, "sh", "-c", "while :; do :; done").Run() }) // it is killed
	}
	return func() { cancel(); all.Wait() }
}

// TestSlurmScale takes 8 and 64 nodes of a real Slurm through what a cluster lives through: the helper is sent while the processors are busy,
// the first apply, drift, a node that is drained with its reason while a job runs there, and resumed. Beside it, SSH does the same to
// the same hosts.
func TestSlurmScale(t *testing.T) {
	long(t)
	for _, n := range []int{8, 64} {
		t.Run(fmt.Sprintf("%d nodes", n), func(t *testing.T) {
			c := slurmOf(t, n)
			say := func(what string, d took) {
				t.Logf("figure: %d nodes: %s: %.2f s, processor of the coordinator and its programs %.1f ms a host", n, what, d.wall.Seconds(), d.cpu.Seconds()*1000/float64(n))
			}
			c.declareScale(t, 9000)
			stop := busyProcessors(t)
			d, a := c.timed(t, 0, "plan", "/root/f.hcl")
			stop()
			a.want(t, 0, fmt.Sprintf("%d hosts", n))
			say("a plan that sends the helper, on busy processors", d)
			for _, h := range c.hosts {
				if left := c.on(t, h.name, "", "ls /var/tmp | grep -E '^fabricform-[A-Z2-7]{26}'; ls /var/lib/fabricform/helpers | wc -l"); left != "1\n" {
					t.Errorf("host %s has %q: want one installed helper, and nothing that was sent", h.name, left)
				}
			}
			c.idle(t)
			d, a = c.timed(t, 0, "apply", "-auto-approve", "-no-verify", "/root/f.hcl")
			a.want(t, 0, fmt.Sprintf("✓ h[01-%02d]  committed", n))
			say("the first apply, two waves", d)
			c.idle(t)
			c.timed(t, 0, "plan", "-detailed-exitcode", "/root/f.hcl")

			// Drift on the last node, where a job runs until the node is drained.
			last := c.hosts[n-1].name
			c.on(t, last, "", "ip link set eth1 mtu 8000")
			job := c.hold(t, last, 1, "until [ -e /run/go ]; do sleep 0.1; done")
			c.timed(t, 2, "plan", "-detailed-exitcode", "/root/f.hcl")
			reason := c.on(t, c.hosts[0].name, "", `"$1" apply -auto-approve -no-verify /root/f.hcl >/run/log 2>&1 & until sinfo -h -N -p all -n "$2" -t drain -o %E | grep .; do sleep 0.1; done`, bin, last)
			if !strings.HasPrefix(reason, "fabricform apply ") || !strings.Contains(reason, "nic.rail mtu is 8000, wanted 9000") {
				t.Errorf("the node is drained because of %q", reason)
			}
			c.on(t, last, "", "touch /run/go")
			if state, _ := c.ended(t, job); state != "COMPLETED" {
				t.Errorf("the job is %s", state)
			}
			c.on(t, c.hosts[0].name, "", `while pgrep -f "[a]pply -auto-approve" >/dev/null; do sleep 0.1; done; cat /run/log`)
			c.idle(t)
			if s := c.states(t); strings.Count(s, " idle none") != n {
				t.Errorf("not all is as before: %s", s)
			}
			c.timed(t, 0, "plan", "-detailed-exitcode", "/root/f.hcl")

			c.besideSSH(t, n)
			c.costsOfHealth(t)
		})
	}
}

// besideSSH changes all hosts by Slurm and by SSH in turn, with the helper in place.
func (c slurmCluster) besideSSH(t *testing.T, n int) {
	t.Helper()
	var s series
	lab := "-lab=scale"
	c.timing(t, 0, "plan", lab, c.declareScale(t, 9000)) // brings the helper of SSH
	per := func(d took) float64 { return d.cpu.Seconds() * 1000 / float64(n) }
	for round := range 3 {
		for way := range 2 {
			file := c.declareScale(t, 9001+2*round+way) // the same kind of change for both: higher by one
			plan, _ := c.timed(t, 0, "plan", "/root/f.hcl")
			ssh, _ := c.timing(t, 0, "plan", lab, file)
			s.add("plan by Slurm, s", plan.wall.Seconds())
			s.add("plan by SSH, s", ssh.wall.Seconds())
			s.add("plan: Slurm / SSH", plan.wall.Seconds()/ssh.wall.Seconds())
			s.add("plan: client's processor by Slurm, ms a host", per(plan))
			s.add("plan: client's processor by SSH, ms a host", per(ssh))
			if way == 0 {
				d, _ := c.timed(t, 0, "apply", "-auto-approve", "-no-verify", "/root/f.hcl")
				c.idle(t)
				s.add("apply by Slurm in two waves, s", d.wall.Seconds())
				s.add("apply: client's processor by Slurm, ms a host", per(d))
				continue
			}
			d, _ := c.timing(t, 0, "apply", lab, "-auto-approve", "-no-verify", file)
			s.add("apply by SSH at once, s", d.wall.Seconds())
			s.add("apply: client's processor by SSH, ms a host", per(d))
		}
	}
	s.log(t, fmt.Sprintf("%d nodes", n))
}

// costsOfHealth says what a node's check of itself takes.
func (c slurmCluster) costsOfHealth(t *testing.T) {
	t.Helper()
	const runs = 50
	said := c.on(t, c.hosts[1].name, "", fmt.Sprintf(`i=0; while [ $i -lt %d ]; do "$1" health >/dev/null || exit; i=$((i+1)); done; cat /proc/$$/stat`, runs), bin)
	fields := strings.Fields(said[strings.LastIndexByte(said, ')')+1:])
	ticks := 0
	for _, f := range fields[13:15] { // cutime and cstime, of the checks alone (proc_pid_stat(5))
		n, err := strconv.Atoi(f)
		if err != nil {
			t.Fatalf("%q: %v", said, err)
		}
		ticks += n
	}
	t.Logf("figure: health: %.1f ms of processor time for a check of a node (≤ 50), mean of %d", float64(ticks)*10/runs, runs)
}
