//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const softRoCE = "../examples/soft-roce-pair.hcl"

// vmLabFor starts a lab of virtual machines, whose image is made at the first time. After a failed test, it logs what their kernels said.
func vmLabFor(t *testing.T, fabric string, options ...string) (state string) {
	t.Helper()
	state = t.TempDir()
	t.Cleanup(func() {
		if t.Failed() {
			logConsoles(t, state)
		}
		try(t, state, "lab", "down", fabric)
	})
	try(t, state, append(append([]string{"lab", "up", "-backend", "vm"}, options...), fabric)...).want(t, 0, "is up")
	return state
}

// proven verifies what is to pass, and again, at most twice, if a check failed: an emulated machine may stand still for half a minute.
func proven(t *testing.T, state string, args ...string) (a answer) {
	t.Helper()
	for range 3 {
		if a = try(t, state, append([]string{"verify", "-lab"}, args...)...); a.code != 3 {
			break
		}
		logConsoles(t, state)
	}
	return a
}

// logConsoles logs the last lines of the consoles of all virtual machines.
func logConsoles(t *testing.T, state string) {
	t.Helper()
	consoles, _ := filepath.Glob(filepath.Join(state, "fabricform/lab/*/*.console"))
	for _, name := range consoles {
		said, err := os.ReadFile(name)
		if err != nil {
			t.Log(err)
		}
		t.Logf("%s:\n%s", filepath.Base(name), said[max(0, len(said)-4<<10):])
	}
}

// TestSoftRoCE is field note 004 by declaration, in two machines with kernels of their own: RDMA
// devices on plain NICs, measured by perftest, seen on the wire, and gone with their blocks.
func TestSoftRoCE(t *testing.T) {
	e2e(t)
	state := vmLabFor(t, softRoCE)
	try(t, state, "plan", "-lab", "-detailed-exitcode", softRoCE).want(t, 2, "rxe.rxe0", "module.rdma_rxe", "available → loaded")
	try(t, state, "apply", "-lab", "-auto-approve", "-no-verify", softRoCE).want(t, 0, "✓ node1.rxe.rxe0", "✓ node2.rxe.rxe1")
	try(t, state, "plan", "-lab", "-detailed-exitcode", softRoCE).want(t, 0, "No changes")
	try(t, state, "show", "-lab", softRoCE).want(t, 0, "rxe0", "port 1 on eth1, Soft-RoCE, ACTIVE", "GID 1   RoCE v2  10.20.0.1", "RDMA MTU 4096", "no subnet manager is needed")

	t.Run("verify measures RDMA on both rails, both ways", func(t *testing.T) {
		a := proven(t, state, softRoCE)
		a.want(t, 0, "Fabric verified", "rxe0 on eth1, GID 1")
		for _, want := range []string{"node1 → node2  send_lat 2 B", "node2 → node1  write_bw 64 KiB"} {
			if strings.Count(a.out, want) != 2 {
				t.Errorf("%q is not there for both rails:\n%s", want, a.out)
			}
		}
	})
	t.Run("the kernel's GID table is as predicted", func(t *testing.T) { gidsAsPredicted(t, state) })
	inFull(t, "without its address, the GID is missing", func(t *testing.T) { gidMissing(t, state) })
	t.Run("the wire shows RoCE v2, as tshark reads it", func(t *testing.T) { wireProof(t, state) })
	t.Run("causes", func(t *testing.T) { verbsCauses(t, state) })
	inFull(t, "devices of others", func(t *testing.T) { foreignDevices(t, state) })
	t.Run("blocks removed, devices gone", func(t *testing.T) { rxeRemoved(t, state) })
}

