//go:build linux

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
)

// soon is a command that waits until a condition holds, at most 2 s: the helper notes a value just before it changes it.
func soon(condition string) string {
	return "for i in $(seq 40); do { " + condition + "; } && break; sleep 0.05; done; "
}

// variant is the lab's fabric with some of its text replaced.
func (l *faultLab) variant(pairs ...string) string {
	l.t.Helper()
	raw, err := os.ReadFile(l.fabric)
	if err != nil {
		l.t.Fatal(err)
	}
	text := string(raw)
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			l.t.Fatalf("the fabric does not hold %q", pairs[i])
		}
		text = strings.Replace(text, pairs[i], pairs[i+1], 1)
	}
	path := filepath.Join(l.t.TempDir(), "f.hcl")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		l.t.Fatal(err)
	}
	return path
}

// outside runs a command in the network from which the operator comes.
func (l *faultLab) outside(argv ...string) string {
	l.t.Helper()
	out, err := exec.Command("nsenter", append([]string{"--target", fmt.Sprint(l.netPID), "--net", "--"}, argv...)...).CombinedOutput()
	if err != nil {
		l.t.Fatalf("%v: %v: %s", argv, err, out)
	}
	return string(out)
}

// port is the operator's end of the cable to a host's management.
func (l *faultLab) port(host string) string {
	l.t.Helper()
	var links []struct{ Ifname string }
	if err := json.Unmarshal([]byte(l.outside("ip", "-j", "addr", "show", "to", peerOf(l.t, l.addr[host]))), &links); err != nil || len(links) != 1 {
		l.t.Fatalf("the cable to %s was not found: %v", host, err)
	}
	return links[0].Ifname
}

// on runs a shell line in a host.
func (l *faultLab) on(host, line string) string {
	l.t.Helper()
	return inside(l.t, l.state, l.fabric, host, "sh", "-c", line)
}

// whenBack does something once a host has gone back, while an apply still runs. The returned
// function waits for it.
func (l *faultLab) whenBack(host string, do func()) (wait func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			if state, _ := l.tx(host); state == "reverted" {
				do()
				return
			}
		}
	}()
	return func() { <-done }
}

// wasBack notes when host a, which nobody reached, was back after the fault.
func (l *faultLab) wasBack(late time.Duration) {
	l.t.Helper()
	l.t.Logf("figure: %s: host a was back %.2f s after the fault", l.t.Name(), late.Seconds())
	l.back(time.Now(), time.Second)
}

// destroysSockets asks the kernel to reset a connection of the test's own.
func (l *faultLab) destroysSockets() bool {
	l.t.Helper()
	server, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		l.t.Fatal(err)
	}
	defer server.Close()
	c, err := net.Dial("tcp4", server.Addr().String())
	if err != nil {
		l.t.Fatal(err)
	}
	defer c.Close()
	return !errors.Is(netlink.SocketDestroy(c.LocalAddr(), c.RemoteAddr()), syscall.EOPNOTSUPP)
}

