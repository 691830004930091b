//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestManagementPathIsMigrated moves the operator's own path, and rolls back if no connection
// succeeds over the new one.
func TestManagementPathIsMigrated(t *testing.T) {
	together(t)
	o := reachFromOutside(t)
	const old, moved, operator = "10.55.0.2", "10.55.0.77", "10.55.0.1"
	o.secondManagement("b", operator+"/24", old+"/24")
	nic := func(addr, more string) string {
		return fmt.Sprintf("  nic \"mgmt\" {\n    netdev    = \"mgmt0\"\n    addresses = [%q, %q]\n%s\n  }", addr+"/24", o.addr["b"]+"/31", more)
	}
	apply := func(fabric string, flags ...string) answer {
		return o.try(append(append([]string{"apply", "-auto-approve", "-no-verify", "-lease", longLease.String()}, flags...), fabric)...)
	}
	apply(o.fabric(old, "", "")).want(t, 0)
	time.Sleep(2 * time.Second) // duplicate address detection ends
	before := o.kernel()
	same := func(t *testing.T) {
		t.Helper()
		if d := cmp.Diff(before, o.kernel()); d != "" {
			t.Fatalf("something is not as it was: %s", d)
		}
	}

	t.Run("without the flag it is refused", func(t *testing.T) {
		o.t = t
		apply(o.fabric(old, "", nic(moved, ""))).want(t, 1, "carries your SSH connection", "-allow=management adds the new path", "Plan refused")
		apply(o.fabric(old, "", nic(moved, "")), "-allow=everything").want(t, 1, "unknown -allow everything; use one of management, driver-reload, reboot")
		same(t)
	})
	t.Run("an address that nobody reaches is taken back", func(t *testing.T) {
		o.t = t
		at := time.Now()
		apply(o.fabric(old, "", nic("10.77.0.9", "")), "-allow=management").want(t, 6, "moved to 10.77.0.9", "✗ b.connection.10.77.0.9: the host is unreachable at 10.77.0.9", "b  reverted")
		t.Logf("back %.2f s after apply was called", time.Since(at).Seconds())
		same(t)
	})
	t.Run("a route that leads the answers astray is taken back by the lease", func(t *testing.T) {
		o.t = t
		route := nic(old, "") + "\n  route \"operator\" {\n    nic = nic.mgmt\n    to  = \"" + operator + "/32\"\n    via = \"10.55.0.250\"\n  }"
		a := apply(o.fabric(old, "", route), "-allow=management", "-lease", shortLease.String())
		a.want(t, 6, "connection.10.55.0.2", "b  reverted: the lease of 5s expired")
		same(t)
	})
	t.Run("what moved comes back when another host fails", func(t *testing.T) {
		o.t = t
		stop := undoing(t, o.state, pair, "a", "192.168.99.1/30", "ens19f0np0")
		fabric := o.fabric(old, "", nic(moved, ""))
		rewrite(t, fabric, `"192.168.88.1/30"]`, `"192.168.88.1/30", "192.168.99.1/30"]`)
		a := apply(fabric, "-allow=management")
		stop()
		a.want(t, 6, "✓ b.connection."+moved, "did not stay", "b  reverted")
		same(t)
	})
	t.Run("the address moves, and stays", func(t *testing.T) {
		o.t = t
		fabric := o.fabric(old, "", nic(moved, ""))
		plan := filepath.Join(t.TempDir(), "move.plan")
		o.try("plan", "-allow=management", "-out", plan, fabric).want(t, 0, "moved to "+moved, "connection."+moved)
		o.try("apply", "-auto-approve", "-no-verify", plan).want(t, 0, "✓ b.connection."+moved, "b is now reachable at "+moved, "accepted a new connection")
		if out := inside(t, o.state, pair, "b", "ip", "-o", "-4", "addr", "show", "mgmt0"); strings.Contains(out, old+"/") || !strings.Contains(out, moved+"/24") {
			t.Fatalf("mgmt0 has %s", out)
		}
		o.try("plan", o.fabric(moved, "", nic(moved, ""))).want(t, 4, "is unknown")
		o.known(old, moved)
		o.try("plan", "-detailed-exitcode", o.fabric(moved, "", nic(moved, ""))).want(t, 0, "No changes")
	})
	t.Run("rollback goes where the host goes", func(t *testing.T) {
		o.t = t
		o.try("rollback", "-auto-approve", o.fabric(moved, "", nic(moved, ""))).want(t, 0, "b  reverted", "b is now reachable at "+old)
		same(t)
		o.try("history", o.fabric(old, "", "")).want(t, 0, "rollback")
	})
	t.Run("so it does while the apply waits", func(t *testing.T) {
		for command, code := range map[string]int{"rollback": 0, "confirm": 6} {
			o.t = t
			apply(o.fabric(old, "", nic(moved, "")), "-allow=management", "-confirm", "manual").want(t, 0, "pending until")
			if command == "confirm" { // nothing is confirmed that differs from what the apply made
				inside(t, o.state, pair, "b", "ip", "addr", "del", o.addr["b"]+"/31", "dev", "mgmt0")
			}
			o.try(command, o.fabric(moved, "", nic(moved, ""))).want(t, code, "b  reverted", "b is now reachable at "+old)
			same(t)
		}
	})
	t.Run("it moves once more", func(t *testing.T) {
		o.t = t
		apply(o.fabric(old, "", nic(moved, "")), "-allow=management").want(t, 0)
	})
	t.Run("and back again, once the block is gone", func(t *testing.T) {
		o.t = t
		apply(o.fabric(moved, "", "")).want(t, 1, "carries your SSH connection", "-allow=management adds the new path")
		apply(o.fabric(moved, "", ""), "-allow=management").want(t, 0, "moved to "+old, "✓ b.connection."+old)
		o.try("plan", "-detailed-exitcode", o.fabric(old, "", "")).want(t, 0, "No changes")
	})
}