// gidsAsPredicted: index 1 is the address; another one comes behind it, and none leaves index 0.
func gidsAsPredicted(t *testing.T, state string) {
	// The kernel enters addresses into the table some time after they came.
	gid := func(i string) (got string) {
		for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(time.Second) {
			a := try(t, state, "lab", "exec", softRoCE, "node1", "--", "cat", "/sys/class/infiniband/rxe0/ports/1/gids/"+i)
			if got = strings.TrimSpace(a.out); a.code == 0 && got != "0000:0000:0000:0000:0000:0000:0000:0000" {
				break
			}
		}
		return got
	}
	if got := gid("1"); got != "0000:0000:0000:0000:0000:ffff:0a14:0001" {
		t.Errorf("GID 1 is %s", got)
	}
	inside(t, state, softRoCE, "node1", "ip", "addr", "add", "10.99.0.1/24", "dev", "eth1")
	if got := gid("2"); got != "0000:0000:0000:0000:0000:ffff:0a63:0001" {
		t.Errorf("GID 2 is %s", got)
	}
	inside(t, state, softRoCE, "node1", "ip", "addr", "del", "10.99.0.1/24", "dev", "eth1")
}

func gidMissing(t *testing.T, state string) {
	try(t, state, "verify", "-lab", "-only", "nccl", softRoCE).want(t, 0, "rxe0 on eth1, GID 1")
	inside(t, state, softRoCE, "node1", "ip", "addr", "flush", "dev", "eth1", "scope", "global")
	try(t, state, "verify", "-lab", "-only", "nccl,verbs", "-host", "node1,node2", softRoCE).want(t, 3, "GID 0 is link-local", "no RoCE v2 entry for 10.20.0.1")
	try(t, state, "apply", "-lab", "-auto-approve", "-no-verify", softRoCE).want(t, 0)
}

func wireProof(t *testing.T, state string) {
	pcap := filepath.Join(t.TempDir(), "rail0.pcap")
	a := try(t, state, "capture", "-lab", "-json", "-test", "write_bw", "-packets", "400", "-file", pcap, softRoCE, "rail0")
	var got struct {
		Packets int
		Rows    []struct {
			Opcode   string
			PSN      uint32
			TargetQP uint32 `json:"target_qp"`
		}
		Flows []struct{ Opcodes []struct{ Opcode string } }
	}
	if err := json.Unmarshal([]byte(a.out), &got); err != nil || got.Packets != 400 || len(got.Rows) == 0 {
		t.Fatalf("%v\n%s%s", err, a.out, a.err)
	}
	if !strings.Contains(a.out, "RC RDMA_WRITE_FIRST") || !strings.Contains(a.out, "RC ACKNOWLEDGE") {
		t.Errorf("no RDMA write is among them:\n%s", a.out)
	}
	if _, err := exec.LookPath("tshark"); err != nil {
		t.Skip("tshark is not installed")
	}
	out, err := exec.Command("tshark", "-r", pcap, "-c", "20", "-T", "fields", "-e", "infiniband.bth.opcode", "-e", "infiniband.bth.psn", "-e", "infiniband.bth.destqp").Output()
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		f := strings.Fields(line)
		if i >= len(got.Rows) || len(f) != 3 {
			break
		}
		r := got.Rows[i]
		if number(f[1]) != int64(r.PSN) || number(f[2]) != int64(r.TargetQP) {
			t.Errorf("packet %d: tshark says %s, we say %+v", i, line, r)
		}
	}
}

