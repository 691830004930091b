//go:build linux

package slurm

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fabricform/fabricform/transport"
)

// shown is what scontrol of Slurm 22.05 printed of four nodes; the reason of the last one was written to mislead.
const shown = `NodeName=n1 Arch=x86_64 CoresPerSocket=1  CPUAlloc=1 CPUEfctv=2 CPUTot=2 CPULoad=6.77 AvailableFeatures=(null) ActiveFeatures=(null) Gres=(null) NodeAddr=10.7.0.1 NodeHostName=host1 Version=22.05.8 OS=Linux 6.18.44 #1 SMP PREEMPT_DYNAMIC @0  RealMemory=1000 AllocMem=0 FreeMem=13886 Sockets=2 Boards=1 State=MIXED+DRAIN ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A Partitions=all,admin  BootTime=2026-11-22T08:24:05 Reason=fabricform apply 1 by root@a: nic.rail0 mtu is 1500, wanted 9000 [root@2026-11-22T08:24:05]
NodeName=n2 Arch=x86_64 CPUAlloc=2 CPUTot=2 NodeAddr=n2 NodeHostName=n2 RealMemory=1000 State=ALLOCATED Partitions=all
NodeName=n3 Arch=x86_64 CPUAlloc=0 CPUTot=2 NodeAddr=n3 NodeHostName=n3 RealMemory=1000 State=IDLE+NOT_RESPONDING Partitions=all
NodeName=n4 Arch=x86_64 CPUAlloc=0 CPUTot=2 NodeAddr=n4 NodeHostName=n4 RealMemory=1000 State=DOWN+DRAIN Partitions=admin Reason=a fan State=IDLE NodeName=-x [root@2026-11-22T08:24:05]
`

func TestNodesAreRead(t *testing.T) {
	got, err := parseNodes(shown)
	if err != nil || len(got) != 4 {
		t.Fatalf("%d nodes, %v", len(got), err)
	}
	n := got[0]
	if n.name != "n1" || n.addr != "10.7.0.1" || n.hostname != "host1" || n.allocated != 1 || n.total != 2 || n.memory != 1000 || n.busy() ||
		!n.has("DRAIN") || n.has("IDLE") || !slices.Equal(n.partitions, []string{"all", "admin"}) ||
		n.reason != "fabricform apply 1 by root@a: nic.rail0 mtu is 1500, wanted 9000" {
		t.Errorf("n1 is %+v", n)
	}
	// Slurm prints a node's comment and its extra text behind the reason.
	const reason = "fabricform apply 1 by root@a: nic.n mtu"
	for _, more := range []string{"", " Comment=rack 7", " Comment=by [ann@2026-01-02T03:04:05] Extra=x"} {
		if n, err := parseNodes("NodeName=n1 State=IDLE+DRAIN Reason=" + reason + " [root@2026-11-27T17:00:00]" + more + "\n"); err != nil || n[0].reason != reason {
			t.Errorf("%q: %+v, %v", more, n, err)
		}
	}
	if !got[1].busy() || !got[2].silent() || got[3].has("IDLE") || got[3].name != "n4" || got[3].reason != "a fan State=IDLE NodeName=-x" {
		t.Errorf("the others are %+v", got[1:])
	}
	for _, line := range []string{"NodeName=-x State=IDLE", "NodeName=a,b State=IDLE", "NodeName=a;b State=IDLE", "NodeName=a[1-2] State=IDLE"} {
		if _, err := parseNodes(line); err == nil {
			t.Errorf("%s is a node", line)
		}
	}
	// What follows is the end of a comment of n1, as if n2 were there.
	if _, err := parseNodes("NodeName=n1 State=IDLE Comment=rack 7\nNodeName=n2 NodeAddr=10.7.0.66 State=IDLE\nNodeName=n2 State=IDLE+DRAIN\n"); err == nil || !strings.Contains(err.Error(), "node n2 twice") {
		t.Errorf("a comment is taken for a node: %v", err)
	}
	if none, err := parseNodes("No nodes in the system\n\x00=\n=\n"); err != nil || len(none) != 0 {
		t.Errorf("%v, %v", none, err)
	}
}

func TestGPUsAreCounted(t *testing.T) {
	for gres, want := range map[string]int{"": 0, "(null)": 0, "gpu:8": 8, "gpu:h100:8(S:0-1)": 8, "nic:2,gpu:a:2(S:0,1),gpu:b:3": 5, "gpu": 0, "gpu:many": 0, "gpus:4": 0} {
		if got := gpus(gres); got != want {
			t.Errorf("%q has %d GPUs, want %d", gres, got, want)
		}
	}
}

func TestAHostIsFoundByNameOrAddress(t *testing.T) {
	all := nodes{{name: "n1", addr: "10.7.0.1", hostname: "host1"}, {name: "10.7.0.1", addr: "n9"}, {name: "n3", addr: "127.0.0.5"}}
	for address, want := range map[string]string{"n1": "n1", "host1": "n1", "10.7.0.1": "10.7.0.1", "127.0.0.5": "n3", "n4": ""} {
		if n, found := all.find(t.Context(), address); n.name != want || found != (want != "") {
			t.Errorf("%s is node %q, %v; want %q", address, n.name, found, want)
		}
	}
}

