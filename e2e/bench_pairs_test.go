//go:build linux

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fabricform/fabricform/apply"
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
				for j := range b.model.Hosts {
					// Each begins with the host after it, so that not all ask the first at once.
					if h := b.model.Hosts[(i+j)%n]; j > 0 {
						out = append(out, h.NICs[0].Addresses[0].Addr())
					}
				}
				return out
			}
			fping := func(options []string) time.Duration {
				return untilSound(t, func() (time.Duration, error) {
					took, _, err := b.everywhere(16, options, func(i int) []string {
						// By itself, what is answered after the period is lost. What is lost is waited for so long, which
						// is little beside all that is measured.
						argv := []string{"fping", "-q", "-c", "5", "-p", "5", "-t", "100", "-i", "0", "-I", "eth1"}
						for _, a := range peers(i) {
							argv = append(argv, a.String())
						}
						return append(argv, "||", "[", "$?", "=", "1", "]") // some did not answer, on a busy machine
					}, func(said []byte) error { return fewLost(said, n-1) })
					return took, err
				})
			}
			open := b.connect(t)
			defer open.Close()
			master := []string{"-o", "ControlMaster=auto", "-o", "ControlPersist=600s", "-o", "ControlPath=" + controlDir(t) + "/%h"}
			fping(master)
			var s series
			for range 3 {
				fromNothing := b.fromNothing(t, peers)
				pings := b.pings(t, open, peers)
				opened := fping(master)
				s.add("from nothing: fping by ssh / pings", fping(nil).Seconds()/fromNothing.Seconds())
				s.add("from nothing: fping by ssh with curve25519 / pings", fping(curve25519).Seconds()/fromNothing.Seconds())
				s.add(fmt.Sprintf("connections open: fping by ssh / pings (≥ %s)", map[int]string{16: "2.5", 64: "4"}[n]), opened.Seconds()/pings.Seconds())
				s.add("connections open: fping by ssh / verify with full size and proof", opened.Seconds()/b.verify(t, open).Seconds())
			}
			s.log(t, fmt.Sprintf("all pairs of %d hosts", n))
		})
	}
}

// fewLost: fping's summary has a line for each peer, and nine tenths of its packets are answered.
func fewLost(said []byte, peers int) error {
	sent, answered := 0, 0
	found := fpingSummary.FindAllSubmatch(said, -1)
	for _, m := range found {
		n, _ := strconv.Atoi(string(m[1])) // the pattern has digits alone
		a, _ := strconv.Atoi(string(m[2]))
		sent, answered = sent+n, answered+a
	}
	if len(found) != peers || answered*10 < sent*9 {
		return fmt.Errorf("%d of %d peers, %d of %d packets", len(found), peers, answered, sent)
	}
	return nil
}

var fpingSummary = regexp.MustCompile(`xmt/rcv/%loss = ([0-9]+)/([0-9]+)/`)

// introduce makes all hosts neighbours of each other for good.
func (b *benchLab) introduce(t *testing.T) {
	t.Helper()
	fleet := b.connect(t)
	defer fleet.Close()
	var batch strings.Builder
	for _, h := range b.model.Hosts {
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
	for _, h := range b.model.Hosts {
		var said bytes.Buffer
		if code, err := b.lab.Exec(context.Background(), h.Name, []string{"ip", "-force", "-batch", "-"}, strings.NewReader(batch.String()), io.Discard, &said); err != nil || code != 0 {
			t.Fatal(code, err, said.String())
		}
	}
}

// controlDir holds control sockets, which want a short path.
func controlDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ff-bench")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func (b *benchLab) fromNothing(t *testing.T, peers func(i int) []netip.Addr) time.Duration {
	t.Helper()
	start := time.Now()
	fleet := b.connect(t)
	defer fleet.Close()
	connected := time.Since(start)
	return connected + b.pings(t, fleet, peers)
}

// untilSound is what a round took that lost nothing: on a busy machine, one that did is measured again.
func untilSound(t *testing.T, round func() (time.Duration, error)) time.Duration {
	t.Helper()
	var lost error
	for range 5 {
		took, err := round()
		if err == nil {
			return took
		}
		t.Logf("once more: %v", err)
		lost = err
	}
	t.Fatalf("no round was sound; the last one: %v", lost)
	return 0
}

// pings is the job of fping: five packets to all peers, and the losses.
func (b *benchLab) pings(t *testing.T, fleet *apply.Fleet, peers func(i int) []netip.Addr) time.Duration {
	t.Helper()
	return untilSound(t, func() (time.Duration, error) { return b.roundOfPings(fleet, peers) })
}

func (b *benchLab) roundOfPings(fleet *apply.Fleet, peers func(i int) []netip.Addr) (time.Duration, error) {
	start := time.Now()
	var g errgroup.Group
	for i, h := range b.model.Hosts {
		g.Go(func() error {
			got, err := probe.Ping.Call(context.Background(), fleet, h.Name, probe.PingSpec{Netdev: "eth1", Source: h.NICs[0].Addresses[0].Addr(), Targets: peers(i), Count: 5,
				Interval: 5 * time.Millisecond, Timeout: 10 * time.Second, Size: 56})
			for _, r := range got {
				if r.Received != 5 {
					return fmt.Errorf("%s: %+v", h.Name, r)
				}
			}
			return err
		})
	}
	err := g.Wait()
	return time.Since(start), err
}

// verify is the pings of `fabricform verify`: small and full-size packets, and the counters' proof.
func (b *benchLab) verify(t *testing.T, fleet *apply.Fleet) time.Duration {
	t.Helper()
	return untilSound(t, func() (time.Duration, error) {
		start := time.Now()
		results := validators.Run(context.Background(), b.model, fleet, validators.Options{Only: []validators.Check{validators.CheckPing}, Lab: true})
		took := time.Since(start)
		bad := slices.IndexFunc(results, func(r validators.Result) bool { return r.Verdict != validators.Pass })
		switch {
		case len(results) == 0:
			return 0, errors.New("verify pinged nobody")
		case bad >= 0:
			return 0, fmt.Errorf("%d results, %+v", len(results), results[bad])
		}
		return took, nil
	})
}