// verbsCauses breaks RDMA in ways that people do, and wants the cause named.
func verbsCauses(t *testing.T, state string) {
	node2 := func(t *testing.T, argv ...string) { t.Helper(); inside(t, state, softRoCE, "node2", argv...) }
	verbs := func(t *testing.T) answer {
		t.Helper()
		return try(t, state, "verify", "-lab", "-only", "link,verbs", "-link", "rail0", softRoCE)
	}
	inFull(t, "UDP 4791 is dropped", func(t *testing.T) {
		node2(t, "nft", "add table inet lab; add chain inet lab in { type filter hook input priority 0; }; add rule inet lab in udp dport 4791 drop")
		defer node2(t, "nft", "delete", "table", "inet", "lab")
		verbs(t).want(t, 3, "allow UDP port 4791", "skipped: send_lat could not be measured in either direction")
	})
	inFull(t, "one end's MTU is smaller", func(t *testing.T) {
		node2(t, "ip", "link", "set", "eth1", "mtu", "1500")
		defer node2(t, "ip", "link", "set", "eth1", "mtu", "4200")
		verbs(t).want(t, 3, "RDMA MTU", " 4096, ", " 1024", "set the same MTU on both")
	})
	inFull(t, "perftest is missing", func(t *testing.T) {
		node2(t, "mv", "/usr/bin/ib_send_lat", "/root/")
		defer node2(t, "mv", "/root/ib_send_lat", "/usr/bin/")
		verbs(t).want(t, 3, "perftest is not installed on node2", `ofed { stack = "inbox", packages = ["perftest"] }`)
	})
	inFull(t, "the NIC is down", func(t *testing.T) {
		node2(t, "ip", "link", "set", "eth1", "down")
		verbs(t).want(t, 3, "the port of rxe0 is DOWN")
		try(t, state, "apply", "-lab", "-auto-approve", "-no-verify", softRoCE).want(t, 0)
	})
	inFull(t, "no ARP answer", func(t *testing.T) {
		node2(t, "ip", "link", "set", "eth1", "arp", "off")
		inside(t, state, softRoCE, "node1", "ip", "neigh", "flush", "dev", "eth1")
		defer node2(t, "ip", "link", "set", "eth1", "arp", "on")
		verbs(t).want(t, 3, "no ARP answer for 10.20.0.2")
	})
	inFull(t, "memory cannot be locked", func(t *testing.T) {
		dropIn := "[Service]\nLimitMEMLOCK=16K\nCapabilityBoundingSet=~CAP_IPC_LOCK CAP_SYS_RESOURCE\n"
		node2(t, "sh", "-c", "mkdir -p /etc/systemd/system/ssh.service.d && printf '%s' \"$1\" > /etc/systemd/system/ssh.service.d/lab.conf && systemctl daemon-reload && systemctl restart ssh", "sh", dropIn)
		defer node2(t, "sh", "-c", "rm -r /etc/systemd/system/ssh.service.d && systemctl daemon-reload && systemctl restart ssh")
		verbs(t).want(t, 3, "memlock")
	})
	t.Run("the cable is cut", func(t *testing.T) {
		try(t, state, "lab", "fault", softRoCE, "rail0", "cut").want(t, 0)
		verbs(t).want(t, 3, "no carrier")
		try(t, state, "lab", "fault", softRoCE, "rail0", "none").want(t, 0)
	})
	t.Run("all is well again", func(t *testing.T) {
		try(t, state, "plan", "-lab", "-detailed-exitcode", softRoCE).want(t, 0, "No changes")
		if full() {
			verbs(t).want(t, 0, "Verified (link, verbs)")
		}
	})
}

// foreignDevices: what fabricform did not make stays, and what is in use is not taken away.
func foreignDevices(t *testing.T, state string) {
	fabric := filepath.Join(t.TempDir(), "other.hcl")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(fabric, []byte("fabric \"other\" {}\nhost \"node1\" {\n"+text+"}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("  rxe \"rxe9\" {\n    netdev = \"eth1\"\n  }\n")
	try(t, state, "plan", "-lab=soft-roce-pair", fabric).want(t, 1, "eth1 already has the software RDMA device rxe0")
	write("  rxe \"rxe0\" {\n    netdev = \"eth1\"\n  }\n")
	try(t, state, "plan", "-lab=soft-roce-pair", fabric).want(t, 1, `owned by fabric "soft-roce-pair"`)
	write("  nic \"rail0\" {\n    match = { rdma = \"rxe0\" }\n    mtu = 4200\n  }\n")
	try(t, state, "plan", "-lab=soft-roce-pair", fabric).want(t, 1, `nic eth1 mtu is owned by fabric "soft-roce-pair"`)
	inside(t, state, softRoCE, "node1", "sh", "-c", "ib_send_lat -d rxe1 -x 1 >/dev/null 2>&1 </dev/null & "+
		"for i in $(seq 300); do ls -l /proc/$!/fd | grep -q uverbs && exit 0; sleep 0.2; done; exit 1")
	try(t, state, "destroy", "-lab", "-auto-approve", "-host", "node1", softRoCE).want(t, 6, "RDMA device rxe1 is in use by ib_send_lat (pid ", "node1  reverted")
	inside(t, state, softRoCE, "node1", "pkill", "ib_send_lat")
	try(t, state, "apply", "-lab", "-auto-approve", "-no-verify", softRoCE).want(t, 0)
}

func rxeRemoved(t *testing.T, state string) {
	raw, err := os.ReadFile(softRoCE)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(raw), "  rxe \"rxe\" {")
	_, after, _ := strings.Cut(rest, "\n  }\n")
	fabric := filepath.Join(t.TempDir(), "f.hcl")
	if err := os.WriteFile(fabric, []byte(before+after), 0o600); err != nil {
		t.Fatal(err)
	}
	try(t, state, "apply", "-lab", "-auto-approve", "-no-verify", fabric).want(t, 0, "✓ node1.rxe.rxe0")
	if left := strings.TrimSpace(inside(t, state, softRoCE, "node2", "ls", "/sys/class/infiniband")); left != "" {
		t.Errorf("left: %s", left)
	}
	try(t, state, "plan", "-lab", "-detailed-exitcode", fabric).want(t, 0, "No changes")
	inFull(t, "they stay gone over a cut of the power, and the rest is there", func(t *testing.T) {
		try(t, state, "lab", "reboot", "-hard", fabric, "node2").want(t, 0, "node2 is back")
		try(t, state, "plan", "-lab", "-detailed-exitcode", fabric).want(t, 0, "No changes")
	})
}

