//go:build linux

package e2e

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// byHand is what members have before they become members: addresses, routes, a MTU, another MAC, and one is down.
const byHand = `modprobe -a bonding 8021q dummy rdma_rxe
ip link set eth1 mtu 1400 up; ip addr add 10.9.1.1/24 dev eth1; ip addr add fd00:9::1/64 dev eth1 nodad
ip route add 10.99.0.0/16 via 10.9.1.2 dev eth1; ip rule add from 10.9.1.1 table 100 priority 1000; ip route add default via 10.9.1.2 dev eth1 table 100
ip link set eth2 up; ip link set eth2 down; ip link set eth2 address 02:aa:bb:cc:dd:02 mtu 1450; ip addr add 10.9.2.1/24 dev eth2`

// TestFaultsWithABond breaks an apply that makes a bond and a VLAN, at each of their steps. The members get back exactly what they had.
func TestFaultsWithABond(t *testing.T) {
	long(t)
	state := vmLabFor(t, bondVLAN)
	hosts := []string{"node1", "node2"}
	on := func(t *testing.T, host, script string) string {
		t.Helper()
		return inside(t, state, bondVLAN, host, "sh", "-c", script)
	}
	old := map[string]string{}
	for _, h := range hosts {
		on(t, h, byHand)
	}
	time.Sleep(3 * time.Second) // what the kernel adds by itself
	for _, h := range hosts {
		old[h] = on(t, h, kernelTrace)
	}
	steps := []struct{ name, reached string }{
		{"the bond is there", `[ -e /sys/class/net/b0 ]`},
		{"it has one member", `[ -e /sys/class/net/eth1/master ]`},
		{"it has both", `[ -e /sys/class/net/eth2/master ]`},
		{"the VLAN is up", `[ "$(cat /sys/class/net/storage/operstate 2>/dev/null)" = up ]`},
	}
	const helper = "pgrep -f [f]abricform.*agent"
	for _, fault := range []struct {
		name  string
		do    func(t *testing.T, client *os.Process)
		undo  string
		steps int // how many of the steps can have it
	}{
		{"the client is killed", func(_ *testing.T, client *os.Process) { _ = client.Kill() }, "", len(steps)},
		{"the helper is killed", func(t *testing.T, _ *os.Process) { on(t, "node1", "kill -KILL $("+helper+")") }, "", len(steps)},
		{"the connection is lost", func(t *testing.T, _ *os.Process) {
			on(t, "node1", "p=$("+helper+" | head -1); until grep -q ^sshd /proc/$p/comm; do p=$(cut -d' ' -f4 /proc/$p/stat); done; kill -KILL $p")
		}, "", len(steps)},
		{"a step fails", func(t *testing.T, _ *os.Process) { on(t, "node1", "ip link add storage type dummy") }, "ip link del storage", len(steps) - 1},
	} {
		for _, step := range steps[:fault.steps] {
			ok := t.Run(fault.name+" when "+step.name, func(t *testing.T) {
				// The helper stops itself at the step: on a busy machine, the apply would be over before the fault comes.
				on(t, "node1", "rm -f /run/reached; setsid sh -c 'until "+step.reached+"; do :; done; kill -STOP $("+helper+"); touch /run/reached' >/dev/null 2>&1 </dev/null &")
				apply := exec.Command(bin, "apply", "-lab", "-auto-approve", "-no-verify", "-lease", "20s", bondVLAN)
				apply.Env = append(os.Environ(), "XDG_STATE_HOME="+state, "NO_COLOR=1", "SSH_AUTH_SOCK=")
				var said bytes.Buffer
				apply.Stdout, apply.Stderr = &said, &said
				if err := apply.Start(); err != nil {
					t.Fatal(err)
				}
				defer func() { _ = apply.Process.Kill() }()
				on(t, "node1", "for i in $(seq 600); do [ -e /run/reached ] && exit 0; sleep 0.1; done; exit 1")
				_ = apply.Process.Signal(syscall.SIGSTOP) // it must not end for the silence of the helper
				if got := on(t, "node1", latestState); got != "armed\n" {
					t.Errorf("the transaction is %s: the fault comes too late", got)
				}
				fault.do(t, apply.Process)
				on(t, "node1", "kill -CONT $("+helper+") 2>/dev/null; true")
				_ = apply.Process.Signal(syscall.SIGCONT)
				var exited *exec.ExitError
				if err := apply.Wait(); err != nil && !errors.As(err, &exited) {
					t.Fatal(err)
				}
				t.Logf("exit %d\n%s", apply.ProcessState.ExitCode(), said.String())
				if apply.ProcessState.ExitCode() == 0 {
					t.Error("the apply succeeded")
				}
				for _, h := range hosts {
					on(t, h, "for i in $(seq 900); do [ $("+latestState+") = reverted ] && exit 0; sleep 0.1; done; exit 1")
				}
				if fault.undo != "" {
					on(t, "node1", fault.undo)
				}
				for _, h := range hosts {
					if d := cmp.Diff(strings.Split(old[h], "\n"), strings.Split(on(t, h, kernelTrace), "\n")); d != "" {
						t.Errorf("%s is not as it was: %s", h, d)
					}
				}
			})
			if !ok {
				return // what it left would fail the others
			}
		}
	}
	t.Run("nothing stays in the way", func(t *testing.T) {
		try(t, state, "apply", "-lab", "-auto-approve", "-no-verify", bondVLAN).want(t, 0, "✓ node1.bond.b0", "✓ node2.vlan.storage")
		try(t, state, "plan", "-lab", "-detailed-exitcode", bondVLAN).want(t, 0, "No changes")
	})
}

