package apply

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fabricform/fabricform/checkpoint"
	"github.com/fabricform/fabricform/transport"
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

// TestASecondInterruptSaysOneWordAboutEachHost: in every stage of an apply, of which host b takes a second for a step, or never
// ends it. The second interrupt comes half a second after the first. Each host whose transaction is open is named once,
// and no host is in another state than the one that is named.
func TestASecondInterruptSaysOneWordAboutEachHost(t *testing.T) {
	const opening, silent = "its transaction was being opened", "the host does not answer"
	for _, c := range []struct {
		name, host, method, after string // the step of the host, after another one of it
		plain                     bool   // no file is written
		options                   Options
		late, never               string // the fates, if the step takes a second, and if it never ends
		why                       string // of b then
	}{
		{name: "connecting", host: "b", method: "dial"},
		{name: "completing what a reset interrupted", host: "b", method: "tx.finish"},
		{name: "reading", host: "b", method: "snapshot"},
		{name: "preparing", host: "b", method: "tx.ready"},
		{name: "opening the first", host: "a", method: "tx.open", late: "a reverted", never: "a lost"},
		{name: "opening the second", host: "b", method: "tx.open", late: "a reverted, b reverted", never: "a reverted, b lost", why: opening},
		{name: "changing", host: "b", method: "act", late: "a reverted, b reverted", never: "a reverted, b lost", why: silent},
		{name: "the gate's read", host: "b", method: "snapshot", after: "act", late: "a reverted, b reverted", never: "a reverted, b lost", why: silent},
		{name: "preparing the commit", host: "b", method: "tx.prepare", late: "a reverted, b reverted", never: "a reverted, b lost", why: silent},
		{name: "persisting", host: "b", method: "tx.persist", late: "a reverted, b reverted", never: "a reverted, b lost", why: silent},
		{name: "persisting nothing", host: "b", method: "tx.persist", plain: true, late: "a reverted, b reverted", never: "a reverted, b lost", why: silent},
		{name: "committing", host: "b", method: "tx.commit", late: "a committed, b committed", never: "a committed, b lost", why: "the host was asked to commit and has not answered"},
		{name: "writing the history", host: "b", method: "enrol", late: "a committed, b committed", never: "a committed, b committed"},
		{name: "checking", host: "b", method: "snapshot", after: "enrol", options: Options{CheckRollback: true}, late: "a committed, b committed", never: "a committed, b committed"},
		{name: "leaving the confirmation to the operator", host: "b", method: "enrol", options: Options{Manual: true}, late: "a waiting_for_confirmation, b waiting_for_confirmation", never: "a waiting_for_confirmation, b waiting_for_confirmation"},
	} {
		for _, hangs := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, for ever %v", c.name, hangs), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					y, leases := newToys(t), &Leases{}
					y.lasts = !c.plain
					ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
					defer cancel()
					h, passed := y.hosts[c.host], c.after == ""
					h.on = func(method string) {
						if passed = passed || method == c.after; !passed || method != c.method || ctx.Err() != nil {
							return
						}
						cancel()
						if hangs {
							h.hangs, h.late["tx.revert"] = method, true
						} else {
							h.late[method] = true
						}
					}
					o := y.options()
					o.Leases = leases
					dial := o.Dial
					o.Dial = func(ctx context.Context, to transport.Target) (io.ReadWriteCloser, error) {
						if c.method == "dial" && to.Name == c.host {
							cancel()
							<-ctx.Done()
							return nil, ctx.Err()
						}
						return dial(ctx, to)
					}
					ended := make(chan *Report, 1)
					go func() { ended <- y.runIn(ctx, Open(ctx, y.fabric, o), c.options) }()
					<-ctx.Done()
					time.Sleep(500 * time.Millisecond)
					patience, want := 1400*time.Millisecond, c.late
					if hangs {
						patience, want = 400*time.Millisecond, c.never
					}
					asking, stop := context.WithTimeout(t.Context(), patience)
					defer stop()
					r := &Report{Outcomes: leases.Abandon(asking)}
					if got := fatesOf(r); got != want {
						t.Errorf("fates %q, want %q", got, want)
					}
					said := map[string]HostOutcome{}
					for _, o := range r.Outcomes {
						said[o.Host] = o
					}
					for name, h := range y.hosts {
						h.mu.Lock()
						state, o := h.tx.State, said[name]
						h.mu.Unlock()
						is := map[checkpoint.State]Fate{checkpoint.Committed: Committed, checkpoint.Reverted: Reverted}[state]
						switch {
						case o.Fate == Lost && !strings.Contains(o.Why, "; if its transaction is still open, it reverts automatically by "):
							t.Errorf("host %s: %s", name, o.Why)
						case o.Fate == Lost && name == "b" && !strings.HasPrefix(o.Why, c.why):
							t.Errorf("host %s: %s, want %s", name, o.Why, c.why)
						case o.Fate != Lost && o.Fate != Waiting && o.Fate != is:
							t.Errorf("host %s is %s, and %q is said", name, state, o.Fate)
						}
					}
					if h.mu.Lock(); h.hangs != "" {
						h.hangs = ""
						close(h.killed)
					}
					h.mu.Unlock()
					r = <-ended                 // by then the program has ended
					time.Sleep(2 * time.Second) // late answers end
					synctest.Wait()
					for _, o := range r.Outcomes {
						if before := said[o.Host]; before.Fate != o.Fate && before.Fate != Lost && o.Fate != "" && o.Fate != Untouched {
							t.Errorf("host %s: %q was said, and %q is reported", o.Host, before.Fate, o.Fate)
						}
					}
				})
			})
		}
	}
}