// number reads what tshark prints: 0x0000002a or 42.
func number(s string) int64 {
	n, err := strconv.ParseInt(s, 0, 64)
	if err != nil {
		return -1
	}
	return n
}

// TestSoftRoCEOnASwitch: four machines on one segment.
func TestSoftRoCEOnASwitch(t *testing.T) {
	long(t)
	const fabric = "../examples/soft-roce-switch.hcl"
	state := vmLabFor(t, fabric)
	try(t, state, "apply", "-lab", "-auto-approve", "-no-verify", fabric).want(t, 0, "✓ node4.rxe.rxe0")
	try(t, state, "plan", "-lab", "-detailed-exitcode", fabric).want(t, 0, "No changes")
	proven(t, state, "-only", "link,ping,nccl", fabric).want(t, 0, "Verified (link, ping, nccl")
	proven(t, state, "-only", "verbs", "-link", "rdma:node1-node2", fabric).want(t, 0, "send_lat 2 B", "write_bw 64 KiB")
	try(t, state, "lab", "fault", fabric, "rdma:node3", "cut").want(t, 0)
	try(t, state, "verify", "-lab", "-only", "link,ping", fabric).want(t, 3, "node3")
	t.Run("machines end with the rack", func(t *testing.T) { machinesEnd(t, state, 4) })
}

// machinesEnd has a signal end the process that has the cables, and all machines with it.
func machinesEnd(t *testing.T, state string, machines int) {
	t.Helper()
	children := map[int][]int{} // machines of this lab by their parent
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, stat := range stats {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(stat)))
		cwd, err := os.Readlink(filepath.Join(filepath.Dir(stat), "cwd"))
		raw, e := os.ReadFile(stat)
		name, fields, _ := strings.Cut(string(raw), ")")
		f := strings.Fields(fields)
		if err != nil || e != nil || !strings.HasPrefix(cwd, state) || !strings.Contains(name, "(qemu") || len(f) < 2 {
			continue // another's, or gone
		}
		parent, err := strconv.Atoi(f[1])
		if err != nil {
			t.Fatal(err)
		}
		children[parent] = append(children[parent], pid)
	}
	if len(children) != 1 {
		t.Fatal(children)
	}
	for rack, pids := range children {
		if len(pids) != machines {
			t.Fatal(children)
		}
		// A machine whose parent has ended is another's child.
		if cwd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", rack)); err != nil || rack <= 1 || !strings.HasPrefix(cwd, state) {
			t.Fatalf("process %d in %q is no rack of this lab: %v", rack, cwd, err)
		}
		if err := syscall.Kill(rack, syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		for _, pid := range pids {
			for end := time.Now().Add(time.Minute); syscall.Kill(pid, 0) == nil; time.Sleep(10 * time.Millisecond) {
				if raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err != nil || strings.Contains(string(raw), ") Z ") {
					break
				}
				if time.Now().After(end) {
					t.Fatalf("machine %d goes on without its rack", pid)
				}
			}
		}
	}
}
