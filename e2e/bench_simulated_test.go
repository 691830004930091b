//go:build linux

package e2e

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/config"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/netmanager"
	"github.com/fabricform/fabricform/transport"
)

// simulatedAt is the environment variable that makes this program the simulated hosts.
const simulatedAt = "FABRICFORM_BENCH_HOSTS"

// TestBenchSimulated plans fleets that no machine holds. The hosts are one process beside it, an SSH
// server on a Unix socket that answers as a helper in place does, with the snapshot of a small host.
// The client does all that it does with real hosts: known_hosts, key exchange, login, the helper's
// protocol, the plan.
func TestBenchSimulated(t *testing.T) {
	e2e(t)
	sizes := []int{10} // in every run: these hosts answer all that a plan asks
	if benchmarks() {
		sizes = []int{100, 1000}
	}
	if full() {
		sizes = append(sizes, 10000)
	}
	dir, err := os.MkdirTemp("", "ff-bench") // a socket wants a short path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	public := simulatedKey(t, filepath.Join(dir, "key"))
	socket := startSimulated(t, dir)
	for _, n := range sizes {
		t.Run(fmt.Sprintf("%d hosts", n), func(t *testing.T) {
			path := simulatedFabric(t, dir, n, public)
			f, _, diags := config.Load(path, config.Options{})
			if diags.HasErrors() {
				t.Fatal(diags)
			}
			d := &transport.Dialer{Helper: helper{}, NetDial: func(ctx context.Context, _, addr string) (net.Conn, error) {
				c, err := new(net.Dialer).DialContext(ctx, "unix", socket)
				return simulatedConn{c, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(addr))}, err
			}}
			t.Setenv("SSH_AUTH_SOCK", "")
			profile(t, n)
			forgetPeak(t)
			before := ownCPU(t)
			took := onePlan(t, f, nil, d)
			cpu := ownCPU(t) - before
			t.Logf("figure: %d simulated hosts: client CPU %.2f ms a host (≤ 1), %.2f s, peak %d MB (≤ 100)", n, cpu.Seconds()*1000/float64(n), took.Seconds(), peakMB(t))
		})
	}
}

// simulatedConn says the address of the host that it stands for, which known_hosts is asked for.
type simulatedConn struct {
	net.Conn
	remote net.Addr
}

func (c simulatedConn) RemoteAddr() net.Addr { return c.remote }

// profile writes a CPU profile where FABRICFORM_BENCH_PROFILE names a folder.
func profile(t *testing.T, n int) {
	t.Helper()
	dir := os.Getenv("FABRICFORM_BENCH_PROFILE")
	if dir == "" {
		return
	}
	file, err := os.Create(filepath.Join(dir, fmt.Sprintf("simulated-%d.pprof", n)))
	if err != nil {
		t.Fatal(err)
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pprof.StopCPUProfile(); file.Close() })
}

// forgetPeak begins the peak of this process's memory anew (Documentation/filesystems/proc.rst).
func forgetPeak(t *testing.T) {
	t.Helper()
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		t.Fatal(err)
	}
}

func peakMB(t *testing.T) int {
	t.Helper()
	raw, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(raw), "VmHWM:")
	kb, err := strconv.Atoi(strings.Fields(after)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kb / 1000
}

