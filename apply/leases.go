package apply

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/parallel"
	"github.com/fabricform/fabricform/retry"
)

// Leases are the transactions of this program: those that are being opened, those that are open, and how the others ended.
// An operator who no longer waits for the hosts abandons all of them at once. Its methods are safe for concurrent use;
// those of nil do nothing.
type Leases struct {
	mu        sync.Mutex
	held      map[string]lease // by host
	abandoned bool
}

// lease is one host's transaction.
type lease struct {
	fleet *Fleet
	ref   calls.TxRef // empty while the transaction is being opened
	time  time.Duration
	until time.Time // when the host reverts at the latest, unless the lease is renewed
	// asked is what the host was asked to do with its transaction, "commit" or "revert"; "" if it is still open. A host
	// that was asked to commit is not asked to revert: others may have committed.
	asked string
	ended *HostOutcome // as the engine reports it; nil if that is not known yet
}

// hold adds a host's transaction, or changes its token. An empty ref means that the transaction is being opened.
func (l *Leases) hold(f *Fleet, host string, ref calls.TxRef, length time.Duration) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == nil {
		l.held = map[string]lease{}
	}
	l.held[host] = lease{fleet: f, ref: ref, time: length, until: time.Now().Add(length)}
}

// noteRenewed records that a host has renewed its lease.
func (l *Leases) noteRenewed(host string) {
	l.edit(host, func(h *lease) { h.until = time.Now().Add(h.time) })
}

// reverts records that a host is asked to revert a transaction that was committed.
func (l *Leases) reverts(host string) { l.edit(host, func(h *lease) { h.asked = "revert" }) }

// end records how a host's transaction has ended.
func (l *Leases) end(o HostOutcome) { l.edit(o.Host, func(h *lease) { h.ended = &o }) }

func (l *Leases) edit(host string, do func(*lease)) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if h, ok := l.held[host]; ok {
		do(&h)
		l.held[host] = h
	}
}

// commit records that hosts are asked to commit. It returns false if the leases were abandoned: the hosts are already asked
// to revert.
func (l *Leases) commit(hosts []string) bool {
	if l == nil {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, host := range hosts {
		if h, ok := l.held[host]; ok && !l.abandoned {
			h.asked = "commit"
			l.held[host] = h
		}
	}
	return !l.abandoned
}

// drop removes hosts on which no transaction was opened, or whose transactions go on without this program. It keeps how
// those of the others ended.
func (l *Leases) drop(hosts ...string) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, host := range hosts {
		if l.held[host].ended == nil {
			delete(l.held, host)
		}
	}
}

// over reports whether the leases were abandoned, so that none may be renewed.
func (l *Leases) over() bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.abandoned
}

// Held reports whether a transaction is open, or is being opened, and how the operator named its fabric.
func (l *Leases) Held() (by fabric.Invocation, any bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.held {
		if by = h.fleet.invocation; h.ended == nil {
			return by, true
		}
	}
	return by, false
}

// Abandon stops the renewal of all leases, asks every host whose transaction is open to revert now, and returns the
// outcomes of all transactions, sorted, when all have answered or ctx ends. A host that has not answered is Lost, and its
// Why says when it reverts automatically. A host that was already asked to commit is only asked how that ended.
func (l *Leases) Abandon(ctx context.Context) []HostOutcome {
	l.mu.Lock()
	l.abandoned = true
	hosts := slices.Sorted(maps.Keys(l.held))
	l.mu.Unlock()
	out := make([]HostOutcome, len(hosts))
	parallel.Each(0, hosts, func(i int, host string) { out[i] = l.abandon(ctx, host) })
	return slices.DeleteFunc(out, func(o HostOutcome) bool { return o.Host == "" })
}

// abandon returns the outcome of one host; the zero value if it turns out that no transaction was opened there. What the
// engine reports meanwhile comes first, so that two outcomes of one host never differ.
func (l *Leases) abandon(ctx context.Context, host string) HostOutcome {
	why := "the host does not answer"
	for {
		l.mu.Lock()
		h, has := l.held[host]
		l.mu.Unlock()
		switch {
		case !has:
			return HostOutcome{}
		case h.ended != nil:
			return *h.ended
		case h.ref.ID == "":
			why = "its transaction was being opened"
		case h.asked != "":
			why = "the host was asked to " + h.asked + " and has not answered"
			all, _ := calls.Transactions.Call(ctx, h.fleet, host, struct{}{}) // without an answer, the outcome is unknown
			for _, i := range all {
				if o := outcomeOf(host, i); i.ID == h.ref.ID && o.Fate != Lost {
					return o
				}
			}
		default:
			i, err := calls.Revert.Call(ctx, h.fleet, host, calls.TxRevert{TxRef: h.ref, Why: "interrupted twice"})
			if o := outcomeOf(host, i); err == nil && o.Fate != Lost {
				return o
			}
			why = "the host does not answer"
			if said := (*agent.Error)(nil); errors.As(err, &said) {
				why = "the host did not revert: " + said.Message
			}
		}
		if retry.Pause(ctx, 50*time.Millisecond) != nil {
			break
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	h, has := l.held[host]
	switch {
	case !has:
		return HostOutcome{}
	case h.ended != nil:
		return *h.ended
	}
	if h.ref.ID == "" {
		h.until = time.Now().Add(h.time)
	}
	if h.time > 0 {
		why += "; if its transaction is still open, it reverts automatically by " + h.until.Format("15:04:05")
	}
	return HostOutcome{Host: host, Fate: Lost, Why: why}
}
