package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/config"
	"github.com/fabricform/fabricform/lab"
	"github.com/fabricform/fabricform/transport"
)

// TestBenchFleet prints what a plan of 2 and 16 hosts takes beside what users would otherwise run:
// bare logins by the same library, which are the floor, and ssh(1) side by side with its quickest
// key exchange. The measurements of a round stand beside each other and are told as ratios: seconds
// on a noisy machine say little. It asserts no time.
func TestBenchFleet(t *testing.T) {
	if os.Getenv("FABRICFORM_BENCH") == "" {
		t.Skip("a benchmark: run `make bench`")
	}
	for _, n := range []int{2, 16} {
		t.Run(fmt.Sprintf("%d hosts", n), func(t *testing.T) { benchFleet(t, n) })
	}
}

// round is one measurement of each kind.
type round struct{ bare, plan, ssh, planCPU, sshCPU time.Duration }

func benchFleet(t *testing.T, n int) {
	fabric := fleetFabric(t, "bench", n, 9000)
	state := labUpFor(t, fabric)
	t.Setenv("XDG_STATE_HOME", state)
	try(t, state, "plan", "-lab", fabric).want(t, 0) // brings the helper
	f, _, diags := config.Load(fabric, config.Options{Version: version})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	l, err := lab.Open(f.Name)
	if err != nil {
		t.Fatal(err)
	}
	id, err := buildOf(bin)
	if err != nil {
		t.Fatal(err)
	}
	s := newSession(f, nil, id)
	s.lab = l
	d := &transport.Dialer{NetDial: l.NetDial, Helper: helpers{id: id}}
	var rounds []round
	for range 9 {
		r := round{bare: bareLogins(t, s, d)}
		before := ownCPU(t)
		r.plan = onePlan(t, s, d, id)
		r.planCPU = ownCPU(t) - before
		r.ssh, r.sshCPU = sshEverywhere(t, s, state)
		rounds = append(rounds, r)
	}
	t.Logf("%d hosts, medians of %d rounds:", n, len(rounds))
	t.Logf("  plan / bare logins:              %.2f", median(rounds, func(r round) float64 { return r.plan.Seconds() / r.bare.Seconds() }))
	t.Logf("  plan / ssh, curve25519, all at once: %.2f", median(rounds, func(r round) float64 { return r.plan.Seconds() / r.ssh.Seconds() }))
	t.Logf("  client CPU of ssh / of plan:     %.1f", median(rounds, func(r round) float64 { return r.sshCPU.Seconds() / r.planCPU.Seconds() }))
	t.Logf("  client CPU of plan a host:       %.1f ms", median(rounds, func(r round) float64 { return r.planCPU.Seconds() * 1000 / float64(n) }))
}

func median(rounds []round, of func(round) float64) float64 {
	var all []float64
	for _, r := range rounds {
		all = append(all, of(r))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

func bareLogins(t *testing.T, s *session, d *transport.Dialer) time.Duration {
	t.Helper()
	start := time.Now()
	var g errgroup.Group
	for _, h := range s.fabric.Hosts {
		g.Go(func() error { return d.Login(context.Background(), s.target(h)) })
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	return time.Since(start)
}

// ownCPU is what this process used so far.
func ownCPU(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// sshEverywhere runs `ip -j addr` on all hosts by ssh(1), all at once, from the lab's management
// network.
func sshEverywhere(t *testing.T, s *session, state string) (took, cpu time.Duration) {
	t.Helper()
	dir := filepath.Join(state, "fabricform", "lab", s.fabric.Name)
	raw, err := os.ReadFile(filepath.Join(dir, "lab.json"))
	if err != nil {
		t.Fatal(err)
	}
	var saved struct{ Net struct{ PID int } }
	if err := json.Unmarshal(raw, &saved); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	var mu sync.Mutex
	var g errgroup.Group
	for _, h := range s.fabric.Hosts {
		to := s.target(h)
		g.Go(func() error {
			cmd := exec.Command("nsenter", "--target", strconv.Itoa(saved.Net.PID), "--net", "ssh", "-F", "none", "-o", "KexAlgorithms=curve25519-sha256", "-o", "BatchMode=yes",
				"-o", "UserKnownHostsFile="+to.KnownHosts, "-i", to.IdentityFile, to.User+"@"+to.Address, "ip", "-j", "addr")
			if out, err := cmd.Output(); err != nil || len(out) < 10 {
				return fmt.Errorf("ssh to %s: %w", h.Name, err)
			}
			mu.Lock()
			defer mu.Unlock()
			cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	return time.Since(start), cpu
}

// onePlan is what `fabricform plan` does between reading the files and printing.
func onePlan(t *testing.T, s *session, d *transport.Dialer, id string) time.Duration {
	t.Helper()
	start := time.Now()
	var members []apply.Member
	for _, h := range s.fabric.Hosts {
		needs, err := apply.Needs(s.kinds, s.desired[h.Name])
		if err != nil {
			t.Fatal(err)
		}
		members = append(members, apply.Member{Target: s.target(h), Needs: needs})
	}
	s.fleet = apply.Connect(context.Background(), d, id, 64, members)
	p := s.plan(context.Background())
	took := time.Since(start)
	s.fleet.Close()
	if p.Changes() == 0 || len(p.Unreachable()) > 0 {
		t.Fatalf("no plan was made: %+v", p)
	}
	return took
}

// buildOf is the id that the program under test gives itself.
func buildOf(path string) (string, error) {
	sum, _, err := hashFile(path)
	if err != nil {
		return "", err
	}
	return sum[:16], nil
}