// latestState prints the state of the host's latest transaction.
const latestState = `sed -n 's/^ "state": "\(.*\)",$/\1/p' $(ls /var/lib/fabricform/transactions/[0-9]*.json | tail -1)`

// twoPaths is two machines with two cables. What is declared of the first one comes with each test.
const twoPaths = `fabric "paths" {}
host "near" {
  address = "192.168.1.101"
  nic "p0" { netdev = "eth1" }
  nic "p1" { netdev = "eth2" }
}
host "far" {
  address = "192.168.1.102"
  nic "p0" { netdev = "eth1" }
  nic "p1" { netdev = "eth2" }
}
link "a" { endpoints = [host.near.nic.p0, host.far.nic.p0] }
link "b" { endpoints = [host.near.nic.p1, host.far.nic.p1] }
`

// bondedPath is the operator's view of the far machine: its NICs become a bond, which has more.
func bondedPath(address, nics, more string) string {
	return `fabric "moved" {}
host "far" {
  address = "` + address + `"
  nic "p0" { netdev = "eth1" }
  nic "p1" { netdev = "eth2" }
  bond "m" {
    nics = [` + nics + `]
    mode = "active-backup"
` + more + `
}
`
}

// TestTheManagementPathMovesIntoABond: the operator is on one machine and reaches the other over a NIC, which moves into a bond, and then into a
// VLAN on it. What leads nowhere is taken back.
func TestTheManagementPathMovesIntoABond(t *testing.T) {
	long(t)
	lab := filepath.Join(t.TempDir(), "paths.hcl")
	if err := os.WriteFile(lab, []byte(twoPaths), 0o600); err != nil {
		t.Fatal(err)
	}
	state := vmLabFor(t, lab)
	on := func(t *testing.T, host, script string) string {
		t.Helper()
		return inside(t, state, lab, host, "sh", "-c", script)
	}
	send := func(t *testing.T, host, to, mode string, from *os.File) {
		t.Helper()
		c := exec.Command(bin, "lab", "exec", lab, host, "--", "sh", "-c", "cat > "+to+" && chmod "+mode+" "+to)
		c.Stdin = from
		tryCommand(t, state, c).want(t, 0)
	}
	program, err := os.Open(bin)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	send(t, "near", "/root/fabricform", "755", program)
	on(t, "far", "modprobe -a bonding 8021q; ip link set eth1 up; ip link set eth2 up; ip addr add 10.55.0.2/24 dev eth1")
	// The operator's machine stands for the switch, too: a bridge joins both cables, so that each member of the bond leads to the operator.
	key := on(t, "near", `modprobe -a bridge 8021q; ip link add sw type bridge; for d in eth1 eth2; do ip link set $d master sw up; done; ip link set sw up
ip addr add 10.55.0.1/24 dev sw; ip addr add 10.56.0.1/24 dev sw; ip link add link sw name v7 type vlan id 7; ip addr add 10.57.0.1/24 dev v7; ip link set v7 up
mkdir -p -m 700 /root/.ssh; ssh-keygen -q -t ed25519 -N '' -f /root/.ssh/id_ed25519; cat /root/.ssh/id_ed25519.pub`)
	on(t, "far", "mkdir -p -m 700 /root/.ssh; echo '"+strings.TrimSpace(key)+"' >> /root/.ssh/authorized_keys")
	hostKey := strings.Fields(on(t, "far", "cat /etc/ssh/ssh_host_ed25519_key.pub"))
	for _, address := range []string{"10.55.0.2", "10.56.0.2", "10.57.0.2"} {
		on(t, "near", "echo '"+address+" "+hostKey[0]+" "+hostKey[1]+"' >> /root/.ssh/known_hosts")
	}
	operator := func(t *testing.T, fabric string, args ...string) answer {
		t.Helper()
		file := filepath.Join(t.TempDir(), "moved.hcl")
		if err := os.WriteFile(file, []byte(fabric), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		send(t, "near", "/root/moved.hcl", "600", f)
		line := slices.Concat([]string{"lab", "exec", lab, "near", "--", "/root/fabricform"}, args, []string{"/root/moved.hcl"})
		return try(t, state, line...)
	}
	apply := func(t *testing.T, fabric string, flags ...string) answer {
		t.Helper()
		return operator(t, fabric, append([]string{"apply", "-auto-approve", "-no-verify", "-lease", "40s"}, flags...)...)
	}
	time.Sleep(3 * time.Second) // duplicate address detection ends
	same := func(t *testing.T, before string) {
		t.Helper()
		if d := cmp.Diff(strings.Split(before, "\n"), strings.Split(on(t, "far", kernelTrace), "\n")); d != "" {
			t.Fatalf("something is not as it was: %s", d)
		}
	}
	before := on(t, "far", kernelTrace)
	const bond, none = "nic.p1, nic.p0", "    addresses = []\n  }"
	inBond := "    addresses = [\"10.56.0.2/24\"]\n  }"
	inVLAN := none + "\n  vlan \"v\" {\n    on = bond.m\n    id = 7\n    addresses = [\"10.57.0.2/24\"]\n  }"

	t.Run("without the flag it is refused", func(t *testing.T) {
		apply(t, bondedPath("10.55.0.2", bond, inBond)).want(t, 1, "eth1 carries your SSH connection", "-allow=management adds the new path", "Plan refused")
		apply(t, bondedPath("10.55.0.2", "nic.p0, nic.p1", inBond), "-allow=management").want(t, 1, "would have its MAC address beside it", "name another member first in nics")
		apply(t, bondedPath("10.55.0.2", bond, none), "-allow=management").want(t, 1, "no other declared address of the host can replace 10.55.0.2")
		same(t, before)
	})
	t.Run("an address that nobody reaches is taken back", func(t *testing.T) {
		apply(t, bondedPath("10.55.0.2", bond, strings.Replace(inBond, "10.56", "10.66", 1)), "-allow=management").want(t, 6, "moved to 10.66.0.2", "far  reverted")
		same(t, before)
	})
	t.Run("it moves into a bond", func(t *testing.T) {
		apply(t, bondedPath("10.55.0.2", bond, inBond), "-allow=management").want(t, 0, "✓ far.connection.10.56.0.2", "far is now reachable at 10.56.0.2")
		operator(t, bondedPath("10.56.0.2", bond, inBond), "plan", "-detailed-exitcode").want(t, 0, "No changes")
		if got := on(t, "far", "cat /proc/net/bonding/m"); !strings.Contains(got, "Slave Interface: eth1") || !strings.Contains(got, "Slave Interface: eth2") {
			t.Error(got)
		}
	})
	bonded := on(t, "far", kernelTrace)
	t.Run("a bond that carries the operator is fenced", func(t *testing.T) {
		slower := strings.Replace(inBond, "  }", "    miimon = 50\n  }", 1)
		apply(t, bondedPath("10.56.0.2", bond, slower)).want(t, 1, "m carries your SSH connection", "Plan refused")
		apply(t, bondedPath("10.56.0.2", "nic.p1", inBond)).want(t, 1, "carries your SSH connection", "Plan refused")
		same(t, bonded)
	})
	t.Run("the member that carries it does not leave for good", func(t *testing.T) {
		on(t, "near", "ip link set eth1 nomaster") // the switch forwards nothing from the cable of the other member
		apply(t, bondedPath("10.56.0.2", "nic.p0", inBond), "-allow=management", "-lease", "10s").want(t, 6, "far  reverted")
		same(t, bonded)
		on(t, "near", "ip link set eth1 master sw")
	})
	t.Run("it moves into a VLAN", func(t *testing.T) {
		apply(t, bondedPath("10.56.0.2", bond, inVLAN), "-allow=management").want(t, 0, "✓ far.connection.10.57.0.2", "far is now reachable at 10.57.0.2")
		operator(t, bondedPath("10.57.0.2", bond, inVLAN), "plan", "-detailed-exitcode").want(t, 0, "No changes")
	})
	t.Run("rollback goes where the host goes", func(t *testing.T) {
		operator(t, bondedPath("10.57.0.2", bond, inVLAN), "rollback", "-auto-approve").want(t, 0, "far  reverted", "far is now reachable at 10.56.0.2")
		same(t, bonded)
	})
	t.Run("and it survives a reboot", func(t *testing.T) {
		apply(t, bondedPath("10.56.0.2", bond, inVLAN), "-allow=management").want(t, 0, "far is now reachable at 10.57.0.2")
		try(t, state, "lab", "reboot", lab, "far").want(t, 0)
		now := bondedPath("10.57.0.2", bond, inVLAN)
		for end := time.Now().Add(2 * time.Minute); time.Now().Before(end) && operator(t, now, "plan", "-detailed-exitcode").code != 0; {
			time.Sleep(2 * time.Second)
		}
		operator(t, now, "plan", "-detailed-exitcode").want(t, 0, "No changes")
	})
}
