//go:build linux

package e2e

import (
	"strings"
	"testing"
)

// TestSlurmHoldsOnlyWhatIsWorkedOn: jobs that want whole nodes start on those of later waves while an apply waits for a job in its first one, and on all
// nodes while it waits for an answer. The apply then waits for them.
func TestSlurmHoldsOnlyWhatIsWorkedOn(t *testing.T) {
	together(t)
	installed(t, "script")
	c := slurmHosts(t, "")
	const untilGo = "until [ -e /run/go ]; do sleep 0.1; done"
	// runs starts an exclusive job, and returns its ID once it runs.
	runs := func(args ...string) string {
		t.Helper()
		job := c.submit(t, append(args, "--exclusive", "--wrap="+untilGo)...)
		c.on(t, "a", "", `until squeue -h -t running -j "$1" | grep -q .; do sleep 0.1; done`, job)
		return job
	}
	// holds returns the nodes on which fabricform has processors.
	holds := func() string {
		t.Helper()
		return c.on(t, "a", "", `squeue -h -n fabricform -t running -o %N`)
	}
	// done waits for the end of an apply.
	done := func() string {
		t.Helper()
		return c.on(t, "a", "", `until grep '^exit' /run/log; do sleep 0.1; done; cat /run/log; grep -q '^exit 0' /run/log`)
	}

	t.Run("later waves", func(t *testing.T) {
		c.declare(t, "wave = 1", 9000)
		job := c.hold(t, "a", 1, untilGo)
		c.on(t, "a", "", `(timeout 300 "$1" apply -auto-approve /root/f.hcl; echo "exit $?") >/run/log 2>&1 </dev/null &
until grep -q "! a: waiting for job $2" /run/log; do ! grep '^exit' /run/log || exit 1; sleep 0.1; done`, bin, job)
		whole := runs("--nodelist=d")
		if on := holds(); on != "a\n" {
			t.Errorf("fabricform holds %q", on)
		}
		c.on(t, "a", "", "touch /run/go")
		c.on(t, "a", "", `until grep -q "! d: waiting for job $1" /run/log; do ! grep '^exit' /run/log || exit 1; sleep 0.1; done`, whole)
		if on := holds(); on != "" {
			t.Errorf("fabricform holds %q", on)
		}
		if state, _ := c.ended(t, c.submit(t, "--nodelist=b", "--exclusive", "--wrap=true")); state != "COMPLETED" { // beside ours, which waits at the top
			t.Errorf("a job on another node is %s", state)
		}
		c.on(t, "d", "", "touch /run/go")
		done()
		for _, id := range []string{job, whole} {
			if state, _ := c.ended(t, id); state != "COMPLETED" {
				t.Errorf("job %s is %s", id, state)
			}
		}
		for _, n := range slurmNodes {
			if mtu := c.on(t, n.name, "", "cat /sys/class/net/rail0/mtu; rm -f /run/go"); mtu != "9000\n" {
				t.Errorf("host %s has MTU %s", n.name, mtu)
			}
		}
		c.idle(t)
		c.coordinate(t, "plan", "-detailed-exitcode", "/root/f.hcl").want(t, 0)
	})

	t.Run("a question", func(t *testing.T) {
		c.declare(t, "wave = 2", 8000)
		c.on(t, "a", "", `mkfifo /run/answer; sleep 300 >/run/answer 2>/dev/null &
(timeout 300 script -qefc "$1 apply /root/f.hcl" /dev/null </run/answer; echo; echo "exit $?") >/run/log 2>&1 &
until grep -q 'Type "yes"' /run/log; do ! grep '^exit' /run/log || exit 1; sleep 0.1; done`, bin)
		runs("--nodes=4")
		if on := holds(); on != "" {
			t.Errorf("fabricform holds %q", on)
		}
		for _, n := range slurmNodes {
			c.on(t, n.name, "", "touch /run/go")
		}
		c.on(t, "a", "", "echo yes >/run/answer")
		done()
		c.idle(t)
		c.coordinate(t, "plan", "-detailed-exitcode", "/root/f.hcl").want(t, 0)
	})

	t.Run("killed while slurmctld is away", func(t *testing.T) {
		c.declare(t, "wave = 1\n  time_limit = \"1m\"", 8500)
		job := c.hold(t, "a", 1, "sleep 1000")
		c.on(t, "a", "", `"$1" apply -auto-approve /root/f.hcl >/run/log 2>&1 </dev/null & p=$!
until grep -q "waiting for job $2" /run/log; do sleep 0.1; done
sleep 8 # slurmctld saves its state every 5 s
kill -9 $(cat /run/slurm/slurmctld.pid) $p $(pgrep -x srun) # as if the machine had lost power
slurmctld; until scontrol ping | grep -q UP; do sleep 0.2; done
squeue -h -n fabricform -t running -o %l | grep .`, bin, job)
		c.within(t, "200", "a", "", `sleep 15; squeue -h -n fabricform | grep . # nothing else ends it
while squeue -h -n fabricform | grep -q .; do sleep 1; done`)
		c.on(t, "a", "", `scancel "$1"; scontrol update nodename=a state=undrain; while squeue -h | grep -q .; do sleep 0.1; done`, job)
	})

	t.Run("ended by others", func(t *testing.T) {
		job := c.hold(t, "a", 1, "sleep 1000")
		said := c.on(t, "a", "", `"$1" apply -auto-approve /root/f.hcl >/run/log 2>&1 </dev/null & p=$!
until grep -q "waiting for job $2" /run/log; do sleep 0.1; done
squeue -h -n fabricform -t running -o %A; scancel -n fabricform; until grep -q "has ended" /run/log; do sleep 0.1; done
scancel "$2"; wait $p || true; cat /run/log`, bin, job)
		own, _, _ := strings.Cut(said, "\n")
		if !strings.Contains(said, "! job "+own+", by which this command holds a, has ended (CANCELLED)") {
			t.Error("it does not say that its job has ended")
		}
	})
}
