package apply

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/parallel"
)

// Leases are the transactions that this program holds open. An operator who no longer waits for the hosts abandons all
// of them at once. Its methods are safe for concurrent use; those of nil do nothing.
type Leases struct {
	mu        sync.Mutex
	held      map[string]lease // by host
	abandoned bool
}

// lease is one host's transaction.
type lease struct {
	fleet *Fleet
	ref   calls.TxRef
	time  time.Duration
	until time.Time // when the host reverts at the latest, unless the lease is renewed
	// asked is what the host was asked to do with its transaction, "commit" or "revert"; "" if it is still open. A host
	// that was asked to commit is not asked to revert: others may have committed.
	asked string
}

// hold adds a host's transaction, or changes its token.
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

// renewed records that a host has renewed its lease.
func (l *Leases) renewed(host string) {
	l.edit(host, func(h *lease) { h.until = time.Now().Add(h.time) })
}

// asked records that a host is asked to end its transaction.
func (l *Leases) asked(host, what string) { l.edit(host, func(h *lease) { h.asked = what }) }

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

// drop removes hosts whose transactions have ended, or go on without this program.
func (l *Leases) drop(hosts ...string) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, host := range hosts {
		delete(l.held, host)
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

// Held reports whether a transaction is open, and how the operator named its fabric.
func (l *Leases) Held() (by fabric.Invocation, any bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.held {
		return h.fleet.invocation, true
	}
	return by, false
}

// Abandon stops the renewal of all leases, asks every host to revert now, and returns the outcomes, sorted, when all have
// answered or ctx ends. A host that has not answered is Lost, and its Why says when it reverts automatically. A host that
// was already asked to commit, or to revert, is only asked how that ended.
func (l *Leases) Abandon(ctx context.Context) []HostOutcome {
	l.mu.Lock()
	l.abandoned = true
	held := maps.Clone(l.held)
	l.mu.Unlock()
	hosts := slices.Sorted(maps.Keys(held))
	out := make([]HostOutcome, len(hosts))
	parallel.Each(0, hosts, func(i int, host string) { out[i] = held[host].abandon(ctx, host) })
	return out
}

func (h lease) abandon(ctx context.Context, host string) HostOutcome {
	o := HostOutcome{Host: host, Fate: Lost}
	if h.asked != "" {
		all, _ := calls.Transactions.Call(ctx, h.fleet, host, struct{}{}) // without an answer, the outcome is unknown
		for _, i := range all {
			if now := outcomeOf(host, i); i.ID == h.ref.ID && now.Fate != Lost {
				return now
			}
		}
		o.Why = "the host was asked to " + h.asked + " and has not answered"
	} else {
		i, err := calls.Revert.Call(ctx, h.fleet, host, calls.TxRevert{TxRef: h.ref, Why: "interrupted twice"})
		if err == nil {
			return outcomeOf(host, i)
		}
		o.Why = "the host does not answer"
	}
	if h.time > 0 {
		o.Why += "; if its transaction is still open, it reverts automatically by " + h.until.Format("15:04:05")
	}
	return o
}
