package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/checkpoint"
	"github.com/fabricform/fabricform/retry"
	"github.com/fabricform/fabricform/transport"
)

// lockedRef is the reference to one host's transaction. Its token changes when another helper of the
// same host takes over.
type lockedRef struct {
	mu      sync.Mutex // serialises heartbeats and token changes
	ref     calls.TxRef
	givenUp atomic.Bool // a step is stuck, or the host is asked to revert: the lease is not renewed any more
}

// move sets a new token. The caller must hold the lock of the ref.
func (c *coordinator) move(host string, to calls.TxRef) {
	c.refs[host].ref = to
	c.fleet.leases.hold(c.fleet, host, to, c.lease)
	if c.Moved != nil {
		c.Moved(host, to)
	}
}

func (c *coordinator) renew(ctx context.Context, host string, h *lockedRef) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.fleet.leases.over() {
		return nil
	}
	_, err := calls.Beat.Call(ctx, c.fleet, host, h.ref)
	if err == nil {
		c.fleet.leases.noteRenewed(host)
	}
	return err
}

// reconnect opens a new connection, to the address via if it is valid, lets its helper take the
// transaction over, and closes the earlier connection. It takes at most half a lease, so that the host
// can still be told to revert.
func (c *coordinator) reconnect(ctx context.Context, host string, via netip.Addr) error {
	ctx, cancel := context.WithTimeout(ctx, min(c.lease/2, 20*time.Second))
	defer cancel()
	c.fleet.mu.Lock()
	before := c.fleet.host(host).target
	c.fleet.mu.Unlock()
	target, where := before, "over a new connection"
	if via.IsValid() {
		target.Via, where = via.String(), "at "+via.String()
	}
	client, err := retryConnect(ctx, func(ctx context.Context) (*agent.Client, error) {
		return c.fleet.open(ctx, target)
	})
	if err != nil {
		return fmt.Errorf("the host is unreachable %s: %w", where, err)
	}
	h := c.refs[host]
	h.mu.Lock()
	defer h.mu.Unlock()
	i, err := calls.TakeOver.Call(ctx, client, host, calls.TxTakeOver{TxRef: h.ref, User: c.who.User, Client: c.who.Client})
	if err == nil {
		err = i.Grants()
	}
	if err != nil {
		client.Close()
		return fmt.Errorf("take the transaction over, %s: %w", where, err)
	}
	c.move(host, i.TxRef)
	c.fleet.mu.Lock()
	at := c.fleet.host(host)
	at.target, at.former = target, &before
	c.fleet.mu.Unlock()
	if old := c.fleet.adopt(host, client); old != nil {
		old.Close()
	}
	return nil
}

// TakeOver makes this program the holder of a transaction that another program opened. The hosts then
// refuse that program's steps.
func (c *coordinator) TakeOver(ctx context.Context, hosts []string, user, client string) error {
	return eachHost(hosts, func(host string) error {
		h := c.refs[host]
		h.mu.Lock()
		defer h.mu.Unlock()
		i, err := calls.TakeOver.Call(ctx, c.fleet, host, calls.TxTakeOver{TxRef: h.ref, User: user, Client: client})
		if err == nil {
			err = i.Grants()
		}
		if err == nil {
			c.move(host, i.TxRef)
		}
		return err
	})
}

// retryConnect retries until a connection succeeds or ctx ends. It does not retry after a wrong host key. An attempt that
// the end of ctx cuts short does not tell what is wrong, so the error is that of the attempt before.
func retryConnect(ctx context.Context, try func(context.Context) (*agent.Client, error)) (*agent.Client, error) {
	var last error
	for {
		c, err := try(ctx)
		var key *transport.HostKeyError
		if err == nil || errors.As(err, &key) {
			return c, err
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		if retry.Pause(ctx, 500*time.Millisecond) != nil {
			return nil, last
		}
	}
}

// rememberFormer records the address at which the host will be reachable after a revert of that
// transaction: its opener may have used another address than this program.
func (f *Fleet) rememberFormer(host string, i calls.TxInfo) {
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

// headStart is how long only the current address is tried, before the former one is tried as well: the
// host may have both.
const headStart = 3 * time.Second

// dialEither opens a connection to a host that may or may not have reverted: at its current address and at
// its former one. It returns the first that answers.
func (f *Fleet) dialEither(ctx context.Context, host string) (*agent.Client, transport.Target, error) {
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
		go func() { // close connections that are too late
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

// awaitEnd finds out how the transaction of a host that does not answer has ended. It asks until the lease
// must have expired, and a little longer. If p has a reason, it asks the host to revert as soon as it
// answers.
func (f *Fleet) awaitEnd(ctx context.Context, host string, p calls.TxRevert, lease time.Duration) HostOutcome {
	for end := time.Now().Add(lease + 15*time.Second); ctx.Err() == nil && time.Now().Before(end); {
		try, cancel := context.WithTimeout(ctx, headStart+10*time.Second)
		o, ok := f.askAnew(try, host, p)
		cancel()
		if ok {
			return o
		}
		_ = retry.Pause(ctx, time.Second)
	}
	o := HostOutcome{Host: host, Fate: Lost, Why: "the host does not answer; it reverts automatically when its lease expires"}
	if p.RollBack {
		o.Why = "the host was asked to revert and has not answered since. To see how it ended, run " + f.invocation.Hint("history")
	}
	return o
}

// askAnew asks over a new connection, which it keeps for the host. ok is false if the transaction has not
// ended, or the host does not answer.
func (f *Fleet) askAnew(ctx context.Context, host string, p calls.TxRevert) (o HostOutcome, ok bool) {
	c, by, err := f.dialEither(ctx, host)
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
		stillOpen := i.State.Open() && i.State != checkpoint.RevertFailed || i.State == checkpoint.Committed && p.RollBack
		if i.ID != p.ID || stillOpen {
			continue
		}
		o = outcomeOf(host, i)
		f.mu.Lock()
		if at := f.host(host); o.Fate == Reverted && at.target.Via != by.Via {
			at.target, o.Via = by, cmp.Or(by.Via, by.Address)
		}
		f.mu.Unlock()
		return o, true
	}
	return o, false
}
