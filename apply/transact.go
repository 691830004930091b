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
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
)

// Fate is how a host's transaction ended.
type Fate string

// The fates, as programs read them.
const (
	Committed    Fate = "committed"
	Reverted     Fate = "reverted" // and proven equal to the state from before
	RevertFailed Fate = "revert_failed"
	Untouched    Fate = "untouched"
	Lost         Fate = "lost"                     // not heard of any more; it goes back by itself when its lease runs out
	Waiting      Fate = "waiting_for_confirmation" // or for the end of its lease
	Unfinished   Fate = "unfinished"               // a driver stack, which the next apply finishes
)

// String is the fate as people read it.
func (f Fate) String() string { return strings.ReplaceAll(string(f), "_", " ") }

// txOptions say who opens a transaction, and how long hosts wait for a client that fell silent.
type txOptions struct {
	Fabric, Plan string
	User         string // user@machine of the operator
	Client       string // names this run
	Lease        time.Duration
}

// heldError is why hosts were not changed: another transaction is open there.
type heldError struct{ Hosts map[string]string }

func (e *heldError) Error() string {
	var lines []string
	for _, h := range slices.Sorted(maps.Keys(e.Hosts)) {
		lines = append(lines, "host "+h+": "+e.Hosts[h])
	}
	return strings.Join(lines, "; ") + "; see `fabricform pending`"
}

// transaction is one open on every host that a plan changes. An open one is the lock: nobody else
// changes these hosts meanwhile, and each goes back by itself once its lease is not renewed.
type transaction struct {
	fleet  *Fleet
	fabric string
	who    txOptions
	lease  time.Duration
	refs   map[string]*hold   // by host
	stop   context.CancelFunc // of the beats
	beats  sync.WaitGroup
	// Moved is told of a hold that has a new token: the one that Refs said before is dead. It is called
	// from several goroutines, is set before the first step, and may be nil.
	Moved func(host string, to calls.TxRef)
}

// Hosts are those that the transaction is open on, sorted.
func (t *transaction) Hosts() []string { return slices.Sorted(maps.Keys(t.refs)) }