// simulatedKey makes a key that is the operator's and every host's.
func simulatedKey(t *testing.T, path string) (public string) {
	t.Helper()
	pub, priv, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(priv, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewPublicKey(pub)
	if err != nil {
		t.Fatal(err)
	}
	return string(ssh.MarshalAuthorizedKey(key))
}

// simulatedHosts is the text of n hosts on one network. way says how they are reached, and address is the line of their addresses.
func simulatedHosts(n int, way, address string) string {
	return fmt.Sprintf(`fabric "simulated" {}

%s
host "h" {
  for_each = { for i in range(%d) : format("h%%05d", i) => i }
  %s

  nic "rail" {
    netdev      = "eth1"
    host_number = each.value + 1
  }
}

network "rail" {
  members = [for h in values(host.h) : h.nic.rail]
  subnet  = "10.0.0.0/16"
  mtu     = 9000
}
`, way, n, address)
}

// simulatedFabric is n hosts on one network, each with a line of its own in known_hosts.
func simulatedFabric(t *testing.T, dir string, n int, public string) string {
	t.Helper()
	var known strings.Builder
	for i := range n {
		fmt.Fprintf(&known, "100.64.%d.%d %s", i/250, i%250+1, public)
	}
	path := filepath.Join(dir, fmt.Sprintf("s%d.hcl", n))
	text := simulatedHosts(n, fmt.Sprintf("ssh {\n  user = \"root\"\n  identity_file = %q\n  known_hosts = %q\n  connect_timeout = \"60s\"\n}\n", filepath.Join(dir, "key"), path+".known"),
		`address = format("100.64.%d.%d", floor(each.value / 250), each.value % 250 + 1)`)
	for name, text := range map[string]string{path: text, path + ".known": known.String()} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// startSimulated runs the hosts until the test ends.
func startSimulated(t *testing.T, dir string) (socket string) {
	t.Helper()
	socket = filepath.Join(dir, "hosts")
	cmd := exec.Command("/proc/self/exe")
	var said bytes.Buffer
	cmd.Env = append(os.Environ(), simulatedAt+"="+socket, "FABRICFORM_BENCH_BUILD="+build)
	cmd.Stderr, cmd.Dir = &said, dir
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for range 3000 {
		if c, err := net.Dial("unix", socket); err == nil {
			c.Close()
			return socket
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("the simulated hosts do not answer: %s", said.String())
	return ""
}

// simulateHosts is the process of the hosts. It answers only when it cannot go on.
func simulateHosts(socket string) int {
	raw, err := os.ReadFile("key") // in its working directory
	if err != nil {
		panic(err)
	}
	key, err := ssh.ParsePrivateKey(raw)
	if err != nil {
		panic(err)
	}
	config := &ssh.ServerConfig{PublicKeyCallback: func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) { return nil, nil }}
	config.AddHostKey(key)
	l, err := net.Listen("unix", socket)
	if err != nil {
		panic(err)
	}
	snapshot, err := json.Marshal(calls.SnapshotResult{Snapshot: smallHost()})
	if err != nil {
		panic(err)
	}
	table := agent.Table{string(calls.Snapshot): func(context.Context, json.RawMessage) (any, error) { return json.RawMessage(snapshot), nil }}
	for {
		conn, err := l.Accept()
		if err != nil {
			panic(err)
		}
		go simulateHost(conn, config, os.Getenv("FABRICFORM_BENCH_BUILD"), table)
	}
}

// simulateHost serves one login. Whatever it is asked to run, it answers as the helper.
func simulateHost(conn net.Conn, config *ssh.ServerConfig, build string, table agent.Table) {
	defer conn.Close()
	_, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for c := range channels {
		ch, reqs, err := c.Accept()
		if err != nil {
			return
		}
		go func() {
			for r := range reqs {
				_ = r.Reply(r.Type == "exec", nil)
				if r.Type != "exec" {
					continue
				}
				go func() {
					_ = agent.Serve(context.Background(), ch, ch, build, table)
					_, _ = ch.SendRequest("exit-status", false, []byte{0, 0, 0, 0})
					_ = ch.Close()
				}()
			}
		}()
	}
}

// smallHost has a management port and one NIC that nothing was done to.
func smallHost() *facts.Snapshot {
	s := &facts.Snapshot{System: facts.System{Hostname: "h", Kernel: "6.1.0", Arch: runtime.GOARCH, OS: "Linux"}}
	for i, name := range []string{"lo", "mgmt0", "eth1", "eth2"} {
		s.Links = append(s.Links, host.Link{Index: i + 1, Name: name, MAC: fmt.Sprintf("02:00:00:00:00:%02x", i), MTU: 1500, Up: i < 2, Carrier: i < 2, Loopback: i == 0})
	}
	mgmt := netip.MustParsePrefix("192.0.2.1/24")
	s.Addrs = []host.Addr{{Index: 1, Prefix: netip.MustParsePrefix("127.0.0.1/8"), Scope: 254}, {Index: 2, Prefix: mgmt}}
	s.Routes = []host.Route{{Table: 254, Dst: netip.MustParsePrefix("0.0.0.0/0"), Via: netip.MustParseAddr("192.0.2.254"), OutIndex: 2, Protocol: 3, Type: 1},
		{Table: 254, Dst: mgmt.Masked(), OutIndex: 2, Protocol: 2, Scope: 253, Type: 1}}
	netmanager.Part.Put(s, netmanager.Found{})
	return s
}