// pathRows: the way from the operator to a host breaks.
func pathRows() (rows []faultRow) {
	add := func(name string, short bool, do func(l *faultLab)) { rows = append(rows, faultRow{name, short, do}) }
	add("the connection is reset", true, func(l *faultLab) {
		if !l.destroysSockets() {
			l.t.Skip("this kernel destroys no sockets (CONFIG_INET_DIAG_DESTROY)")
		}
		var at time.Time
		// Both revert on command, long before their leases expire.
		l.applyOf(l.fabric, 2, func(*os.Process) {
			// Both ends get an RST.
			if cut := l.outside("ss", "-HKnt", "dst", l.addr["a"], "dport", "=", ":22"); !strings.Contains(cut, l.addr["a"]+":22") {
				l.t.Errorf("no connection was reset: %q", cut)
			}
			at = time.Now()
		}, "-lease", longLease.String()).want(l.t, 6, "a, b  reverted", "every host that it changed was rolled back")
		l.back(at, byItsLease)
	})
	// The host is unreachable until it reverts. An attempt to reach it again must end soon.
	unreached := func(name string, cut, heal func(l *faultLab)) {
		add(name, true, func(l *faultLab) {
			fabric := l.variant("ssh {\n", "ssh {\n  connect_timeout = \"3s\"\n")
			var at time.Time
			var late time.Duration
			wait := func() {}
			l.applyOf(fabric, 3, func(*os.Process) {
				cut(l)
				at = time.Now()
				wait = l.whenBack("a", func() { late = time.Since(at); heal(l) })
			}, "-lease", shortLease.String()).want(l.t, 6, "reverted")
			wait()
			l.wasBack(late)
		})
	}
	unreached("the link to one host goes down", func(l *faultLab) {
		l.outside("ip", "link", "set", l.port("a"), "down")
		if got := strings.TrimSpace(l.on("a", "cat /sys/class/net/mgmt0/carrier")); got != "0" {
			l.t.Errorf("the carrier is %s", got)
		}
	}, func(l *faultLab) { l.outside("ip", "link", "set", l.port("a"), "up") })
	unreached("port 22 is dropped", func(l *faultLab) {
		l.on("a", "nft 'add table inet lab; add chain inet lab in { type filter hook input priority 0; }; add rule inet lab in tcp dport 22 counter drop'")
	}, func(l *faultLab) {
		if rules := l.on("a", "nft list table inet lab"); strings.Contains(rules, "packets 0 ") {
			l.t.Errorf("nothing was dropped: %s", rules)
		}
		l.on("a", "nft delete table inet lab")
	})
	// What a plan may touch comes back, whoever took it away.
	for _, c := range []struct{ name, cut, proof string }{
		{"the management address is removed", "ip addr del $ADDR/31 dev mgmt0", "! ip addr show mgmt0 | grep -q $ADDR"},
		{"the management NIC goes down", "ip link set mgmt0 down", "! ip link show mgmt0 | grep -q ,UP"},
		{"the management route is replaced", "ip route replace unreachable $NET/31 proto kernel", "ip route show $NET/31 | grep -q unreachable"},
		{"a rule leads the answers astray", "ip rule add priority 9 from $ADDR blackhole", "ip rule | grep -q '^9:.*blackhole'"},
	} {
		add(c.name, true, func(l *faultLab) {
			fabric := l.variant("  nic \"rail0\" {", "  nic \"mgmt\" {\n    netdev = \"mgmt0\"\n    mtu    = 1400\n  }\n  nic \"rail0\" {")
			env := "ADDR=" + l.addr["a"] + " NET=" + peerOf(l.t, l.addr["a"]) + "; "
			var at time.Time
			var late time.Duration
			wait := func() {}
			l.applyOf(fabric, 3, func(*os.Process) {
				l.on("a", env+c.cut)
				at = time.Now()
				l.on("a", env+c.proof)
				wait = l.whenBack("a", func() { late = time.Since(at) })
			}, "-allow=management", "-lease", shortLease.String()).want(l.t, 6, "a  reverted: the lease of ")
			wait()
			l.wasBack(late)
		})
	}
	add("an MTU below 1280 and a bounce lose nothing of others", true, func(l *faultLab) {
		l.on("a", "ip -6 addr add fd00:99::1/64 dev ens19f0np0 nodad && ip -6 route add fd00:98::/64 via fd00:99::9 table 198 && ip route add 172.31.0.0/16 dev ens19f0np0 table 198 && "+
			"ip rule add from 172.31.0.0/16 lookup 198 priority 198 && ip -6 rule add from fd00:99::1 lookup 198 priority 198 && "+
			"ip neigh add fd00:99::9 lladdr 02:00:00:00:00:99 dev ens19f0np0 nud permanent")
		before := l.old
		const railA, railB = "addresses = [\"192.168.88.1/30\"]\n    mtu       = ", "addresses = [\"192.168.88.2/30\"]\n    mtu       = "
		l.remember()
		small := l.variant(railA+"9000", railA+"1200", railB+"9000", railB+"1200")
		var at time.Time
		l.applyOf(small, 5, func(client *os.Process) {
			if got := strings.TrimSpace(l.on("a", soon("grep -qx 1200 /sys/class/net/ens19f0np0/mtu")+"cat /sys/class/net/ens19f0np0/mtu; ip -6 addr show dev ens19f0np0 | grep -c fd00:99 || true")); got != "1200\n0" {
				l.t.Errorf("IPv6 is not gone with the MTU: %q", got)
			}
			_ = client.Kill()
			at = time.Now()
		}, "-host", "a", "-lease", shortLease.String())
		l.backOn(at, byItsLease, "a")
		l.on("a", "ip link set ens19f0np0 down && ip link set ens19f0np0 up; sleep 2; ip -6 addr add fd00:99::1/64 dev ens19f0np0 nodad; ip -6 route add fd00:98::/64 via fd00:99::9 table 198; ip route add 172.31.0.0/16 dev ens19f0np0 table 198")
		l.remember()
		down := l.variant(railA+"9000", railA+"9000\n    up = false")
		l.applyOf(down, 4, func(client *os.Process) {
			if got := l.on("a", soon("! ip -o link show ens19f0np0 | grep -q ,UP")+"ip -o link show ens19f0np0; ip route show table 198"); strings.Contains(got, ",UP") || strings.Contains(got, "172.31") {
				l.t.Errorf("the NIC is not down, or its routes are not gone: %s", got)
			}
			_ = client.Kill()
			at = time.Now()
		}, "-host", "a", "-lease", shortLease.String())
		l.backOn(at, byItsLease, "a")
		l.on("a", "ip rule del priority 198; ip -6 rule del priority 198; ip route flush table 198; ip -6 route flush table 198; ip -6 addr del fd00:99::1/64 dev ens19f0np0; ip neigh del fd00:99::9 dev ens19f0np0 || true")
		l.old = before
	})
	return rows
}
