//go:build linux

package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// packets is a job on both ends of a link: rank 1 sends numbered packets to rank 0, which says how many it got, and in which time. The
// receiver's buffer holds all of them, so that a busy processor loses none. The file /run/begun of the receiver says that they flow.
const packets = `
import os, socket, struct, sys, time
to, n = (sys.argv[1], 9999), int(sys.argv[2])
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(20)
s.setsockopt(socket.SOL_SOCKET, 33, 8 << 20) # SO_RCVBUFFORCE
if os.environ["SLURM_PROCID"] == "0":
    s.bind(to)
    got, first = set(), None
    try:
        while len(got) < n:
            number = struct.unpack("!I", s.recv(4))[0]
            if first is None:
                first = time.monotonic()
                open("/run/begun", "w").close()
            got.add(number)
    except TimeoutError:
        pass
    print(len(got), time.monotonic() - (first or time.monotonic()), flush=True)
else:
    time.sleep(1) # until the receiver listens
    for number in range(n):
        s.sendto(struct.pack("!I", number), to)
        time.sleep(0.01)
`

// packetsSent is how many packets a job sends, in 8 s: they take 600 KB of the receiver's buffer, in the kernel's way of counting.
const packetsSent = 800

// remembered is how long slurmctld may take to write down what it did (SAVE_MAX_WAIT in src/slurmctld/state_save.c): killed before, it forgets
// a job that it has just started, and kills its steps.
const remembered = 6 * time.Second

// pair is a link of slurmFabric, whose hosts are nodes that a job takes.
type slurmPair struct{ host, nodes, address string }

var slurmPairs = []slurmPair{{"a", "a,b", "10.50.0.1"}, {"d", "gpu3,d", "10.50.1.2"}}

// traffic submits a job on a pair, and waits until its packets flow.
func (c slurmCluster) traffic(t *testing.T, p slurmPair) (id string) {
	t.Helper()
	c.on(t, p.host, "", "rm -f /run/begun")
	id = c.submit(t, "--nodes=2", "--no-requeue", "--nodelist="+p.nodes, fmt.Sprintf("--wrap=exec srun --ntasks=2 --ntasks-per-node=1 python3 /tmp/packets.py %s %d", p.address, packetsSent))
	c.on(t, p.host, "", "until [ -e /run/begun ]; do sleep 0.02; done")
	return id
}

// arrived waits for the end of such a job, and returns the seconds from its first packet to its last one. A slurmctld that was killed may
// learn only later, from slurmd, that the job is not there any more, and says NODE_FAIL.
func (c slurmCluster) arrived(t *testing.T, id string, also ...string) float64 {
	t.Helper()
	state, out := c.ended(t, id)
	f := strings.Fields(out)
	if state != "COMPLETED" && !slices.Contains(also, state) || len(f) != 2 || f[0] != strconv.Itoa(packetsSent) {
		t.Errorf("job %s is %s, and of %d packets it counted: %s", id, state, packetsSent, out)
		return 0
	}
	seconds, err := strconv.ParseFloat(f[1], 64)
	if err != nil {
		t.Error(err)
	}
	return seconds
}