// begin asks every host that the plan changes whether it can go back by itself, and then opens a
// transaction on each. Where one cannot, nothing is changed anywhere; the error is a *HeldError
// where another transaction is open.
func (f *Fleet) begin(ctx context.Context, p *planner.Plan, o txOptions) (*transaction, error) {
	t := &transaction{fleet: f, fabric: o.Fabric, who: o, lease: o.Lease, refs: map[string]*hold{}}
	acting := map[string][]resource.Atom{}
	steps := map[string][]calls.TxStep{}
	for _, h := range p.Hosts {
		if len(h.Actions) > 0 {
			acting[h.Name], steps[h.Name] = atoms(h), persistSteps(o.Fabric, h)
		}
	}
	var mu sync.Mutex
	held := &heldError{Hosts: map[string]string{}}
	err := eachHost(slices.Sorted(maps.Keys(acting)), func(host string) error {
		r, err := calls.Ready.Call(ctx, f, host, struct{}{})
		if err == nil && r.Held != nil {
			mu.Lock()
			defer mu.Unlock()
			held.Hosts[host] = Describe(*r.Held)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("nothing was changed on any host: %w", err)
	}
	if len(held.Hosts) > 0 {
		return nil, held
	}
	open := func(host string) error {
		i, err := calls.Open.Call(ctx, f, host, calls.TxOpen{Fabric: o.Fabric, Plan: o.Plan, User: o.User, Client: o.Client, Lease: o.Lease, Atoms: acting[host], Steps: steps[host]})
		mu.Lock()
		defer mu.Unlock()
		var refused *agent.Error
		if errors.As(err, &refused) && refused.Held {
			held.Hosts[host] = refused.Message
		}
		if err == nil {
			t.refs[host] = &hold{ref: i.TxRef}
		}
		return err
	}
	// The first host decides between two who come at once: if each had half of the hosts, neither
	// would win.
	hosts := slices.Sorted(maps.Keys(acting))
	if err = eachHost(hosts[:1], open); err == nil {
		err = eachHost(hosts[1:], open)
	}
	if err == nil {
		t.beat()
		return t, nil
	}
	_, back := t.Revert(context.WithoutCancel(ctx), t.Hosts(), "it could not be opened on all hosts")
	if len(held.Hosts) > 0 {
		return nil, errors.Join(held, back)
	}
	return nil, errors.Join(fmt.Errorf("nothing was changed on any host: %w", err), back)
}

// atoms are all that a host's plan sets or gives back.
func atoms(h planner.HostPlan) []resource.Atom {
	var out []resource.Atom
	for _, a := range h.Actions {
		for _, c := range a.Changes {
			if c.Atom != "" {
				out = append(out, c.Atom)
			}
		}
		// What an earlier action disturbs is put back by one that has no changes of its own.
		out = append(out, a.Forget...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Describe is a transaction of somebody else, for people.
func Describe(i calls.TxInfo) string {
	s := fmt.Sprintf("a transaction of fabric %q is open, by %s from %s since %s (%s)", i.Fabric, i.Holder.User, i.Holder.From, i.Since.Local().Format("15:04:05"), i.State)
	if i.State == checkpoint.RevertFailed {
		return s + ": a person is needed; `fabricform unlock` when the host is in order"
	}
	return s + fmt.Sprintf("; it goes back by itself in %s", i.Left.Round(time.Second))
}

// beatEvery renews the lease. A beat is written to the host's disk.
const beatEvery = time.Second

// beat keeps the leases while this program lives. A host that refuses is found by its next action;
// one that cannot be asked may be reached by another connection soon.
func (t *transaction) beat() {
	ctx, stop := context.WithCancel(context.Background())
	t.stop = stop
	for host, h := range t.refs {
		t.beats.Go(func() {
			tick := time.NewTicker(beatEvery)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
					var refused *agent.Error
					if err := t.renew(ctx, host, h); errors.As(err, &refused) {
						return
					}
				}
			}
		})
	}
}

// Leave forgets hosts whose transaction has ended.
func (t *transaction) Leave(hosts []string) {
	for _, h := range hosts {
		delete(t.refs, h)
	}
}

// Refs are the holds on the hosts' transactions, for whoever is to go on with them.
func (t *transaction) Refs() map[string]calls.TxRef {
	out := map[string]calls.TxRef{}
	for host, h := range t.refs {
		out[host] = h.ref
	}
	return out
}

// Close lets go of the hosts: leases that are still open run out.
func (t *transaction) Close() {
	if t.stop != nil {
		t.stop()
	}
	t.beats.Wait()
}

// Reach proves that the operator still gets in: a new connection to every host of the transaction,
// with patience for a blip.
func (t *transaction) Reach(ctx context.Context) error {
	return eachHost(t.Hosts(), func(host string) error {
		ctx, cancel := context.WithTimeout(ctx, min(t.lease, 40*time.Second))
		defer cancel()
		c, err := t.fleet.insist(ctx, func(ctx context.Context) (*agent.Client, error) { return t.fleet.redial(ctx, host) })
		if err != nil {
			return fmt.Errorf("it cannot be reached by a new connection any more: %w", err)
		}
		c.Close()
		return nil
	})
}

// Prepare says on all hosts that their changes are made and checked.
func (t *transaction) Prepare(ctx context.Context) error {
	return eachHost(t.Hosts(), func(host string) error {
		_, err := calls.Prepare.Call(ctx, t.fleet, host, t.refs[host].ref)
		return err
	})
}

// Commit ends the transaction on all hosts, with what was changed. fates says how it ended where it
// is not open any more; a host that was not heard of between its preparation and its commit is lost.
func (t *transaction) Commit(ctx context.Context) (fates map[string]HostOutcome, err error) {
	fates = map[string]HostOutcome{}
	var mu sync.Mutex
	err = eachHost(t.Hosts(), func(host string) error {
		_, err := calls.Commit.Call(ctx, t.fleet, host, t.refs[host].ref)
		o := HostOutcome{Host: host, Fate: Committed}
		if err != nil {
			o = t.fleet.resolve(ctx, host, calls.TxRevert{TxRef: t.refs[host].ref}, t.lease)
		}
		mu.Lock()
		defer mu.Unlock()
		fates[host] = o
		if o.Fate != Committed {
			return err
		}
		return nil
	})
	t.Close()
	return fates, err
}

// Revert takes hosts back to what they were. A host that cannot be asked goes back by itself; its
// end is awaited.
func (t *transaction) Revert(ctx context.Context, hosts []string, why string) (map[string]HostOutcome, error) {
	fates := map[string]HostOutcome{}
	var mu sync.Mutex
	err := eachHost(hosts, func(host string) error {
		o := t.revertHost(ctx, host, why)
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

func (t *transaction) revertHost(ctx context.Context, host, why string) HostOutcome {
	p := calls.TxRevert{TxRef: t.refs[host].ref, Why: why}
	i, err := calls.Revert.Call(ctx, t.fleet, host, p)
	if err != nil {
		return t.fleet.resolve(ctx, host, p, t.lease)
	}
	return ended(host, i)
}

func ended(host string, i calls.TxInfo) HostOutcome {
	o := HostOutcome{Host: host, Why: i.Why, Left: i.Remain}
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

// resume is a transaction that another run opened and prepared. Its leases are kept from now on.
func (f *Fleet) resume(ctx context.Context, fabric string, refs map[string]calls.TxRef) *transaction {
	all, _ := f.Transactions(ctx) // whoever does not answer is found by the next step
	t := &transaction{fleet: f, fabric: fabric, lease: checkpoint.DefaultLease, refs: map[string]*hold{}}
	for host, ref := range refs {
		t.refs[host] = &hold{ref: ref}
		for _, i := range all[host] {
			if i.ID == ref.ID {
				f.goesBackTo(host, i)
			}
		}
	}
	t.beat()
	return t
}

// Transactions are those that each host keeps, the latest last. A host that does not answer has no
// entry, and the error names it.
func (f *Fleet) Transactions(ctx context.Context) (map[string][]calls.TxInfo, error) {
	out := map[string][]calls.TxInfo{}
	var mu sync.Mutex
	err := eachHost(f.Hosts(), func(host string) error {
		all, err := calls.Transactions.Call(ctx, f, host, struct{}{})
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		out[host] = all
		return nil
	})
	return out, err
}

// undoLast takes hosts back from the fabric's latest transaction, open or committed. A host that is
// back already, or never had one, has no fate. refs are holds on transactions that may be open; the
// error is a *HeldError where one is open that somebody else holds. Where a plan is named, what
// another one committed is left as it is, and an error.
func (f *Fleet) undoLast(ctx context.Context, fabric, plan string, hosts []string, why string, refs map[string]calls.TxRef) (map[string]HostOutcome, error) {
	all, err := f.Transactions(ctx)
	if err != nil {
		return nil, err
	}
	fates, held := map[string]HostOutcome{}, &heldError{Hosts: map[string]string{}}
	var mu sync.Mutex
	err = eachHost(hosts, func(host string) error {
		i := last(all[host], fabric)
		if i == nil || i.State == checkpoint.Reverted || i.State == checkpoint.Released {
			return nil
		}
		if plan != "" && i.Plan != plan && i.State == checkpoint.Committed {
			return fmt.Errorf("it is left as it is: its last transaction is not of this apply, but of one by %s from %s at %s", i.Holder.User, i.Holder.From, i.Since.Format(time.RFC3339))
		}
		ref := calls.TxRef{ID: i.ID}
		if refs[host].ID == i.ID {
			ref = refs[host]
		}
		f.goesBackTo(host, *i)
		p := calls.TxRevert{TxRef: ref, Why: why, Undo: i.State == checkpoint.Committed}
		now, err := calls.Revert.Call(ctx, f, host, p)
		o := ended(host, now)
		var refused *agent.Error
		if err != nil && !errors.As(err, &refused) { // the connection may have stood on what goes back
			o = f.resolve(ctx, host, p, checkpoint.DefaultLease)
		}
		mu.Lock()
		defer mu.Unlock()
		switch {
		case o.Fate == Lost && ctx.Err() != nil:
			return ctx.Err()
		case refused != nil && refused.Held:
			held.Hosts[host] = refused.Message
			return nil
		case refused != nil:
			return err
		}
		fates[host] = o
		return nil
	})
	if len(held.Hosts) > 0 {
		err = errors.Join(held, err)
	}
	return fates, err
}

func last(all []calls.TxInfo, fabric string) *calls.TxInfo {
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].Fabric == fabric {
			return &all[i]
		}
	}
	return nil
}

// Release ends a transaction whose revert failed.
func (f *Fleet) Release(ctx context.Context, host, id, user string) error {
	_, err := calls.Release.Call(ctx, f, host, calls.TxTakeOver{TxRef: calls.TxRef{ID: id}, User: user})
	return err
}
