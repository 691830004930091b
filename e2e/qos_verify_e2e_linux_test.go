package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestVerifyProvesAClass: note 003's class is counted on priority 5 at both ends, and a cable that remarks, pause frames and an end without
// PFC are named.
func TestVerifyProvesAClass(t *testing.T) {
	long(t)
	file := filepath.Join(t.TempDir(), "qos.hcl")
	if err := os.WriteFile(file, []byte(qosFabric), 0o644); err != nil {
		t.Fatal(err)
	}
	state := vmLabFor(t, file)
	try(t, state, "apply", "-lab", "-auto-approve", "-no-verify", file).want(t, 0, "✓ a.qos.rail0", "✓ b.qos.rail0")
	verify := func(code int, only string, want ...string) {
		t.Helper()
		a := try(t, state, "verify", "-lab", "-only", only, file)
		t.Log(a.out + a.err)
		a.want(t, code, want...)
		t.Logf("figure: verify -only %s exits with %d, and says %q", only, code, want)
	}
	fault := func(f string) { t.Helper(); try(t, state, "lab", "fault", file, "rail0", f).want(t, 0) }

	verify(0, "qos", "PFC", "on priority 5 at both ends", "traffic class 160")

	verify(0, "tcp", "tcp", "class", "on priority 5 at both ends", "traffic class 160")

	verify(0, "verbs", "class", "on priority 5 at both ends")

	fault("pause=5")
	verify(0, "verbs", "a switch pauses a.rail0", "PFC frames of priority 5", "a switch pauses b.rail0")
	fault("none")

	fault("remark=48")
	verify(3, "verbs", "they left a.rail0 on priority 5 and came in at b.rail0 on priority")
	verify(3, "qos", "came in at b.rail0 on priority", "a switch between them has changed their DSCP (it remarks)")
	fault("none")

	inside(t, state, file, "b", "dcb", "pfc", "set", "dev", "eth1", "prio-pfc", "all:off")
	inside(t, state, file, "b", "sh", "-c", carrierIsBack)
	verify(3, "qos", "b.rail0 has no PFC on priority 5, so it drops packets where it must pause a.rail0", "on priority 5 at both ends")
	inside(t, state, file, "b", "dcb", "app", "replace", "dev", "eth1", "dscp-prio", "40:3")
	verify(3, "qos", "b.rail0 received them on priority 3: its map leads DSCP 40 to priority 3")
}

// carrierIsBack waits for the link, which a change of PFC takes down.
var carrierIsBack = strings.TrimPrefix(lossless[strings.LastIndex(lossless, "for i in"):], "\n")
