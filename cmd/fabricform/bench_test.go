package main

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/config"
	"github.com/fabricform/fabricform/lab"
	"github.com/fabricform/fabricform/transport"
)

// TestPlanBesideBareLogins prints how long a plan of two hosts takes beside two bare logins, each
// pair in one run and as a ratio: seconds on a noisy machine say little. It asserts no time.
func TestPlanBesideBareLogins(t *testing.T) {
	if os.Getenv("FABRICFORM_BENCH") == "" {
		t.Skip("a benchmark: run `make bench`")
	}
	state := labUpFor(t, pair)
	t.Setenv("XDG_STATE_HOME", state)
	try(t, state, "plan", "-lab", pair).want(t, 0) // brings the helper
	f, _, diags := config.Load(pair, config.Options{Version: version})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	l, err := lab.Open(f.Name, lab.Options{})
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
	var ratios []float64
	for range 15 {
		start := time.Now()
		var g errgroup.Group
		for _, h := range f.Hosts {
			g.Go(func() error { return d.Login(context.Background(), s.target(h)) })
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		bare := time.Since(start)
		planned := onePlan(t, s, d, id)
		ratios = append(ratios, planned.Seconds()/bare.Seconds())
		t.Logf("bare logins %v, plan %v, ratio %.2f", bare.Round(time.Millisecond), planned.Round(time.Millisecond), ratios[len(ratios)-1])
	}
	slices.Sort(ratios)
	t.Logf("plan of two hosts / bare logins to them: median %.2f (min %.2f, max %.2f)", ratios[len(ratios)/2], ratios[0], ratios[len(ratios)-1])
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
