package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fabricform/fabricform/probe"
	"github.com/fabricform/fabricform/validators"
)

// TestBenchPairs pings all pairs, five packets each, beside fping on every host, sixteen hosts at
// once by ssh(1). The neighbours are known to all: one table serves all namespaces of a machine, and
// all pairs of 64 hosts overflow it (gc_thresh3).
func TestBenchPairs(t *testing.T) {
	benchmark(t, "fping")
	for _, n := range benchSizes() {
		t.Run(fmt.Sprintf("%d hosts", n), func(t *testing.T) {
			b := newBenchLab(t, n)
			try(t, b.state, "apply", "-lab", "-auto-approve", "-no-verify", b.fabric).want(t, 0)
			b.introduce(t)
			peers := func(i int) (out []netip.Addr) {
				for j := range b.session.fabric.Hosts {
					// Each begins with the host after it, so that not all ask the first at once.
					if h := b.session.fabric.Hosts[(i+j)%n]; j > 0 {
						out = append(out, h.NICs[0].Addresses[0].Addr())
					}
				}
				return out
			}
			var s series
			for range 5 {
				fping, _ := b.everywhere(t, 16, []string{"fping", "-q", "-c", "5", "-p", "5", "-i", "0", "-I", "eth1"}, func(i int) (out []string) {
					for _, a := range peers(i) {
						out = append(out, a.String())
					}
					return out
				})
				s.add(fmt.Sprintf("fping / pings (≥ %s)", map[int]string{16: "2.5", 64: "4"}[n]), fping.Seconds()/b.pings(t, peers).Seconds())
				s.add("fping / verify, full-size packets and proof included", fping.Seconds()/b.verify(t).Seconds())
			}
			s.log(t, fmt.Sprintf("all pairs of %d hosts", n))
		})
	}
}

// introduce makes all hosts neighbours of each other for good.
func (b *benchLab) introduce(t *testing.T) {
	t.Helper()
	fleet := b.connect(t)
	defer fleet.Close()
	var batch strings.Builder
	for _, h := range b.session.fabric.Hosts {
		snap, err := fleet.Snapshot(context.Background(), h.Name)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range snap.Links {
			if l.Name == "eth1" {
				fmt.Fprintf(&batch, "neigh replace %s lladdr %s dev eth1 nud permanent\n", h.NICs[0].Addresses[0].Addr(), l.MAC)
			}
		}
	}
	for _, h := range b.session.fabric.Hosts {
		var said bytes.Buffer
		if code, err := b.lab.Exec(context.Background(), h.Name, []string{"ip", "-force", "-batch", "-"}, strings.NewReader(batch.String()), io.Discard, &said); err != nil || code != 0 {
			t.Fatal(code, err, said.String())
		}
	}
}

// pings is the job of fping: connect, five packets to all peers, and the losses.
func (b *benchLab) pings(t *testing.T, peers func(i int) []netip.Addr) time.Duration {
	t.Helper()
	start := time.Now()
	fleet := b.connect(t)
	defer fleet.Close()
	var g errgroup.Group
	for i, h := range b.session.fabric.Hosts {
		g.Go(func() error {
			got, err := fleet.Ping(context.Background(), h.Name, probe.PingSpec{Netdev: "eth1", Source: h.NICs[0].Addresses[0].Addr(), Targets: peers(i), Count: 5,
				Interval: 5 * time.Millisecond, Timeout: time.Second, Size: 56})
			for _, r := range got {
				if r.Received != 5 {
					return fmt.Errorf("%s: %+v", h.Name, r)
				}
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	return time.Since(start)
}

// verify is what `fabricform verify -only ping` does between reading the files and printing.
func (b *benchLab) verify(t *testing.T) time.Duration {
	t.Helper()
	start := time.Now()
	fleet := b.connect(t)
	defer fleet.Close()
	for _, r := range validators.Run(context.Background(), b.session.fabric, fleet, validators.Options{Only: []string{"ping"}, Lab: true}) {
		if r.Verdict != validators.Pass {
			t.Fatalf("%+v", r)
		}
	}
	return time.Since(start)
}