// TestNoNodeDialsFromALoopbackAddress: Debian's installer writes one for the machine itself.
func TestNoNodeDialsFromALoopbackAddress(t *testing.T) {
	for addr, want := range map[string]string{"127.0.1.1": "it has none", "::1": "it has none", "10.7.0.1": ""} {
		n := node{name: "n1", addr: addr}
		if err := n.resolve(t.Context()); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", addr, n.addrs, err)
		}
	}
}

func TestNodesOnWhichNothingStartsSayWhy(t *testing.T) {
	for state, want := range map[string]string{
		"IDLE": "", "MIXED": "", "ALLOCATED": "", "COMPLETING": "", "IDLE+DRAIN": "it is drained (a fan)", "DOWN": "its state is DOWN (a fan)",
		"IDLE+NOT_RESPONDING": "NOT_RESPONDING", "IDLE+MAINTENANCE+RESERVED": "it is reserved",
	} {
		n := node{name: "n1", states: strings.Split(state, "+"), reason: "a fan"}
		err := n.unusable(transport.Target{Name: "a", Slurm: &transport.Slurm{}})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", state, err, want)
		}
	}
	reserved := node{states: []string{"IDLE", "MAINTENANCE", "RESERVED"}}
	if err := reserved.unusable(transport.Target{Slurm: &transport.Slurm{Reservation: "ours"}}); err != nil {
		t.Error(err)
	}
}

func TestNoMoreNodesAreDrainedThanAllowed(t *testing.T) {
	all := nodes{
		{name: "n1", states: []string{"IDLE"}, partitions: []string{"all"}}, {name: "n2", states: []string{"IDLE"}, partitions: []string{"all", "other"}},
		{name: "n3", states: []string{"IDLE", "DRAIN"}, partitions: []string{"other"}}, {name: "n4", states: []string{"DOWN"}, partitions: []string{"other"}},
	}
	for _, c := range []struct {
		nodes []string
		most  int
		want  string
	}{
		{[]string{"n1"}, 1, ""}, {[]string{"n1", "n2"}, 2, "partition other would have 3"}, {[]string{"n1", "n2"}, 3, ""}, {[]string{"n1", "n2"}, 0, ""},
		{[]string{"n2"}, 2, "partition other would have 3 nodes that are drained or down (n2, n3, n4)"},
	} {
		targets := map[string]transport.Target{}
		for _, n := range c.nodes {
			targets[n] = transport.Target{Slurm: &transport.Slurm{MaxDrained: c.most}}
		}
		err := roomFor(all, targets)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, %d: %v; want %q", c.nodes, c.most, err, c.want)
		}
	}
}

func TestReasonsArePlain(t *testing.T) {
	got := reasonText("fabricform: mtu 1500 → 9000\x1b[31m\n\"'`"+strings.Repeat("x", 1000), "if that run has ended", "n1")
	if !strings.HasPrefix(got, "fabricform: mtu 1500 ? 9000?[31m????xxx") || !strings.HasSuffix(got, "x...; if that run has ended: scontrol update nodename=n1 state=undrain") ||
		len(got) > mostReason+100 {
		t.Error(got)
	}
}

func TestWhatProgramsSayIsRead(t *testing.T) {
	if a, err := localAddress(netip.MustParseAddr("127.0.0.1")); err != nil || a != netip.MustParseAddr("127.0.0.1") {
		t.Errorf("%s, %v", a, err)
	}
	var got []string
	l := &lines{line: func(s string) { got = append(got, s) }}
	for _, part := range []string{"a\nb", "c\n", strings.Repeat("x", 10_000), "\nd\ne"} {
		if n, err := l.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	if !slices.Equal(got, []string{"a", "bc", "d"}) {
		t.Errorf("%q", got)
	}
}

// TestWhatPeopleWrote: scontrol prints a comment after the reason, and more values after that.
func TestWhatPeopleWrote(t *testing.T) {
	for line, want := range map[string][2]string{
		"NodeName=n State=IDLE Partitions=all":                                                                {"", ""},
		"State=IDLE Comment=rack 7":                                                                           {"", "rack 7"},
		"State=IDLE+DRAIN Reason=a fan [ann@2026-11-22T08:24:05]":                                             {"a fan", ""},
		"State=IDLE+DRAIN Reason=a fan [ann@2026-11-22T08:24:05] Comment=rack 7 Extra={x=1} InstanceId=i":     {"a fan", "rack 7"},
		"State=IDLE+DRAIN Reason=a fan [2 of 3] Comment=no [ann@2026-11-22T08:24:05] Comment=rack [7] Extra=": {"a fan [2 of 3] Comment=no", "rack [7]"},
		"State=DOWN Reason=Not responding":                                                                    {"Not responding", ""},
	} {
		if reason, comment := written(line); reason != want[0] || comment != want[1] {
			t.Errorf("%s: %q, %q", line, reason, comment)
		}
	}
	n := node{comment: reportPrefix + time.Now().Add(-time.Hour).Format(time.RFC3339) + " mtu is 1500, wanted \x1b9000"}
	if got := n.heldBy([]string{"7"}).Error(); !strings.HasPrefix(got, "busy (job 7): not read; fabricform health, 1h0m") || !strings.HasSuffix(got, "s ago: mtu is 1500, wanted �9000") {
		t.Error(got)
	}
	for _, comment := range []string{"", "rack 7", reportPrefix, reportPrefix + "yesterday x"} {
		if got := (node{comment: comment}).heldBy([]string{"7"}).Error(); got != "busy (job 7): not read" {
			t.Errorf("%q: %s", comment, got)
		}
	}
}
