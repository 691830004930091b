package agent

import (
	"context"
	"strings"
	"sync/atomic"
	"time"
)

// Both sides send heartbeats, because x/crypto/ssh has no keepalive (golang/go#19338): without them, a broken
// path would go unnoticed for minutes.
const (
	beatEvery = 700 * time.Millisecond
	deadAfter = 2800 * time.Millisecond // so that a broken path is noticed within 3 s
	// An emulated host is slow. A host with few processors sends heartbeats late while a program spins.
	mostPatience = 20 * time.Second
)

// Patience returns how long a host may be silent before its connection counts as broken. began is how long the
// connection took, with the login and the upload of the helper; given is its timeout. A longer timeout also means
// more patience: the operator expects a slow host.
func Patience(began, given time.Duration) time.Duration {
	return min(max(deadAfter, 4*began, given/3), mostPatience)
}

// pulse sends heartbeats, and watches for the other side's.
type pulse struct {
	last atomic.Int64  // when the other side was last heard, since t0
	load atomic.Int32  // number of running requests that load the host
	most time.Duration // the longest silence
	t0   time.Time
}

func newPulse(most time.Duration) *pulse { return &pulse{t0: time.Now(), most: most} }

// countRequest must be called before each request, and the returned function after it. Busy requests extend the limit.
func (p *pulse) countRequest(method string) (done func()) {
	if !strings.HasPrefix(method, Busy) {
		return func() {}
	}
	p.load.Add(1)
	return func() {
		p.noteHeard() // late heartbeats may still arrive
		p.load.Add(-1)
	}
}

func (p *pulse) limit() time.Duration {
	if p.load.Load() > 0 {
		return mostPatience
	}
	return p.most
}

func (p *pulse) noteHeard() { p.last.Store(int64(time.Since(p.t0))) }

// run returns when ctx is done, or after it called dead because nothing was heard for too long. It sends in another
// goroutine, because a write to a broken path may block forever.
func (p *pulse) run(ctx context.Context, send func() error, dead func()) {
	p.noteHeard()
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
	for quiet := (silence{at: time.Since(p.t0)}); ; {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			if quiet.lasts(time.Since(p.t0), time.Duration(p.last.Load())) > p.limit() {
				dead()
				return
			}
		}
	}
}

// silence adds up how long the other side was silent while this process ran: a process that was stopped (Ctrl-Z, SIGSTOP, a
// virtual machine that was paused) could hear nothing, and may find at its next step what came meanwhile.
type silence struct {
	at, heard time.Duration // of the last look
	sum       time.Duration
}

// lasts returns the length of the silence at the moment now; heard is when the other side was last heard.
func (s *silence) lasts(now, heard time.Duration) time.Duration {
	if heard != s.heard {
		s.sum = 0
	}
	s.sum += min(now-s.at, beatEvery) // looks are a quarter of that apart
	s.at, s.heard = now, heard
	return s.sum
}
