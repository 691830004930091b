package agent

import (
	"context"
	"strings"
	"sync/atomic"
	"time"
)

// Heartbeats go both ways, because x/crypto/ssh has no keepalive (golang/go#19338) and a dead path
// otherwise goes unnoticed for minutes. Variables of the type, so that tests need not wait.
const (
	beatEvery = 700 * time.Millisecond
	deadAfter = 2800 * time.Millisecond // a dead link is noticed within 3 s
	// A host that is slow to begin is slow to beat, as an emulated one is; and while a program that
	// spins runs on a host of few processors, beats come late.
	mostPatience = 20 * time.Second
)

// Patience is how long silence is borne of a host to which a connection took so long: the login, and
// sending it a helper where it had none. A host that is given long for that is a slow one, however
// quick it was this time.
func Patience(began, given time.Duration) time.Duration {
	return min(max(deadAfter, 4*began, given/3), mostPatience)
}

// pulse watches one direction: it sends a beat regularly and calls dead once nothing was heard.
type pulse struct {
	last atomic.Int64  // monotonic, since start
	load atomic.Int32  // requests under way that load the host
	most time.Duration // of silence
	t0   time.Time
}

func newPulse(most time.Duration) *pulse { return &pulse{t0: time.Now(), most: most} }

// loaded is to be called before such a request; the returned function after it.
func (p *pulse) loaded(method string) (done func()) {
	if !strings.HasPrefix(method, Busy) {
		return func() {}
	}
	p.load.Add(1)
	return func() {
		p.heard() // what was late may still be on its way
		p.load.Add(-1)
	}
}

func (p *pulse) limit() time.Duration {
	if p.load.Load() > 0 {
		return mostPatience
	}
	return p.most
}

func (p *pulse) heard() { p.last.Store(int64(time.Since(p.t0))) }

// run returns when ctx ends, or after dead was called once. Sending is done beside watching: a
// write may block for ever on a dead path.
func (p *pulse) run(ctx context.Context, send func() error, dead func()) {
	p.heard()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with ctx, or when the caller closes the stream under a blocked write
		t := time.NewTicker(beatEvery)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
				if send() != nil {
					return
				}
			}
		}
	}()
	t := time.NewTicker(beatEvery / 4)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			if time.Since(p.t0)-time.Duration(p.last.Load()) > p.limit() {
				dead()
				return
			}
		}
	}
}
