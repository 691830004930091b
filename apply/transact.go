package apply

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/checkpoint"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
)

// Fate is how a transaction ended on one host.
type Fate string

// The fates, as in JSON.
const (
	Committed    Fate = "committed"
	Reverted     Fate = "reverted" // and checked: as before, but for changes of others that it kept
	RevertFailed Fate = "revert_failed"
	Untouched    Fate = "untouched"
	Lost         Fate = "lost"                     // the host does not answer; it reverts automatically when its lease expires
	Waiting      Fate = "waiting_for_confirmation" // pending: the host reverts if its lease expires first
	Unfinished   Fate = "unfinished"               // an incomplete driver stack; the next apply completes it
)

// String returns the fate for people.
func (f Fate) String() string { return strings.ReplaceAll(string(f), "_", " ") }

// txOptions say who opens a transaction, and how long its lease is.
type txOptions struct {
	Fabric, Plan string
	User         string // user@machine of the operator
	Client       string // names this run
	Lease        time.Duration
	Secrets      fabric.Secrets // of the plan's resources
	// Applied returns what a host is once its transaction is committed; nil if the host keeps what it has.
	Applied func(host string) *resource.Applied
}

// heldError says that hosts were not changed because another transaction is open there.
type heldError struct {
	mu    sync.Mutex // guards Hosts
	Hosts map[string]string
	by    fabric.Invocation
}

// add adds a host. It is safe for concurrent use.
func (e *heldError) add(host, why string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.Hosts[host] = why
}

func (e *heldError) Error() string {
	var lines []string
	for _, h := range slices.Sorted(maps.Keys(e.Hosts)) {
		lines = append(lines, "host "+h+": "+e.Hosts[h])
	}
	return strings.Join(lines, "; ") + "; run " + e.by.Hint("pending")
}

// coordinator leads the transactions of one plan, one on every host that it changes. An open transaction locks
// its host for other clients. A host whose lease is not renewed reverts automatically.
type coordinator struct {
	fleet  *Fleet
	fabric string
	who    txOptions
	lease  time.Duration
	mu     sync.Mutex            // guards refs while transactions are opened
	refs   map[string]*lockedRef // by host
	ctx    context.Context       // of the heartbeats
	stop   context.CancelFunc    // stops the heartbeats
	beats  sync.WaitGroup
	// Moved is called when a host's transaction has a new token: the token that Refs returned before is
	// invalid. It is called from several goroutines, must be set before the first step, and may be nil.
	Moved func(host string, to calls.TxRef)
}

func newCoordinator(f *Fleet, who txOptions) *coordinator {
	c := &coordinator{fleet: f, fabric: who.Fabric, who: who, lease: who.Lease, refs: map[string]*lockedRef{}}
	c.ctx, c.stop = context.WithCancel(context.Background())
	return c
}

// Hosts returns the hosts whose transactions are open, sorted.
func (c *coordinator) Hosts() []string { return slices.Sorted(maps.Keys(c.refs)) }

// begin asks every host that the plan changes whether it can revert automatically, and then opens a transaction
// on each. If one host cannot, nothing is changed on any; the error is a *heldError if another transaction
// is open.
func (f *Fleet) begin(ctx context.Context, p *planner.Plan, o txOptions) (*coordinator, error) {
	orders := txOrders(p, o)
	hosts := slices.Sorted(maps.Keys(orders))
	if err := f.checkReady(ctx, hosts); err != nil {
		return nil, err
	}
	c := newCoordinator(f, o)
	held := &heldError{Hosts: map[string]string{}, by: f.invocation}
	open := func(host string) error {
		err := c.open(ctx, host, orders[host])
		var refused *agent.Error
		if errors.As(err, &refused) && refused.Held {
			held.add(host, refused.Message)
		}
		return err
	}
	// If two clients start at once, the first host decides: otherwise each could get half of the hosts, and
	// neither would succeed.
	err := eachHost(hosts[:1], open)
	if err == nil {
		err = eachHost(hosts[1:], open)
	}
	if ctx.Err() != nil {
		err = errInterrupted
	}
	if err == nil {
		return c, nil
	}
	_, back := c.Revert(context.WithoutCancel(ctx), c.Hosts(), "the transaction could not be opened on all hosts")
	c.Close()
	f.leases.drop(hosts...) // also hosts whose answer was lost: their transactions end with their leases
	if len(held.Hosts) > 0 {
		return nil, errors.Join(held, back)
	}
	return nil, errors.Join(fmt.Errorf("nothing was changed on any host: %w", err), back)
}

