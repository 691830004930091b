package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// qosFabric is the class of field note 003, on two machines whose NICs have DCB.
const qosFabric = `
fabric "qos" {}

qos "lossless" {
  dscp     = 40
  priority = 5
  pfc      = true
  ecn      = true
  trust    = "dscp"
  ets      = { 5 = 60, 0 = 40 }
  buffer   = { 5 = 131072 }
  pause    = false
  rdma_cm  = true
}

host "a" {
  qos = qos.lossless
  nic "rail0" { netdev = "eth1" }
  rxe "rxe0" { nic = nic.rail0 }
}

host "b" {
  qos = qos.lossless
  nic "rail0" { netdev = "eth1" }
  rxe "rxe0" { nic = nic.rail0 }
}

link "rail0" {
  endpoints = [host.a.nic.rail0, host.b.nic.rail0]
  subnet    = "10.30.0.0/30"
}
`

// TestAClassOfTrafficReachesTheNIC, as iproute2's dcb and ethtool show it, and leaves it as it was.
func TestAClassOfTrafficReachesTheNIC(t *testing.T) {
	long(t)
	file := filepath.Join(t.TempDir(), "qos.hcl")
	if err := os.WriteFile(file, []byte(qosFabric), 0o644); err != nil {
		t.Fatal(err)
	}
	state := vmLabFor(t, file)
	// Everything that dcb and ethtool show of a NIC, but the counters of PFC.
	shown := func(host string) (out []string) {
		t.Helper()
		for _, what := range []string{"dcb ets show dev eth1", "dcb pfc show dev eth1", "dcb app show dev eth1", "dcb apptrust show dev eth1",
			"dcb buffer show dev eth1", "ethtool -a eth1"} {
			out = append(out, inside(t, state, file, host, strings.Fields(what)...))
		}
		return out
	}
	before := [][]string{shown("a"), shown("b")}
	try(t, state, "plan", "-lab", "-detailed-exitcode", file).want(t, 2, "~ qos.rail0  [link flap]", "pfc none, pause on → pfc 5, pause off", "ecn: this driver has no switch")
	try(t, state, "apply", "-lab", "-auto-approve", "-no-verify", file).want(t, 0, "✓ a.qos.rail0", "✓ b.qos.rail0")
	try(t, state, "plan", "-lab", "-detailed-exitcode", file).want(t, 0, "No changes")
	for _, host := range []string{"a", "b"} {
		now := strings.Join(shown(host), "\n")
		for _, want := range []string{"tc-bw 0:100 1:40 2:100 3:100 4:100 5:60 ", "prio-pfc 0:off 1:off 2:off 3:off 4:off 5:on 6:off 7:off", "dscp-prio CS5:5", "order: dscp", "prio-buffer 0:0 1:0 2:0 3:0 4:0 5:1 6:0 7:0", " 1:128Kb "} {
			if !strings.Contains(now, want) {
				t.Errorf("dcb of %s does not show %q:\n%s", host, want, now)
			}
		}
		if tos := inside(t, state, file, host, "cat", "/sys/kernel/config/rdma_cm/rxe0/ports/1/default_roce_tos"); strings.TrimSpace(tos) != "162" {
			t.Errorf("default_roce_tos of %s is %s", host, tos)
		}
	}

	inside(t, state, file, "a", "dcb", "pfc", "set", "dev", "eth1", "prio-pfc", "all:off")
	try(t, state, "plan", "-lab", "-detailed-exitcode", file).want(t, 2, "flow_control", "pfc none, pause off", "pfc 5, pause off")
	try(t, state, "apply", "-lab", "-auto-approve", "-no-verify", file).want(t, 0, "✓ a.qos.rail0")

	try(t, state, "destroy", "-lab", "-auto-approve", file).want(t, 0)
	for i, host := range []string{"a", "b"} {
		for at, now := range shown(host) {
			if now != before[i][at] {
				t.Errorf("%s is not as it was:\n%s\nwas:\n%s", host, now, before[i][at])
			}
		}
	}
}
