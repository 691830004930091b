//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fleetFabric is n hosts on one switch, with what the life of a fabric needs to change.
func fleetFabric(t *testing.T, name string, n int, mtu int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name+".hcl")
	text := fmt.Sprintf(`fabric %q {}

ssh {
  connect_timeout = "20s"
}

host "h" {
  for_each = { for i in range(%d) : format("h%%02d", i) => i + 1 }
  labels   = { half = each.value > 8 ? "upper" : "lower" }

  nic "rail" {
    netdev      = "eth1"
    host_number = each.value
  }
}

network "rail" {
  members = [for h in values(host.h) : h.nic.rail]
  subnet  = "10.9.0.0/24"
  mtu     = %d

  validate {
    ping {
      count = 2
    }
    tcp {
      enabled = false
    }
  }
}
`, name, n, mtu)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestLifeOfAFleet takes sixteen hosts through what a fabric lives through.
func TestLifeOfAFleet(t *testing.T) {
	together(t)
	fabric := fleetFabric(t, "fleet", 16, 9000)
	state := labUpFor(t, fabric)
	dir := t.TempDir()
	plan := filepath.Join(dir, "fleet.plan")

	try(t, state, "plan", "-lab", "-markdown", fabric).want(t, 0, "16 hosts", "<b>h[00-15]</b>", "10.9.0.1/24 … 10.9.0.16/24")
	try(t, state, "plan", "-lab", "-out", plan, fabric).want(t, 0, "h[00-15]  (16 hosts")
	try(t, state, "apply", "-lab", "-auto-approve", "-report", filepath.Join(dir, "r.md"), plan).want(t, 0, "Fabric verified", "network rail  16 of them")
	try(t, state, "plan", "-lab", "-detailed-exitcode", fabric).want(t, 0, "h[00-15] as declared", "No changes")

	for _, h := range []string{"h03", "h04", "h05"} {
		inside(t, state, fabric, h, "ip", "addr", "flush", "dev", "eth1", "scope", "global")
	}
	try(t, state, "plan", "-lab", "-detailed-exitcode", fabric).want(t, 2, "h[03-05]  (3 hosts", "drifted", "h[00-02], h[06-15]")
	try(t, state, "apply", "-lab", "-auto-approve", "-no-verify", "-host", "half=lower", fabric).want(t, 0)

	// One host falls silent: the others are carried on, and it is named.
	inside(t, state, fabric, "h07", "ip", "link", "set", "eth1", "mtu", "1500")
	inside(t, state, fabric, "h09", "ip", "link", "set", "mgmt0", "down")
	gone := try(t, state, "apply", "-lab", "-auto-approve", fabric)
	gone.want(t, 4, "h09: unreachable; skipped with its links", "h07.nic.rail", "unreachable h09", "Partly verified")
	try(t, state, "apply", "-lab", "-auto-approve", "-no-verify", "-exclude", "h09", fabric).want(t, 0, "No changes")

	// A path is measured without those that are not at its ends.
	ends := try(t, state, "verify", "-lab", "-link", "rail:h00-h01", fabric)
	ends.want(t, 0, "rail:h00-h01")
	if strings.Contains(ends.out+ends.err, "h09") {
		t.Errorf("the silent host was asked, too:\n%s\n%s", ends.out, ends.err)
	}
	try(t, state, "verify", "-lab", "-link", "rail:h08-h09", fabric).want(t, 4, "unreachable h09")

	// Fewer hosts in the files: the last four vanish and are named; one is given back.
	fewer := fleetFabric(t, "fleet", 12, 9000)
	try(t, state, "plan", "-lab", "-exclude", "h09", fewer).want(t, 0, "host h12 (h12) was removed from the files", "destroy -host h15")
	try(t, state, "destroy", "-lab", "-auto-approve", "-host", "h15", fewer)
	if out := inside(t, state, fabric, "h15", "ip", "addr", "show", "eth1"); strings.Contains(out, "10.9.0.16") {
		t.Errorf("h15 keeps what was made there: %s", out)
	}
	try(t, state, "history", "-lab", "-exclude", "h09", fabric).want(t, 0, "apply    60 changes on h[00-08], h[10-15]", "h[03-05]", "destroy  4 changes on h15")
}