// txOrders returns what each host that the plan changes is asked to open.
func txOrders(p *planner.Plan, o txOptions) map[string]calls.TxOpen {
	out := map[string]calls.TxOpen{}
	for _, h := range p.Hosts {
		if len(h.Actions) == 0 {
			continue
		}
		order := calls.TxOpen{Fabric: o.Fabric, Plan: o.Plan, User: o.User, Client: o.Client, Lease: o.Lease,
			Atoms: atoms(h), Stays: stays(h), Steps: persistSteps(o.Fabric, o.Secrets, h)}
		if o.Applied != nil {
			order.Applied = o.Applied(h.Name)
		}
		out[h.Name] = order
	}
	hosts := slices.Sorted(maps.Keys(out))
	for host, order := range out {
		order.Hosts = hosts[:min(len(hosts), checkpoint.MaxHosts)]
		out[host] = order
	}
	return out
}

// checkReady asks the hosts whether they can revert automatically, and whether another transaction is open. It opens none.
func (f *Fleet) checkReady(ctx context.Context, hosts []string) error {
	held := &heldError{Hosts: map[string]string{}, by: f.invocation}
	err := eachHost(hosts, func(host string) error {
		r, err := calls.Ready.Call(ctx, f, host, struct{}{})
		if err == nil && r.Held != nil {
			held.add(host, Describe(*r.Held, f.invocation))
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("nothing was changed on any host: %w", orInterrupted(ctx, err))
	}
	if len(held.Hosts) > 0 {
		return held
	}
	return nil
}

// open opens the transaction of one host, and renews its lease from then on: the other hosts may take longer than a lease
// to open theirs.
//
// If the host refused, nothing is open there. If its answer is lost, late or without a token, its transaction may be open,
// and nobody can end it: the host's helper ends it once it has no client, or else the host reverts when the lease expires.
func (c *coordinator) open(ctx context.Context, host string, order calls.TxOpen) error {
	if ctx.Err() != nil {
		return errInterrupted
	}
	f := c.fleet
	f.leases.hold(f, host, calls.TxRef{}, c.lease)
	// Without cancel: only the answer has the token, without which nobody can end the transaction before its lease.
	i, err := calls.Open.Call(context.WithoutCancel(ctx), f, host, order)
	if client := f.client(host); isStuck(err) && client != nil {
		client.Close() // without a client, the helper ends what it opens
	}
	if err == nil {
		err = i.Grants()
	}
	var refused *agent.Error
	switch {
	case err == nil:
		c.add(host, i.TxRef)
	case errors.As(err, &refused) && !refused.Stuck:
		f.leases.drop(host)
	}
	return err
}

// atoms returns all atoms that a host's plan changes.
func atoms(h planner.HostPlan) []resource.Atom {
	var out []resource.Atom
	for _, a := range h.Actions {
		for _, c := range a.Changes {
			if c.Atom != "" {
				out = append(out, c.Atom)
			}
		}
		// An action without changes of its own restores what an earlier action disturbed.
		out = append(out, a.Forget...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// stays returns the atoms of the host's changes whose values the changes leave as they are.
func stays(h planner.HostPlan) []resource.Atom {
	changed := map[resource.Atom]bool{}
	for _, a := range h.Actions {
		for _, c := range a.Changes {
			changed[c.Atom] = true
		}
	}
	return slices.DeleteFunc(atoms(h), func(a resource.Atom) bool { return changed[a] })
}

// Describe describes an open transaction for people.
func Describe(i calls.TxInfo, by fabric.Invocation) string {
	s := fmt.Sprintf("a transaction of fabric %q is open, by %s from %s since %s (%s)",
		i.Fabric, i.Holder.User, i.Holder.From, i.Since.Local().Format(time.DateTime), i.State)
	if i.State == checkpoint.RevertFailed {
		return s + ": an operator must intervene. Repair the host, then run " + by.Hint("unlock")
	}
	if i.Rebooted && i.State == checkpoint.Persisting {
		return s + "; the host was reset after it was ready to commit, and the next apply completes it"
	}
	return s + fmt.Sprintf("; the host reverts automatically in %s", i.Remaining.Round(time.Second))
}

// beatEvery is how often the lease is renewed. The host writes each heartbeat to its disk.
const beatEvery = time.Second

// add adds the open transaction of a host, and renews its lease while this program runs. A heartbeat that fails does not
// end the renewals: a new connection may reach the host, and a host whose disk refused one write may accept the next. If
// the transaction has ended, the host refuses, and the next action reports that.
func (c *coordinator) add(host string, ref calls.TxRef) {
	h := &lockedRef{ref: ref}
	c.mu.Lock()
	c.refs[host] = h
	c.mu.Unlock()
	c.fleet.leases.hold(c.fleet, host, ref, c.lease)
	c.beats.Go(func() {
		tick := time.NewTicker(beatEvery)
		defer tick.Stop()
		for {
			select {
			case <-c.ctx.Done():
				return
			case <-tick.C:
				if h.givenUp.Load() {
					return
				}
				_ = c.renew(c.ctx, host, h)
			}
		}
	})
}

// Leave removes hosts whose transaction has ended.
func (c *coordinator) Leave(hosts []string) {
	for _, h := range hosts {
		delete(c.refs, h)
	}
	c.fleet.leases.drop(hosts...)
}

// Refs returns the references to the hosts' transactions, with which another client can continue them.
func (c *coordinator) Refs() map[string]calls.TxRef {
	out := map[string]calls.TxRef{}
	for host, h := range c.refs {
		out[host] = h.ref
	}
	return out
}

// Close stops the heartbeats: leases of open transactions then expire.
func (c *coordinator) Close() {
	c.fleet.leases.drop(c.Hosts()...)
	c.stop()
	c.beats.Wait()
}

// Reach checks that every host accepts a new connection. It retries for a while.
func (c *coordinator) Reach(ctx context.Context) error {
	return eachHost(c.Hosts(), func(host string) error {
		patient, cancel := context.WithTimeout(ctx, min(c.lease, 40*time.Second))
		defer cancel()
		client, err := retryConnect(patient, func(ctx context.Context) (*agent.Client, error) { return c.fleet.redial(ctx, host) })
		if err != nil {
			return orInterrupted(ctx, fmt.Errorf("the host no longer accepts a new connection: %w", err))
		}
		client.Close()
		return nil
	})
}

// Prepare records on all hosts that their changes were made and checked.
func (c *coordinator) Prepare(ctx context.Context) error {
	return eachHost(c.Hosts(), func(host string) error {
		i, err := txStep(ctx, c, calls.Prepare, host, c.refs[host].ref)
		if err == nil {
			err = i.Shows(c.refs[host].ref, checkpoint.Prepared)
		}
		return orInterrupted(ctx, err)
	})
}

// Commit ends the transaction on all hosts and keeps the changes. fates says how it ended on each host. A
// host that stopped responding between its preparation and its commit is Lost.
func (c *coordinator) Commit(ctx context.Context) (fates map[string]HostOutcome, err error) {
	fates = map[string]HostOutcome{}
	var mu sync.Mutex
	if !c.fleet.leases.commit(c.Hosts()) {
		return nil, errInterrupted
	}
	err = eachHost(c.Hosts(), func(host string) error {
		i, err := txStep(ctx, c, calls.Commit, host, c.refs[host].ref)
		if err == nil {
			err = i.Shows(c.refs[host].ref, checkpoint.Committed)
		}
		o := HostOutcome{Host: host, Fate: Committed}
		if err != nil {
			o = c.fleet.awaitEnd(ctx, host, calls.TxRevert{TxRef: c.refs[host].ref}, c.lease)
		}
		c.fleet.leases.end(o)
		mu.Lock()
		defer mu.Unlock()
		fates[host] = o
		if o.Fate != Committed {
			return err
		}
		return nil
	})
	c.Close()
	return fates, err
}

// Revert restores the previous state of the hosts. An unreachable host reverts automatically; Revert waits until
// its lease must have expired.
func (c *coordinator) Revert(ctx context.Context, hosts []string, why string) (map[string]HostOutcome, error) {
	fates := map[string]HostOutcome{}
	var mu sync.Mutex
	err := eachHost(hosts, func(host string) error {
		o := c.revertHost(ctx, host, why)
		c.fleet.leases.end(o)
		mu.Lock()
		defer mu.Unlock()
		fates[host] = o
		if o.Fate != Reverted {
			return fmt.Errorf("%s: %s", o.Fate, strings.Join(append([]string{o.Why}, o.Unrestored...), "; "))
		}
		return nil
	})
	return fates, err
}

// revertHost reverts one host. It stops renewing the lease first: a host that refuses, or that does not answer, must still
// revert when its lease expires.
func (c *coordinator) revertHost(ctx context.Context, host, why string) HostOutcome {
	c.refs[host].givenUp.Store(true)
	p := calls.TxRevert{TxRef: c.refs[host].ref, Why: why}
	i, err := calls.Revert.Call(ctx, c.fleet, host, p)
	if err != nil {
		return c.fleet.awaitEnd(ctx, host, p, c.lease)
	}
	return outcomeOf(host, i)
}

// revertedBefore says of which hosts the transaction was ended for another reason than ours: by another operator, or because
// its lease had expired. The host records the first reason.
func revertedBefore(fates map[string]HostOutcome, why string) error {
	var errs []error
	for _, host := range slices.Sorted(maps.Keys(fates)) {
		if f := fates[host]; f.Fate == Reverted && !checkpoint.Records(f.Why, why) {
			errs = append(errs, fmt.Errorf("host %s had already reverted: %s", host, f.Why))
		}
	}
	return errors.Join(errs...)
}

// outcomeOf returns how a host's transaction ended. If it is still open, the host is Lost.
func outcomeOf(host string, i calls.TxInfo) HostOutcome {
	o := HostOutcome{Host: host, Why: i.Why, Unrestored: i.Unrestored, Kept: i.Kept, Overwritten: i.Overwritten}
	switch i.State {
	case checkpoint.Committed:
		o.Fate = Committed
	case checkpoint.Reverted:
		o.Fate = Reverted
	case checkpoint.RevertFailed, checkpoint.Released:
		o.Fate = RevertFailed
	default:
		o.Fate = Lost
	}
	return o
}

// resume continues transactions that another run opened and prepared, and renews their leases from now on.
func (f *Fleet) resume(ctx context.Context, fabric string, refs map[string]calls.TxRef) *coordinator {
	all, _ := f.Transactions(ctx) // the next step finds hosts that do not answer
	c := newCoordinator(f, txOptions{Fabric: fabric, Lease: checkpoint.DefaultLease})
	for host, ref := range refs {
		c.add(host, ref)
		for _, i := range all[host] {
			if i.ID == ref.ID {
				f.rememberFormer(host, i)
			}
		}
	}
	return c
}

// Transactions returns the transactions that each host keeps, the latest last. A host that does not answer
// has no entry. The error names it, or Unreachable does if it did not answer in time.
func (f *Fleet) Transactions(ctx context.Context) (map[string][]calls.TxInfo, error) {
	return f.transactionsOn(ctx, f.Hosts())
}

func (f *Fleet) transactionsOn(ctx context.Context, hosts []string) (map[string][]calls.TxInfo, error) {
	out := map[string][]calls.TxInfo{}
	var mu sync.Mutex
	err := eachHost(hosts, func(host string) error {
		all, err := calls.Transactions.Call(ctx, f, host, struct{}{})
		if isLate(err) {
			return nil
		}
		if err != nil {
			return err
		}
		f.noteTransactions(host, all)
		mu.Lock()
		defer mu.Unlock()
		out[host] = all
		return nil
	})
	return out, err
}