// secondManagement gives the cable to a host's management a subnet in which there is room to move, and
// enters the host's address there into known_hosts.
func (o *outside) secondManagement(host, near, far string) {
	o.t.Helper()
	var links []struct{ Ifname string }
	out, err := exec.Command("nsenter", "--target", fmt.Sprint(o.netPID), "--net", "--", "ip", "-j", "addr", "show", "to", peerOf(o.t, o.addr[host])).Output()
	if err != nil || json.Unmarshal(out, &links) != nil || len(links) != 1 {
		o.t.Fatalf("the cable to %s was not found: %v %s", host, err, out)
	}
	if out, err := exec.Command("nsenter", "--target", fmt.Sprint(o.netPID), "--net", "--", "ip", "addr", "add", near, "dev", links[0].Ifname).CombinedOutput(); err != nil {
		o.t.Fatalf("%v: %s", err, out)
	}
	inside(o.t, o.state, pair, host, "ip", "addr", "add", far, "dev", "mgmt0")
	addr, _, _ := strings.Cut(far, "/")
	o.known(o.addr[host], addr)
}

// known enters another address of a host into known_hosts.
func (o *outside) known(as, addr string) {
	o.t.Helper()
	path := filepath.Join(o.dir, "known_hosts")
	raw, err := os.ReadFile(path)
	if err != nil {
		o.t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if strings.HasPrefix(line, as+" ") {
			raw = append(raw, strings.Replace(line, as, addr, 1)...)
		}
	}
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		o.t.Fatal(err)
	}
}

// peerOf is the other address of a /31.
func peerOf(t *testing.T, addr string) string {
	t.Helper()
	a, err := netip.ParseAddr(addr)
	if err != nil {
		t.Fatal(err)
	}
	b := a.As4()
	b[3] ^= 1
	return netip.AddrFrom4(b).String()
}

func rewrite(t *testing.T, path, from, to string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(raw), from) {
		t.Fatalf("%s does not hold %s: %v", path, from, err)
	}
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(raw), from, to)), 0o600); err != nil {
		t.Fatal(err)
	}
}
