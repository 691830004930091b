//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
	"golang.org/x/sync/errgroup"

	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/transport"
)

// TestBenchPlan stands beside bare logins by the same library, which are the floor, and ssh(1) to
// all hosts at once. The plans are those of the whole program, from its start to its end, as `make build` and as a plain `go
// build` make it. Client CPU includes the processes that the program started and waited for, such as `ssh -G`. A plan over kept
// connections follows one that made and kept them, and stands beside the round's plan with new logins.
func TestBenchPlan(t *testing.T) {
	benchmark(t)
	for _, n := range benchSizes() {
		t.Run(fmt.Sprintf("%d hosts", n), func(t *testing.T) {
			b := newBenchLab(t, n)
			plain := plainBuild(t)
			runProgram(t, plain, "plan", "-lab", b.fabric) // brings its helper
			keeperHere(t)
			var s series
			for range 5 {
				bare := b.bareLogins(t)
				plan, planCPU := b.program(t, "plan", "-lab")
				other, _ := runProgram(t, plain, "plan", "-lab", b.fabric)
				ssh, sshCPU, err := b.everywhere(n, curve25519, func(int) []string { return []string{"ip", "-j", "addr"} }, addressesSaid)
				if err != nil {
					t.Fatal(err)
				}
				b.program(t, "plan", "-lab", "-keep-connections=5m")
				kept, keptCPU := b.program(t, "plan", "-lab")
				if out, err := exec.Command(bin, "disconnect").CombinedOutput(); err != nil {
					t.Fatalf("disconnect: %v: %s", err, out)
				}
				s.add("plan / bare logins (≤ 1.4)", plan.Seconds()/bare.Seconds())
				s.add("plan by a plain go build / bare logins (≤ 1.4)", other.Seconds()/bare.Seconds())
				s.add("plan / ssh with curve25519", plan.Seconds()/ssh.Seconds())
				s.add("client CPU: ssh with curve25519 / plan (≥ 4)", sshCPU.Seconds()/planCPU.Seconds())
				s.add("client CPU of plan, ms a host", planCPU.Seconds()*1000/float64(n))
				s.add("plan over kept connections / plan", kept.Seconds()/plan.Seconds())
				s.add("client CPU: plan over kept connections / plan", keptCPU.Seconds()/planCPU.Seconds())
			}
			plan, _ := b.program(t, "plan", "-lab")
			first, _ := b.program(t, "apply", "-lab", "-auto-approve", "-no-verify")
			s.add("first apply / plan (≤ 3)", first.Seconds()/plan.Seconds())
			for range 5 {
				bare := b.bareLogins(t)
				idle, _ := b.program(t, "apply", "-lab", "-auto-approve", "-no-verify")
				s.add("apply, nothing to do / bare logins (≤ 1.6)", idle.Seconds()/bare.Seconds())
			}
			s.log(t, fmt.Sprintf("%d hosts", n))
		})
	}
}

// keeperHere makes room for a keeper's sockets, and ends the keeper with the test.
func keeperHere(t *testing.T) {
	t.Helper()
	dir, err := os.MkdirTemp("", "k") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_RUNTIME_DIR", dir)
	t.Cleanup(func() {
		_ = exec.Command(bin, "disconnect").Run() // a keeper of a test that failed
		_ = os.RemoveAll(dir)
	})
}

// plainBuild returns the program as a plain `go build` makes it.
func plainBuild(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fabricform")
	cmd := exec.Command("go", "build", "-o", path, "../cmd/fabricform")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// addressesSaid: what was said are a host's addresses, of which some other than lo's.
func addressesSaid(said []byte) error {
	var links []struct {
		Name      string                   `json:"ifname"`
		Addresses []struct{ Local string } `json:"addr_info"`
	}
	if err := json.Unmarshal(said, &links); err != nil {
		return err
	}
	for _, l := range links {
		if l.Name != "lo" && len(l.Addresses) > 0 {
			return nil
		}
	}
	return fmt.Errorf("%d links, none of which has an address beside lo", len(links))
}

func (b *benchLab) bareLogins(t *testing.T) time.Duration {
	t.Helper()
	start := time.Now()
	var g errgroup.Group
	for _, h := range b.model.Hosts {
		g.Go(func() error { return b.bareLogin(b.target(h)) })
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	return time.Since(start)
}

// bareLogin logs in by the library that the program uses, runs `true` and disconnects.
func (b *benchLab) bareLogin(to transport.Target) error {
	raw, err := os.ReadFile(to.IdentityFile)
	if err != nil {
		return err
	}
	key, err := ssh.ParsePrivateKey(raw)
	if err != nil {
		return err
	}
	known, err := knownhosts.New(to.KnownHosts)
	if err != nil {
		return err
	}
	addr := net.JoinHostPort(to.Address, strconv.Itoa(to.Port))
	conn, err := b.dialer.NetDial(context.Background(), "tcp", addr)
	if err != nil {
		return err
	}
	c, channels, requests, err := ssh.NewClientConn(conn, addr, &ssh.ClientConfig{User: to.User, Auth: []ssh.AuthMethod{ssh.PublicKeys(key)}, HostKeyCallback: known,
		Config: ssh.Config{KeyExchanges: []string{ssh.KeyExchangeCurve25519}}}) // the program's own choice
	if err != nil {
		conn.Close()
		return err
	}
	client := ssh.NewClient(c, channels, requests)
	defer client.Close()
	s, err := client.NewSession()
	if err != nil {
		return err
	}
	return s.Run("true")
}

// onePlan is what `fabricform plan` does between reading the files and printing.
func onePlan(t *testing.T, f *fabric.Fabric, l apply.Lab, d *transport.Dialer) time.Duration {
	t.Helper()
	start := time.Now()
	s := openSession(f, l, d, true)
	p, _ := s.Plan(context.Background()) // nothing interrupts it
	took := time.Since(start)
	if len(p.Unreachable()) > 0 || p.Changes() < len(f.Hosts) {
		t.Fatalf("%d changes; unreachable: %v", p.Changes(), p.Unreachable())
	}
	return took
}
