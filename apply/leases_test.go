package apply

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestASecondInterruptAbandonsAllLeases: fault 32. Hosts that answer revert now, unless all were asked to commit; no lease
// is renewed any more, and of the others the operator hears when they revert.
func TestASecondInterruptAbandonsAllLeases(t *testing.T) {
	for _, c := range []struct {
		name, hangs string // the step that does not end on b
		fates       string
		why         string // of b
		reverts     int    // how often b is asked
	}{
		{"in a step", "act", "a reverted, b lost", "the host does not answer; if its transaction is still open, it reverts automatically by ", 1},
		{"in the commits", "tx.commit", "a committed, b lost", "the host was asked to commit and has not answered; if its transaction is still open, it reverts automatically by ", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y, leases := newToys(t), &Leases{}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				b := y.hosts["b"]
				b.hangs, b.late["tx.revert"] = c.hangs, true
				o := y.options()
				o.Leases = leases
				ended := make(chan *Report)
				go func() { ended <- y.runIn(ctx, Open(ctx, y.fabric, o), Options{}) }()
				time.Sleep(10 * time.Second)
				cancel()
				synctest.Wait()
				if by, held := leases.Held(); !held || by.Path != "f.hcl" {
					t.Errorf("held: %v, %v", held, by)
				}
				asking, stop := context.WithTimeout(t.Context(), 500*time.Millisecond)
				defer stop()
				r := &Report{Outcomes: leases.Abandon(asking)}
				if got := fatesOf(r); got != c.fates {
					t.Fatalf("fates %q, want %q", got, c.fates)
				}
				if why := r.Outcomes[1].Why; !strings.HasPrefix(why, c.why) {
					t.Errorf("b: %s", why)
				}
				b.mu.Lock()
				before, reverts := b.beats, b.count("tx.revert")
				b.mu.Unlock()
				if before == 0 || reverts != c.reverts {
					t.Errorf("b was renewed %d times, and asked to revert %d times", before, reverts)
				}
				time.Sleep(5 * time.Second)
				b.mu.Lock()
				if b.beats != before {
					t.Errorf("the lease of b was renewed %d times since", b.beats-before)
				}
				if b.hangs != "" {
					b.hangs = ""
					close(b.killed)
				}
				b.mu.Unlock()
				<-ended // by then the program has ended
			})
		})
	}
}
