//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestACableHasTwoEnds: an MTU is not changed at one end of a cable while the host at the other is unreachable, or has
// drifted, unless that is allowed. The rest of the host is changed.
func TestACableHasTwoEnds(t *testing.T) {
	together(t)
	dir := t.TempDir()
	cable := func(mtu, probing int) string {
		host := "host %q {\n  sysctl = { \"net.ipv4.tcp_mtu_probing\" = %d }\n  nic \"rail0\" {\n    netdev = \"eth1\"\n  }\n}\n\n"
		text := "fabric \"cable\" {}\n\n" + fmt.Sprintf(host, "a", probing) + fmt.Sprintf(host, "b", probing) +
			fmt.Sprintf("link \"rail0\" {\n  endpoints = [host.a.nic.rail0, host.b.nic.rail0]\n  subnet    = \"10.1.0.0/30\"\n  mtu       = %d\n}\n", mtu)
		path := filepath.Join(dir, fmt.Sprintf("cable-%d.hcl", mtu))
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	before, after, plan, half := cable(3000, 1), cable(4200, 2), filepath.Join(dir, "tonight.plan"), filepath.Join(dir, "half.plan")
	state := labUpFor(t, before)
	is := func(mtu, probing string) {
		t.Helper()
		got := strings.Fields(inside(t, state, before, "a", "cat", "/sys/class/net/eth1/mtu", "/proc/sys/net/ipv4/tcp_mtu_probing"))
		if len(got) != 2 || got[0] != mtu || got[1] != probing {
			t.Errorf("a has MTU and probing %v, want %s and %s", got, mtu, probing)
		}
	}
	apply := func(args ...string) answer {
		return try(t, state, append([]string{"apply", "-lab", "-auto-approve", "-no-verify"}, args...)...)
	}
	apply(before).want(t, 0)

	inside(t, state, before, "b", "ip", "link", "set", "mgmt0", "down")
	try(t, state, "rollback", "-lab", "-auto-approve", before).want(t, 4, "is also on hosts that are unreachable: b. A rollback of a alone can break link rail0", "rollback -allow=half-links")
	is("3000", "1")
	apply("-report", filepath.Join(dir, "r.md"), after).want(t, 4, "link rail0: left out, because b is unreachable", "a: the changes of nic.rail0")
	is("3000", "2")
	inside(t, state, before, "a", "ping", "-c", "1", "-W", "5", "-M", "do", "-s", "2972", "10.1.0.2")
	if report, err := os.ReadFile(filepath.Join(dir, "r.md")); err != nil || !strings.Contains(string(report), "link rail0: left out") {
		t.Errorf("%v\n%s", err, report)
	}
	try(t, state, "plan", "-lab", "-out", half, after).want(t, 4, "link rail0: left out")
	inside(t, state, before, "b", "ip", "link", "set", "mgmt0", "up")
	apply("-allow=half-links", half).want(t, 4, "save a new plan once the missing hosts are reachable")

	try(t, state, "plan", "-lab", "-out", plan, after).want(t, 0)
	inside(t, state, before, "b", "ip", "link", "set", "eth1", "mtu", "3500")
	apply(plan).want(t, 5, "link rail0: left out, because b changed since the plan was saved")
	is("3000", "2")
	apply("-allow=half-links", plan).want(t, 5, "link rail0: changed at the other ends only")
	is("4200", "2")
	try(t, state, "apply", "-lab", "-auto-approve", after).want(t, 0, "Fabric verified")
}
