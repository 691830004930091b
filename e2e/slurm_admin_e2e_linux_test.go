//go:build linux

package e2e

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestSlurmBesideAdministrators: what administrators and other users of a cluster do meanwhile: comments, large jobs that wait, a busy
// node with a report of its own health, reservations, nodes drained by health, and two applies at once. A rollback drains as well.
func TestSlurmBesideAdministrators(t *testing.T) {
	together(t)
	c := slurmHosts(t, "")
	idle := func() {
		t.Helper()
		c.on(t, "a", "", `until [ "$(sinfo -h -p all -N -o '%T %E' | tr -d '*' | sort -u)" = "idle none" ]; do sleep 0.2; done`)
	}
	c.declare(t, "wave = 2", 9000)

	// A comment stands after the reason in what scontrol prints.
	c.on(t, "a", "", `scontrol update nodename=d comment="rack 7" extra="x y"`)
	c.coordinate(t, "apply", "-auto-approve", "/root/f.hcl").want(t, 0, "ping")
	idle()

	t.Run("a large job waits", func(t *testing.T) {
		small := c.hold(t, "gpu3", 1, "sleep 1000")
		large := c.submit(t, "--nodes=4", "--exclusive", "--wrap=true")
		c.on(t, "a", "", `until squeue -h -j "$1" -o %r | grep -q .; do sleep 0.1; done; sleep 2`, large)
		c.coordinate(t, "plan", "-detailed-exitcode", "-host=a", "-host=b", "/root/f.hcl").want(t, 0)
		c.on(t, "a", "", `scancel "$1"`, large)
		c.on(t, "a", "", `scancel "$1"`, small)
		idle()
	})

	t.Run("a busy node has reported its health", func(t *testing.T) {
		program, err := os.ReadFile(bin)
		if err != nil {
			t.Fatal(err)
		}
		c.on(t, "c", string(program), "cat > /var/fabricform; chmod 755 /var/fabricform; /var/fabricform health -slurm -max-drained 1")
		job := c.hold(t, "gpu3", 16, "sleep 1000")
		a := c.coordinate(t, "plan", "/root/f.hcl")
		a.want(t, 4, "busy (job "+job+"): not read; fabricform health, ", "s ago: as it was applied")
		c.on(t, "a", "", `scancel "$1"`, job)
		idle()
	})

	t.Run("a node that health has drained is repaired in a reservation", func(t *testing.T) {
		c.on(t, "d", "", "ip link set rail0 mtu 8000")
		c.on(t, "a", "", `scontrol update nodename=d state=drain reason="fabricform: health: nic.rail0: mtu is 8000, wanted 9000"`)
		c.coordinate(t, "plan", "/root/f.hcl").want(t, 4, "it is drained (fabricform: health: nic.rail0: mtu is 8000, wanted 9000)", "docs/slurm.md")
		c.on(t, "a", "", strings.ReplaceAll(repairLines(t), "gpu001", "d")+"\nuntil sinfo -h -n d -o %T | grep -q maint; do sleep 0.2; done")
		c.coordinate(t, "plan", "/root/f.hcl").want(t, 4, "it is reserved; set slurm.reservation")
		other := c.submit(t, "--nodelist=d", "--wrap=true")
		c.declare(t, "reservation = \"repair\"", 9000)
		c.coordinate(t, "apply", "-auto-approve", "-host=d", "/root/f.hcl").want(t, 0, "8000 → 9000")
		if s := c.on(t, "a", "", `squeue -h -j "$1" -o %T`, other); s != "PENDING\n" {
			t.Errorf("a job ran in the reservation: %q", s)
		}
		c.on(t, "a", "", `while squeue -h -n fabricform | grep -q .; do sleep 0.1; done; scontrol delete reservationname=repair; while squeue -h | grep -q .; do sleep 0.1; done`)
		idle()
	})

	t.Run("two applies at once", func(t *testing.T) {
		c.declare(t, "wave = 2", 8000)
		first := exec.Command(bin, "lab", "exec", c.fabric, "a", "--", "timeout", "300", bin, "apply", "-auto-approve", "/root/f.hcl")
		first.Env = append(os.Environ(), "XDG_STATE_HOME="+c.state, "NO_COLOR=1")
		var said strings.Builder
		first.Stdout, first.Stderr = &said, &said
		if err := first.Start(); err != nil {
			t.Fatal(err)
		}
		c.on(t, "a", "", `until squeue -h -n fabricform -t running | grep -q .; do sleep 0.02; done`)
		second := c.coordinate(t, "apply", "-auto-approve", "/root/f.hcl")
		if err := first.Wait(); err != nil {
			t.Errorf("the first apply: %v: %s", err, said.String())
		}
		// The second finds the first at its drain, at its work, or, on a busy machine, done since the second's plan.
		if all := second.out + second.err; second.code == 0 || !strings.Contains(all, "another run of fabricform is at work") &&
			!strings.Contains(all, "it is drained (fabricform apply") && !strings.Contains(all, "changed since the plan was made") {
			t.Errorf("the second apply: exit %d", second.code)
		}
		idle()
		c.coordinate(t, "plan", "-detailed-exitcode", "/root/f.hcl").want(t, 0)
	})

	t.Run("a rollback drains", func(t *testing.T) {
		job := c.hold(t, "b", 1, "until [ -e /tmp/go ]; do sleep 0.2; done")
		c.on(t, "a", "", `(timeout 300 "$1" rollback -auto-approve /root/f.hcl; echo "exit $?") >/run/rollback.log 2>&1 </dev/null &
until grep -q "waiting for job $2" /run/rollback.log; do ! grep '^exit' /run/rollback.log || exit 1; sleep 0.1; done`, bin, job)
		c.on(t, "b", "", "touch /tmp/go")
		c.on(t, "a", "", `until grep '^exit' /run/rollback.log; do sleep 0.1; done; cat /run/rollback.log; grep -q '^exit 0' /run/rollback.log`)
		if state, _ := c.ended(t, job); state != "COMPLETED" {
			t.Errorf("the job is %s", state)
		}
		idle()
		for _, n := range slurmNodes {
			if mtu := c.on(t, n.name, "", "cat /sys/class/net/rail0/mtu"); mtu != "9000\n" {
				t.Errorf("host %s has MTU %s", n.name, mtu)
			}
		}
	})

	// interrupted starts an apply that waits for a job on d, and runs a program of sh once its nodes are drained; $p is the apply.
	interrupted := func(program string) string {
		t.Helper()
		c.declare(t, "wave = 2", 8500)
		job := c.hold(t, "d", 1, "sleep 1000")
		said := c.on(t, "a", "", `: >/run/apply.log # what the run before this one said is not waited for
"$1" apply -auto-approve /root/f.hcl >/run/apply.log 2>&1 & p=$!
until grep -q "waiting for job" /run/apply.log; do sleep 0.1; done
ctld=$(pgrep -x slurmctld)
kill -STOP $ctld
`+program+`
wait $p || echo "exit $?"; cat /run/apply.log; kill -CONT $ctld`, bin)
		c.on(t, "a", "", `scancel "$1"; while squeue -h | grep -q .; do sleep 0.1; done`, job)
		return said
	}
	t.Run("slurmctld is away when nodes are to be resumed", func(t *testing.T) {
		interrupted(`kill -INT $p; sleep 40; kill -CONT $ctld`)
		idle()
	})
	t.Run("interrupted twice", func(t *testing.T) {
		said := interrupted(`kill -INT $p; sleep 1; kill -INT $p`)
		const cure = "scontrol update nodename=b,d state=undrain"
		if !strings.Contains(said, "Nodes that this command drained: b, d. ") || !strings.Contains(said, cure) {
			t.Errorf("it does not say which nodes stay drained: %s", said)
		}
		c.on(t, "a", "", cure)
		idle()
	})
}

// repairLines returns the commands of docs/slurm.md by which a node that health has drained is reserved.
func repairLines(t *testing.T) string {
	t.Helper()
	for _, b := range blocks(readPage(t, "../docs/slurm.md")) {
		if text := strings.Join(b.lines, "\n"); strings.HasPrefix(text, "scontrol create reservation") {
			return text
		}
	}
	t.Fatal("docs/slurm.md does not say how to repair a drained node")
	return ""
}
