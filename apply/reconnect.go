package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/checkpoint"
	"github.com/fabricform/fabricform/retry"
	"github.com/fabricform/fabricform/transport"
)

// hold is this program's hold on one host's transaction. Its token changes when another helper of
// the same host takes over.
type hold struct {
	mu  sync.Mutex // a beat and a change of the token exclude each other
	ref calls.TxRef
}

// move gives a hold its new token; it is called with the hold locked.
func (t *transaction) move(host string, to calls.TxRef) {
	t.refs[host].ref = to
	if t.Moved != nil {
		t.Moved(host, to)
	}
}

func (t *transaction) renew(ctx context.Context, host string, h *hold) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := calls.Beat.Call(ctx, t.fleet, host, h.ref)
	return err
}

// reconnect comes in by a new connection, through another address where one is given, and goes on
// over that one: its helper takes the transaction over, and the earlier connection is closed. It
// takes half a lease at most, so that the host is still there to be told to go back.
func (t *transaction) reconnect(ctx context.Context, host string, via netip.Addr) error {
	ctx, cancel := context.WithTimeout(ctx, min(t.lease/2, 20*time.Second))
	defer cancel()
	t.fleet.mu.Lock()
	before := t.fleet.host(host).target
	t.fleet.mu.Unlock()
	target, where := before, "by a new connection"
	if via.IsValid() {
		target.Via, where = via.String(), "through "+via.String()
	}
	c, err := t.fleet.insist(ctx, func(ctx context.Context) (*agent.Client, error) {
		return t.fleet.open(ctx, target)
	})
	if err != nil {
		return fmt.Errorf("it cannot be reached %s: %w", where, err)
	}
	h := t.refs[host]
	h.mu.Lock()
	defer h.mu.Unlock()
	i, err := calls.TakeOver.Call(ctx, c, host, calls.TxTakeOver{TxRef: h.ref, User: t.who.User, Client: t.who.Client})
	if err != nil {
		c.Close()
		return fmt.Errorf("go on over the connection %s: %w", where, err)
	}
	t.move(host, i.TxRef)
	t.fleet.mu.Lock()
	at := t.fleet.host(host)
	at.target, at.former = target, &before
	t.fleet.mu.Unlock()
	if old := t.fleet.adopt(host, c); old != nil {
		old.Close()
	}
	return nil
}

// TakeOver makes this program the holder of a transaction that another one opened, on those hosts: the
// earlier one's steps are refused from here on.
func (t *transaction) TakeOver(ctx context.Context, hosts []string, user, client string) error {
	return eachHost(hosts, func(host string) error {
		h := t.refs[host]
		h.mu.Lock()
		defer h.mu.Unlock()
		i, err := calls.TakeOver.Call(ctx, t.fleet, host, calls.TxTakeOver{TxRef: h.ref, User: user, Client: client})
		if err == nil {
			t.move(host, i.TxRef)
		}
		return err
	})
}

// insist tries until it works or ctx ends, with patience for a blip. A wrong host key is none.
func (f *Fleet) insist(ctx context.Context, try func(context.Context) (*agent.Client, error)) (*agent.Client, error) {
	for {
		c, err := try(ctx)
		var key *transport.HostKeyError
		if err == nil || errors.As(err, &key) {
			return c, err
		}
		if retry.Pause(ctx, 500*time.Millisecond) != nil {
			return nil, err
		}
	}
}

// goesBackTo enters where a host is found once it has gone back from that transaction, as its opener
// may have come in by another address than this program did.
func (f *Fleet) goesBackTo(host string, i calls.TxInfo) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := f.host(host)
	if at.former != nil || !i.Former.IsValid() {
		return
	}
	before := at.target
	before.Via = i.Former.String()
	at.former = &before
}

// headStart is how long a host is asked as it is reached now, before it is asked at its former address
// as well: it may have both for good.
const headStart = 3 * time.Second

// anyway opens a connection to a host of which it is not known whether it went back: as it is
// reached now, and as it was before a plan moved it. The first that answers is taken.
func (f *Fleet) anyway(ctx context.Context, host string) (*agent.Client, transport.Target, error) {
	f.mu.Lock()
	at := f.host(host)
	ways := []transport.Target{at.target}
	if at.former != nil {
		ways = append(ways, *at.former)
	}
	f.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		c   *agent.Client
		by  transport.Target
		err error
	}
	answers, silent := make(chan answer), make(chan struct{})
	for i, target := range ways {
		go func() { // ends soon after ctx
			if i > 0 {
				select {
				case <-silent:
				case <-ctx.Done():
				case <-time.After(headStart):
				}
			}
			c, err := f.open(ctx, target)
			if i == 0 && err != nil {
				close(silent)
			}
			answers <- answer{c, target, err}
		}()
	}
	var errs []error
	for n := 1; n <= len(ways); n++ {
		a := <-answers
		if a.err != nil {
			errs = append(errs, a.err)
			continue
		}
		go func() { // the others come to nothing, or too late
			for range len(ways) - n {
				if late := <-answers; late.c != nil {
					late.c.Close()
				}
			}
		}()
		return a.c, a.by, nil
	}
	return nil, transport.Target{}, errors.Join(errs...)
}

// resolve finds out how a host ended that does not answer: it is asked anew until a lease has run out
// for certain, and then some. Where p says why, it is told to go back as soon as it hears.
func (f *Fleet) resolve(ctx context.Context, host string, p calls.TxRevert, lease time.Duration) HostOutcome {
	for end := time.Now().Add(lease + 15*time.Second); ctx.Err() == nil && time.Now().Before(end); {
		try, cancel := context.WithTimeout(ctx, headStart+10*time.Second)
		o, ok := f.askAnew(try, host, p)
		cancel()
		if ok {
			return o
		}
		_ = retry.Pause(ctx, time.Second)
	}
	o := HostOutcome{Host: host, Fate: Lost, Why: "it does not answer; it goes back by itself when its lease runs out"}
	if p.Undo {
		o.Why = "it was told to go back and does not answer since; call `fabricform rollback` again once it is reached"
	}
	return o
}

// askAnew asks by a new connection, which becomes the host's; it is not ok while the transaction has
// not ended, or nobody answers.
func (f *Fleet) askAnew(ctx context.Context, host string, p calls.TxRevert) (o HostOutcome, ok bool) {
	c, by, err := f.anyway(ctx, host)
	if err != nil {
		return o, false
	}
	all, err := calls.Transactions.Call(ctx, c, host, struct{}{})
	if before := f.adopt(host, c); before != nil {
		before.Close()
	}
	if p.Why != "" && err == nil {
		if i, err := calls.Revert.Call(ctx, c, host, p); err == nil {
			all = []calls.TxInfo{i}
		}
	}
	for _, i := range all {
		lasts := i.State.Open() && i.State != checkpoint.RevertFailed || i.State == checkpoint.Committed && p.Undo
		if i.ID != p.ID || lasts {
			continue
		}
		o = ended(host, i)
		f.mu.Lock()
		if at := f.host(host); o.Fate == Reverted && at.target.Via != by.Via {
			at.target, o.Via = by, cmp.Or(by.Via, by.Address)
		}
		f.mu.Unlock()
		return o, true
	}
	return o, false
}