// TestSlurmKills kills the coordinator, slurmctld, a slurmd or a helper at random points of 50 applies, each of which waits for a job on one of
// the links. Afterwards no node is drained, but those of a coordinator that was killed, and those of which a killed slurmctld has forgotten that they were
// resumed, or forgotten the job of the helpers, so that the coordinator did not see how it ended: their reason has the command that resumes them.
// It may also have forgotten that the job of the helpers has ended, which is cancelled here. Each host is as an apply has made it, with no transaction open, and the jobs' packets have all arrived.
func TestSlurmKills(t *testing.T) {
	long(t)
	seed, rounds := uint64(23), 50
	if text := os.Getenv("FABRICFORM_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seed = n
	}
	if text := os.Getenv("FABRICFORM_ROUNDS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		rounds = n
	}
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("figure: the seed is %d; FABRICFORM_SEED sets it", seed)
	c := slurmHosts(t, "")
	c.everywhere(t, "/tmp/packets.py", packets)
	declare := func(mtu int) { c.declare(t, "partition = \"share\"\n  wave = 2", mtu) }
	declare(7999)
	c.coordinate(t, "apply", "-auto-approve", "-no-verify", "/root/f.hcl").want(t, 0)
	c.idle(t)

	var alone, beside series
	for range 5 {
		alone.add("s", c.arrived(t, c.traffic(t, slurmPairs[0])))
	}
	declare(8000)
	job := c.traffic(t, slurmPairs[0])
	time.Sleep(remembered)
	begun := time.Now()
	c.coordinate(t, "apply", "-auto-approve", "-no-verify", "/root/f.hcl").want(t, 0)
	whole := time.Since(begun)
	c.arrived(t, job)

	killed, forgotten := map[string]int{}, 0
	for i := range rounds {
		victim := []string{"the coordinator", "slurmctld", "a slurmd", "a helper"}[random.IntN(4)]
		p, at := slurmPairs[random.IntN(2)], time.Duration(random.Float64()*float64(whole))
		host := c.hosts[random.IntN(len(c.hosts))]
		pause := time.Duration(random.Float64() * float64(2*time.Second))
		name := fmt.Sprintf("%02d: %s after %.2f s", i+1, victim, at.Seconds())
		passed := t.Run(name, func(t *testing.T) {
			declare(8001 + i)
			job := c.traffic(t, p)
			time.Sleep(remembered)
			apply := exec.Command(bin, "lab", "exec", c.fabric, "a", "--", "sh", "-c", `echo $$ >/run/pid; exec "$1" apply -auto-approve -no-verify -lease=8s /root/f.hcl`, "sh", bin)
			ended := make(chan answer, 1)
			go func() { ended <- tryCommand(t, c.state, apply) }()
			time.Sleep(at)
			switch victim {
			case "the coordinator":
				c.on(t, "a", "", `kill -9 "$(cat /run/pid)" || true`) // it may have ended
			case "slurmctld":
				// That a job has ended, which it has missed or forgotten, it learns when nodes register, from 20 s after its start on
				// (_purge_missing_jobs in src/slurmctld/job_mgr.c).
				c.on(t, "a", "", `kill -9 "$(pgrep -x slurmctld)"; sleep "$1"; slurmctld; sleep 25; scontrol reconfigure`, fmt.Sprint(pause.Seconds()))
			case "a slurmd":
				c.on(t, host.name, "", `kill -9 "$(pgrep -x slurmd)"; sleep "$1"; slurmd`, fmt.Sprint(pause.Seconds()))
			case "a helper":
				c.on(t, host.name, "", `pkill -9 -f "[ ]agent --dial-back" || true`) // it may not have begun, or have ended
			}
			select {
			case <-ended:
			case <-time.After(5 * time.Minute):
				t.Fatal("the apply does not end")
			}
			for _, h := range c.hosts {
				c.on(t, h.name, "", `while pgrep -f "guard watc[h]" >/dev/null; do sleep 0.1; done`)
			}
			if victim == "slurmctld" {
				beside.add("s", c.arrived(t, job, "NODE_FAIL"))
			} else {
				beside.add("s", c.arrived(t, job))
			}
			if victim == "slurmctld" && c.on(t, "a", "", "squeue -h -n fabricform; scancel --name=fabricform") != "" {
				forgotten++
			}
			c.on(t, "a", "", `while squeue -h -n fabricform | grep -q .; do sleep 0.1; done`)
			switch victim {
			case "the coordinator":
				c.resumeAsTold(t)
			case "slurmctld":
				forgotten += c.resumeAsTold(t)
			}
			c.idle(t)
			if s := c.states(t); strings.Contains(s, "drain") || strings.Contains(s, "fabricform") {
				t.Errorf("nodes stay drained:\n%s", s)
			}
			for _, h := range c.hosts {
				c.on(t, h.name, "", `said=$("$1" health 2>&1 >/dev/null) && [ -z "$said" ] || { echo "$said"; exit 1; }`, bin) // without a verdict, it says why
			}
		})
		if !passed {
			t.Fatal("the rounds after it would not begin as they should")
		}
		killed[victim]++
	}
	declare(7000)
	c.coordinate(t, "apply", "-auto-approve", "-no-verify", "/root/f.hcl").want(t, 0)
	c.coordinate(t, "plan", "-detailed-exitcode", "/root/f.hcl").want(t, 0)
	for _, victim := range []string{"the coordinator", "slurmctld", "a slurmd", "a helper"} {
		t.Logf("figure: %s was killed %d times: nothing stayed drained or half-applied", victim, killed[victim])
	}
	t.Logf("figure: slurmctld, when it was killed, forgot %d times that a node was resumed or a job of fabricform had ended", forgotten)
	t.Logf("figure: %d packets of %d jobs all arrived", packetsSent*len(beside.values["s"]), len(beside.values["s"]))
	base := slices.Sorted(slices.Values(alone.values["s"]))[len(alone.values["s"])/2]
	var ratios series
	for _, v := range beside.values["s"] {
		ratios.add("time of a job beside applies and kills / alone", v/base)
	}
	for _, v := range alone.values["s"] {
		ratios.add("time of a job alone / median of those", v/base)
	}
	ratios.log(t, "jobs")
}

// howToEnd matches the command that a reason ends with.
var howToEnd = regexp.MustCompile(`^scontrol update nodename=[a-z0-9]+ state=undrain$`)

// resumeAsTold runs the commands that the reasons of drained nodes end with, and returns how many there were.
func (c slurmCluster) resumeAsTold(t *testing.T) (n int) {
	t.Helper()
	for line := range strings.Lines(c.states(t)) {
		if !strings.Contains(line, "fabricform apply ") {
			continue
		}
		_, command, _ := strings.Cut(strings.TrimSpace(line), ": scontrol ")
		if command = "scontrol " + command; !howToEnd.MatchString(command) {
			t.Errorf("the reason does not say how to end it: %s", line)
			continue
		}
		c.on(t, "a", "", command)
		n++
	}
	return n
}
