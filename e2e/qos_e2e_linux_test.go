package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
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

// TestAClassOfTrafficReachesTheNIC, as iproute2's dcb and ethtool show it, survives reboots, and leaves it as it was. `make long` has a step for each
// network manager.
func TestAClassOfTrafficReachesTheNIC(t *testing.T) {
	long(t)
	for owner, service := range map[string]string{"networkd": "systemd-networkd", "ifupdown": "networking", "networkmanager": "NetworkManager"} {
		t.Run(owner, func(t *testing.T) { classOfTraffic(t, owner, service) })
	}
}

// classOfTraffic is the life of a class on guests with that network manager, which is systemd's service.
func classOfTraffic(t *testing.T, owner, service string) {
	file := filepath.Join(t.TempDir(), "qos.hcl")
	if err := os.WriteFile(file, []byte(qosFabric), 0o644); err != nil {
		t.Fatal(err)
	}
	state := vmLabFor(t, file, "-owner", owner)
	// Everything that dcb and ethtool show of a NIC, but the counters of PFC.
	shown := func(host string) (out []string) {
		t.Helper()
		for _, what := range []string{"dcb ets show dev eth1", "dcb pfc show dev eth1", "dcb app show dev eth1", "dcb apptrust show dev eth1",
			"dcb buffer show dev eth1", "dcb dcbx show dev eth1", "ethtool -a eth1"} {
			out = append(out, inside(t, state, file, host, strings.Fields(what)...))
		}
		return out
	}
	inside(t, state, file, "b", "dcb", "dcbx", "set", "dev", "eth1", "host", "cee") // as lldpad does for a switch of that version
	before := [][]string{shown("a"), shown("b")}
	try(t, state, "plan", "-lab", "-detailed-exitcode", file).want(t, 2, "~ qos.rail0  [link flap]", "pfc none, pause on → pfc 5, pause off", "host cee → host ieee", "ecn: this driver has no switch")
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

	const copied = "/usr/local/lib/fabricform/fabricform-qos"
	settled := func(code int, says ...string) {
		t.Helper()
		var a answer
		for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(2 * time.Second) {
			if a = try(t, state, "plan", "-lab", "-detailed-exitcode", file); a.code == code {
				break
			}
		}
		a.want(t, code, says...)
	}
	destroyed := func(t *testing.T) {
		try(t, state, "destroy", "-lab", "-auto-approve", file).want(t, 0)
		for i, host := range []string{"a", "b"} {
			for at, now := range shown(host) {
				if now != before[i][at] {
					t.Errorf("%s is not as it was:\n%s\nwas:\n%s", host, now, before[i][at])
				}
			}
			if left := inside(t, state, file, host, "find", "/etc", "/usr/local", "-name", "*fabricform*"); left != "" {
				t.Errorf("%s still has\n%s", host, left)
			}
		}
	}
	t.Run("after a reboot it is there before the network", func(t *testing.T) {
		before := shown("a")
		try(t, state, "lab", "reboot", file, "a").want(t, 0)
		settled(0, "No changes")
		if now := shown("a"); !slices.Equal(now, before) {
			t.Errorf("after the reboot:\n%s\nbefore:\n%s", now, before)
		}
		try(t, state, "verify", "-lab", "-after-reboot", "-host", "a", "-only", "ping", file).want(t, 0, "resources came up as declared")
		class := inside(t, state, file, "a", "sh", "-c", `journalctl -b -o json -u fabricform-qos-qos@eth1.service | grep -m 1 'is now' | grep -o '"__MONOTONIC_TIMESTAMP":"[0-9]*"' | tr -dc 0-9`)
		network := inside(t, state, file, "a", "systemctl", "show", "--value", "-p", "ExecMainStartTimestampMonotonic", service)
		at, err := strconv.Atoi(strings.TrimSpace(class))
		starts, errOf := strconv.Atoi(strings.TrimSpace(network))
		if err != nil || errOf != nil || at >= starts {
			t.Errorf("the class was set at %q µs, and %s started at %q", class, service, network)
		}
		t.Logf("figure: after a reboot, the class was set %.1f s before %s started", float64(starts-at)/1e6, service)
	})
	if owner != "networkd" { // the rest is the same with all of them
		destroyed(t)
		return
	}
	t.Run("without its program the host boots, and is not as declared", func(t *testing.T) {
		inside(t, state, file, "a", "rm", copied)
		inside(t, state, file, "b", "sh", "-c", "echo damage >> "+copied)
		for _, host := range []string{"a", "b"} {
			try(t, state, "lab", "reboot", file, host).want(t, 0)
		}
		settled(2, "program.boot", copied, "flow_control")
		for host, says := range map[string]string{"a": "No such file or directory", "b": "did NOT match"} {
			log := inside(t, state, file, host, "sh", "-c", "systemctl is-active multi-user.target; journalctl -b -u fabricform-qos-qos@eth1.service")
			if !strings.HasPrefix(log, "active\n") || !strings.Contains(log, says) || strings.Contains(log, "is now") {
				t.Errorf("host %s, which does not say %q:\n%s", host, says, log)
			}
		}
		try(t, state, "verify", "-lab", "-after-reboot", "-only", "ping", file).want(t, 3, copied)
		try(t, state, "apply", "-lab", "-auto-approve", "-no-verify", file).want(t, 0, "✓ a.program.boot", "✓ b.program.boot")
		settled(0, "No changes")
	})

	inside(t, state, file, "a", "dcb", "pfc", "set", "dev", "eth1", "prio-pfc", "all:off")
	try(t, state, "plan", "-lab", "-detailed-exitcode", file).want(t, 2, "flow_control", "pfc none, pause off", "pfc 5, pause off")
	try(t, state, "apply", "-lab", "-auto-approve", "-no-verify", file).want(t, 0, "✓ a.qos.rail0")

	destroyed(t)
}
