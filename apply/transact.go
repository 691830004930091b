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
	Reverted     Fate = "reverted" // and proven equal to the state from before
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
}

// heldError says that hosts were not changed because another transaction is open there.
type heldError struct {
	Hosts map[string]string
	by    fabric.Invocation
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
	refs   map[string]*lockedRef // by host
	stop   context.CancelFunc    // stops the heartbeats
	beats  sync.WaitGroup
	// Moved is called when a host's transaction has a new token: the token that Refs returned before is
	// invalid. It is called from several goroutines, must be set before the first step, and may be nil.
	Moved func(host string, to calls.TxRef)
}

// Hosts returns the hosts whose transactions are open, sorted.
func (c *coordinator) Hosts() []string { return slices.Sorted(maps.Keys(c.refs)) }

// begin asks every host that the plan changes whether it can revert automatically, and then opens a transaction
// on each. If one host cannot, nothing is changed on any; the error is a *heldError if another transaction
// is open.
func (f *Fleet) begin(ctx context.Context, p *planner.Plan, o txOptions) (*coordinator, error) {
	c := &coordinator{fleet: f, fabric: o.Fabric, who: o, lease: o.Lease, refs: map[string]*lockedRef{}}
	acting := map[string][]resource.Atom{}
	steps := map[string][]calls.TxStep{}
	for _, h := range p.Hosts {
		if len(h.Actions) > 0 {
			acting[h.Name], steps[h.Name] = atoms(h), persistSteps(o.Fabric, o.Secrets, h)
		}
	}
	var mu sync.Mutex
	held := &heldError{Hosts: map[string]string{}, by: f.invocation}
	err := eachHost(slices.Sorted(maps.Keys(acting)), func(host string) error {
		r, err := calls.Ready.Call(ctx, f, host, struct{}{})
		if err == nil && r.Held != nil {
			mu.Lock()
			defer mu.Unlock()
			held.Hosts[host] = Describe(*r.Held, f.invocation)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("nothing was changed on any host: %w", orInterrupted(ctx, err))
	}
	if len(held.Hosts) > 0 {
		return nil, held
	}
	hosts := slices.Sorted(maps.Keys(acting))
	named := hosts[:min(len(hosts), checkpoint.MaxHosts)]
	open := func(host string) error {
		if ctx.Err() != nil {
			return errInterrupted
		}
		// Without cancel: only the answer has the token, without which nobody can end the transaction before its lease.
		i, err := calls.Open.Call(context.WithoutCancel(ctx), f, host, calls.TxOpen{Fabric: o.Fabric, Plan: o.Plan, User: o.User, Client: o.Client, Hosts: named, Lease: o.Lease, Atoms: acting[host], Steps: steps[host]})
		if client := f.client(host); isStuck(err) && client != nil {
			client.Close() // without a client, the helper ends what it opens
		}
		if err == nil {
			err = i.Grants()
		}
		mu.Lock()
		defer mu.Unlock()
		var refused *agent.Error
		if errors.As(err, &refused) && refused.Held {
			held.Hosts[host] = refused.Message
		}
		if err == nil {
			c.refs[host] = &lockedRef{ref: i.TxRef}
			f.leases.hold(f, host, i.TxRef, o.Lease)
		}
		return err
	}
	// If two clients start at once, the first host decides: otherwise each could get half of the hosts, and
	// neither would succeed.
	if err = eachHost(hosts[:1], open); err == nil {
		err = eachHost(hosts[1:], open)
	}
	if ctx.Err() != nil {
		err = errInterrupted
	}
	if err == nil {
		c.beat()
		return c, nil
	}
	_, back := c.Revert(context.WithoutCancel(ctx), c.Hosts(), "the transaction could not be opened on all hosts")
	c.Close()
	if len(held.Hosts) > 0 {
		return nil, errors.Join(held, back)
	}
	return nil, errors.Join(fmt.Errorf("nothing was changed on any host: %w", err), back)
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

// Describe describes an open transaction for people.
func Describe(i calls.TxInfo, by fabric.Invocation) string {
	s := fmt.Sprintf("a transaction of fabric %q is open, by %s from %s since %s (%s)", i.Fabric, i.Holder.User, i.Holder.From, i.Since.Local().Format("15:04:05"), i.State)
	if i.State == checkpoint.RevertFailed {
		return s + ": an operator must intervene. Repair the host, then run " + by.Hint("unlock")
	}
	if i.Rebooted && i.State == checkpoint.Persisting {
		return s + "; the host was reset after it was ready to commit, and the next apply completes it"
	}
	return s + fmt.Sprintf("; the host reverts automatically in %s", i.Left.Round(time.Second))
}

// beatEvery is how often the lease is renewed. The host writes each heartbeat to its disk.
const beatEvery = time.Second

// beat renews the leases while this program runs. A heartbeat that fails does not end them: a new connection may
// reach the host, and a host whose disk refused one write may accept the next. If the transaction has ended, the
// host refuses, and the next action reports that.
func (c *coordinator) beat() {
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	for host, h := range c.refs {
		c.beats.Go(func() {
			tick := time.NewTicker(beatEvery)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
					if h.givenUp.Load() {
						return
					}
					_ = c.renew(ctx, host, h)
				}
			}
		})
	}
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
	if c.stop != nil {
		c.stop()
	}
	c.beats.Wait()
}

// Reach checks that every host accepts a new connection. It retries for a while.
func (c *coordinator) Reach(ctx context.Context) error {
	return eachHost(c.Hosts(), func(host string) error {
		patient, cancel := context.WithTimeout(ctx, min(c.lease, 40*time.Second))
		defer cancel()
		client, err := c.fleet.retryConnect(patient, func(ctx context.Context) (*agent.Client, error) { return c.fleet.redial(ctx, host) })
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
	for _, host := range c.Hosts() {
		c.fleet.leases.asked(host, "commit")
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
		mu.Lock()
		defer mu.Unlock()
		fates[host] = o
		if o.Fate != Reverted {
			return fmt.Errorf("%s: %s", o.Fate, strings.Join(append([]string{o.Why}, o.Left...), "; "))
		}
		return nil
	})
	return fates, err
}

func (c *coordinator) revertHost(ctx context.Context, host, why string) HostOutcome {
	p := calls.TxRevert{TxRef: c.refs[host].ref, Why: why}
	i, err := calls.Revert.Call(ctx, c.fleet, host, p)
	if err != nil {
		return c.fleet.awaitEnd(ctx, host, p, c.lease)
	}
	return outcomeOf(host, i)
}

// outcomeOf returns how a host's transaction ended. If it is still open, the host is Lost.
func outcomeOf(host string, i calls.TxInfo) HostOutcome {
	o := HostOutcome{Host: host, Why: i.Why, Left: i.Remain, Kept: i.Kept, Overwritten: i.Overwritten}
	switch i.State {
	case checkpoint.Committed:
		o.Fate = Committed
	case checkpoint.Reverted:
		o.Fate = Reverted
	case checkpoint.RevertFailed:
		o.Fate = RevertFailed
	default:
		o.Fate = Lost
	}
	return o
}

// resume continues transactions that another run opened and prepared, and renews their leases from now on.
func (f *Fleet) resume(ctx context.Context, fabric string, refs map[string]calls.TxRef) *coordinator {
	all, _ := f.Transactions(ctx) // the next step finds hosts that do not answer
	c := &coordinator{fleet: f, fabric: fabric, lease: checkpoint.DefaultLease, refs: map[string]*lockedRef{}}
	for host, ref := range refs {
		c.refs[host] = &lockedRef{ref: ref}
		f.leases.hold(f, host, ref, c.lease)
		for _, i := range all[host] {
			if i.ID == ref.ID {
				f.rememberFormer(host, i)
			}
		}
	}
	c.beat()
	return c
}

// Transactions returns the transactions that each host keeps, the latest last. A host that does not answer
// has no entry. The error names it, or Unreachable does if it did not answer in time.
func (f *Fleet) Transactions(ctx context.Context) (map[string][]calls.TxInfo, error) {
	out := map[string][]calls.TxInfo{}
	var mu sync.Mutex
	err := eachHost(f.Hosts(), func(host string) error {
		all, err := calls.Transactions.Call(ctx, f, host, struct{}{})
		if isLate(err) {
			return nil
		}
		if err != nil {
			return err
		}
		f.reported(host, all)
		mu.Lock()
		defer mu.Unlock()
		out[host] = all
		return nil
	})
	return out, err
}

// Release ends a transaction whose revert failed.
func (f *Fleet) Release(ctx context.Context, host, id, user string) error {
	_, err := calls.Release.Call(ctx, f, host, calls.TxTakeOver{TxRef: calls.TxRef{ID: id}, User: user})
	return err
}
