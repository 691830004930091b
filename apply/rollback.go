package apply

import (
	"cmp"
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
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
)

// RollbackOptions say what a rollback may do.
type RollbackOptions struct {
	// TakeOver is a token file from another machine; "" uses this machine's tokens.
	TakeOver string
	// Foreign also reverts what others changed since the commit.
	Foreign bool
	// HalfLinks rolls a transaction back on some of its hosts, although others are unreachable or changed meanwhile.
	HalfLinks bool
	Allowed   resource.Disruption
}

// Rollback reverts the fabric's open transactions on the session's hosts. If there are none, it shows what the rollback
// of the newest committed transaction would do on the hosts of that transaction, and reverts it once that is approved.
func Rollback(ctx context.Context, s *Session, o RollbackOptions, e Events) *Report {
	r := newRun("rollback", s, Options{Allowed: o.Allowed}, e)
	ending, err := r.rollback(ctx, o)
	if len(r.report.Outcomes) > 0 {
		reportFates(e, r.report.Outcomes)
	}
	return r.report.end(ending, err)
}

func (r *run) rollback(ctx context.Context, o RollbackOptions) (Ending, error) {
	k := r.s.Options.Tokens
	mine, err := k.all("") // before the hosts report: a transaction that opens later is in neither
	if err != nil {
		return Failed, err
	}
	shown := mine
	if o.TakeOver != "" {
		if shown, err = k.all(o.TakeOver); err != nil {
			return Failed, err
		}
	}
	reported, err := r.s.Transactions(ctx)
	if err = cmp.Or(Interrupted(ctx), err); err != nil {
		return Failed, err
	}
	before := endedIn(reported) // hosts that have already reverted get no fate below
	var fates map[string]HostOutcome
	var ending Ending
	if open := openIn(reported, r.s.Fabric.Name); len(open) > 0 {
		fates, ending, err = r.revertOpen(ctx, open, openRefs(shown, before))
	} else {
		fates, ending, err = r.revertNewest(ctx, reported, o)
	}
	r.report.Outcomes = sorted(fates)
	now := endedBy(fates)
	forgotten := k.removeEnded(mine, func(host string, on calls.TxRef) bool { return before(host, on) || now(host, on) })
	return max(ending, fatesEnding(fates)), errors.Join(err, forgotten)
}

// openIn returns the fabric's open transaction on each host that has one.
func openIn(reported map[string][]calls.TxInfo, fabric string) map[string]calls.TxInfo {
	out := map[string]calls.TxInfo{}
	for host, all := range reported {
		for _, i := range all {
			if i.Fabric == fabric && i.State.Open() {
				out[host] = i
			}
		}
	}
	return out
}

// revertOpen reverts open transactions at once, as the hosts would when the leases expire.
func (r *run) revertOpen(ctx context.Context, open map[string]calls.TxInfo, refs map[string]calls.TxRef) (map[string]HostOutcome, Ending, error) {
	fates, err := r.s.revertEach(ctx, open, func(host string, i calls.TxInfo) calls.TxRevert {
		p := calls.TxRevert{TxRef: calls.TxRef{ID: i.ID}, Why: "rollback by " + r.s.Options.User}
		if refs[host].ID == i.ID {
			p.TxRef = refs[host]
		}
		return p
	})
	var others *heldError
	if errors.As(err, &others) {
		return fates, Held, err
	}
	return fates, r.unreachable(r.s.Unreachable()), err
}

// unreachable reports unreachable hosts.
func (r *run) unreachable(away map[string]string) Ending {
	if len(away) == 0 {
		return Done
	}
	r.e.Unreachable(away)
	return HostsUnreachable
}

// committedTx is a committed transaction on its hosts.
type committedTx struct {
	plan  string
	since time.Time // the latest of its hosts
	on    map[string]calls.TxInfo
	hosts []string // hosts of the plan, also those that did not answer; see mayBeOn
}

// mayBeOn reports whether a host that did not answer may have the transaction: an earlier build stored no hosts, and of a
// large fabric only the first hosts are stored.
func (t *committedTx) mayBeOn(host string) bool {
	return len(t.hosts) == 0 || len(t.hosts) == checkpoint.MaxHosts || slices.Contains(t.hosts, host)
}

// String names the transaction.
func (t *committedTx) String() string {
	i := t.on[t.answering()[0]]
	return fmt.Sprintf("the transaction of %s by %s (plan %s)", i.Since.Local().Format(time.DateTime), i.Holder.User, t.plan)
}

// answering returns the hosts on which the transaction is committed, sorted.
func (t *committedTx) answering() []string { return slices.Sorted(maps.Keys(t.on)) }

// newestCommitted returns the fabric's newest transaction that is committed on a host; nil if there is none.
func newestCommitted(reported map[string][]calls.TxInfo, fabric string) *committedTx {
	by := map[string]*committedTx{}
	var newest *committedTx
	for _, host := range slices.Sorted(maps.Keys(reported)) {
		for _, i := range reported[host] {
			if i.Fabric != fabric || i.State != checkpoint.Committed {
				continue
			}
			t := by[i.Plan]
			if t == nil {
				t = &committedTx{plan: i.Plan, on: map[string]calls.TxInfo{}}
				by[i.Plan] = t
			}
			t.on[host], t.hosts = i, i.Hosts
			if i.Since.After(t.since) {
				t.since = i.Since
			}
			if newest == nil || t.since.After(newest.since) {
				newest = t
			}
		}
	}
	return newest
}

// pruned returns an error if the transaction to roll back is not kept any more on a host: the newest one, or another one
// that is newer. t is nil if no committed transaction is kept.
func pruned(t *committedTx, fabric string, reported map[string][]calls.TxInfo, records map[string][]resource.Record) error {
	for _, host := range slices.Sorted(maps.Keys(reported)) {
		kept := reported[host]
		for _, rec := range records[host] {
			for _, e := range slices.Backward(rec.History) {
				_, applied := rec.Applied(e.Plan)
				held := slices.ContainsFunc(kept, func(i calls.TxInfo) bool { return i.Plan == e.Plan })
				if rec.Fabric != fabric || e.Reverts() || !applied || held || len(kept) == 0 || e.Time.After(kept[0].Since) {
					continue
				}
				if t == nil || e.Plan == t.plan || e.Time.After(t.since) {
					return fmt.Errorf("nothing was rolled back: the next transaction to roll back is the %s of %s by %s (plan %s), and host %s has no backup of it any more: each host keeps its last five transactions", e.Command, e.Time.Local().Format(time.DateTime), e.Who, e.Plan, host)
				}
			}
		}
	}
	return nil
}

// revertNewest shows the rollback of the newest committed transaction, asks, and makes it.
func (r *run) revertNewest(ctx context.Context, reported map[string][]calls.TxInfo, o RollbackOptions) (map[string]HostOutcome, Ending, error) {
	r.s.Plan(ctx) // reads the histories
	if err := Interrupted(ctx); err != nil {
		return nil, Failed, err
	}
	t := newestCommitted(reported, r.s.Fabric.Name)
	if err := pruned(t, r.s.Fabric.Name, reported, r.s.Records()); err != nil {
		return nil, Failed, err
	}
	if t == nil {
		if away := r.unreachable(r.s.Unreachable()); away != Done {
			r.e.Warn("Nothing was rolled back: no host that answered has a transaction of this fabric to roll back.")
			return nil, away, nil
		}
		return nil, Failed, errors.New("nothing to roll back: no host has an open or committed transaction of this fabric")
	}
	away := r.s.Unreachable()
	maps.DeleteFunc(away, func(host, _ string) bool { return !t.mayBeOn(host) })
	ending := r.unreachable(away)
	if ending != Done && !o.HalfLinks {
		r.e.Warn("%s", r.refusal(t, slices.Sorted(maps.Keys(away))))
		return nil, ending, nil
	}
	shown, err := r.reversals(ctx, t, o)
	if err != nil {
		return nil, Failed, err
	}
	r.showRollback(t, away, shown)
	if err := r.mayRollBack(shown, o); err != nil {
		return nil, Failed, err
	}
	if !o.HalfLinks {
		if changed, err := r.lookAgain(ctx, t, shown, o); changed != Done {
			return nil, changed, err
		}
	}
	fates, err := r.s.revertEach(ctx, t.on, func(host string, i calls.TxInfo) calls.TxRevert {
		return calls.TxRevert{TxRef: calls.TxRef{ID: i.ID}, Why: "rollback by " + r.s.Options.User, User: r.s.Options.User, Undo: true, Foreign: o.Foreign, Digest: shown[host].Digest}
	})
	if isStale(err) {
		ending = max(ending, Stale)
	}
	return fates, ending, err
}

// refusal says why nothing is rolled back while hosts of the transaction are unreachable.
func (r *run) refusal(t *committedTx, away []string) string {
	is := "is also"
	if len(t.hosts) == 0 || len(t.hosts) == checkpoint.MaxHosts {
		is = "may also be"
	}
	text := fmt.Sprintf("Nothing was rolled back: %s %s on hosts that are unreachable: %s. ", t, is, planner.Names(away))
	if joints := r.halves(t, away); len(joints) > 0 {
		text += fmt.Sprintf("A rollback of %s alone can break %s. ", planner.Names(t.answering()), planner.Names(joints))
	}
	return text + fmt.Sprintf("Run rollback again once all its hosts are reachable. To roll back %s alone nevertheless, run %s.", planner.Names(t.answering()), r.s.Options.Invocation.Hint("rollback", "-allow=half-links"))
}

// halves names the links and networks between hosts that are missing and hosts that would be rolled back.
func (r *run) halves(t *committedTx, missing []string) (out []string) {
	between := func(of planner.Joint, name string, members []fabric.NICRef) {
		there := slices.ContainsFunc(members, func(m fabric.NICRef) bool { return slices.Contains(missing, m.Host) })
		here := slices.ContainsFunc(members, func(m fabric.NICRef) bool { return t.on[m.Host].ID != "" })
		if there && here {
			out = append(out, string(of)+" "+name)
		}
	}
	for _, l := range r.s.Fabric.Links {
		between(planner.OfLink, l.Name, l.Endpoints)
	}
	for _, n := range r.s.Fabric.Networks {
		between(planner.OfNetwork, n.Name, n.Members)
	}
	return out
}

// lookAgain asks all hosts once more, before the first one reverts, whether the rollback would still do what was shown:
// a host that refuses only when the others have reverted would leave its links with one end rolled back.
func (r *run) lookAgain(ctx context.Context, t *committedTx, shown map[string]calls.TxReversed, o RollbackOptions) (Ending, error) {
	now, err := r.reversals(ctx, t, o)
	var refused *agent.Error
	if err != nil && !errors.As(err, &refused) && ctx.Err() == nil {
		r.e.Warn("%v", err)
		return HostsUnreachable, nil
	}
	if err != nil {
		return Failed, err
	}
	var changed []string
	for _, host := range t.answering() {
		if now[host].Digest != shown[host].Digest {
			changed = append(changed, host)
		}
	}
	if len(changed) == 0 {
		return Done, nil
	}
	return Stale, fmt.Errorf("nothing was rolled back: %s changed since the rollback was shown; to see and make what it would do now, run %s", planner.Names(changed), r.s.Options.Invocation.Hint("rollback"))
}

// reversals asks the hosts what the rollback would do.
func (r *run) reversals(ctx context.Context, t *committedTx, o RollbackOptions) (map[string]calls.TxReversed, error) {
	out := map[string]calls.TxReversed{}
	var mu sync.Mutex
	err := eachHost(t.answering(), func(host string) error {
		rev, err := calls.Reversal.Call(ctx, r.s.Fleet, host, calls.TxReversal{ID: t.on[host].ID, Foreign: o.Foreign})
		mu.Lock()
		defer mu.Unlock()
		out[host] = rev
		return err
	})
	if err != nil {
		return nil, cmp.Or(Interrupted(ctx), fmt.Errorf("nothing was rolled back: %w", err))
	}
	return out, nil
}

// showRollback shows the rollback as a plan. Hosts of the transaction that are away keep it.
func (r *run) showRollback(t *committedTx, away map[string]string, shown map[string]calls.TxReversed) {
	r.e.Note("Rolls back %s on %s:", t, planner.Names(t.answering()))
	r.p = &planner.Plan{Fabric: r.s.Fabric.Name, Invocation: r.s.Options.Invocation, RollsBack: t.plan}
	var blind []string
	for _, host := range t.answering() {
		rev := shown[host]
		r.p.Hosts = append(r.p.Hosts, planner.HostPlan{Name: host, Actions: planner.RevertActions(host, r.s.Options.Resources.Kinds, rev.Changes, rev.Kept), Management: rev.Management})
		if rev.Blind {
			blind = append(blind, host)
		}
	}
	r.report.Plan, r.report.Before = r.p, map[string]*facts.Snapshot{}
	var notes []string
	if len(blind) > 0 {
		notes = append(notes, planner.Names(blind)+": the state at the commit was not stored, so changes that others made since are rolled back with the rest")
	}
	for _, host := range t.answering() {
		if former := t.on[host].Former; former.IsValid() {
			notes = append(notes, fmt.Sprintf("%s: the host will be reachable at %s", host, former))
		}
	}
	if rest := r.leftOut(t); len(rest) > 0 {
		notes = append(notes, "the transaction also changed "+planner.Names(rest)+", which this rollback leaves out")
	}
	missing := slices.Sorted(maps.Keys(away))
	if joints := r.halves(t, missing); len(joints) > 0 {
		notes = append(notes, fmt.Sprintf("%s: rolled back at the other ends only, although these hosts are unreachable: %s (-allow=half-links)", planner.Names(joints), planner.Names(missing)))
	}
	for _, host := range slices.Sorted(maps.Keys(r.s.Unreachable())) {
		if !slices.Contains(t.hosts, host) {
			notes = append(notes, host+": the host does not answer, and may have a newer transaction")
		}
	}
	r.e.Plan(r.p, notes)
}

// leftOut returns the hosts of the transaction that the operator did not choose, or that the files no longer name.
func (r *run) leftOut(t *committedTx) (out []string) {
	for _, host := range t.hosts {
		if r.s.Fabric.Host(host) == nil || r.s.LeftOut(host) {
			out = append(out, host)
		}
	}
	return out
}

// mayRollBack asks for approval. The error says why nothing may be rolled back.
func (r *run) mayRollBack(shown map[string]calls.TxReversed, o RollbackOptions) error {
	var others []string
	for _, host := range slices.Sorted(maps.Keys(shown)) {
		for _, c := range shown[host].Overwritten {
			others = append(others, host+": "+c.Attribute+" "+c.From)
		}
	}
	if len(others) > 0 && !o.Foreign {
		return fmt.Errorf("nothing was rolled back: these changes of somebody else cannot stay if the rest goes back: %s. To roll them back too, run %s", strings.Join(others, "; "), r.s.Options.Invocation.Hint("rollback", "-allow=foreign"))
	}
	return r.approve(r.p)
}

// undoPlan rolls a plan's transactions back on the hosts on which they are committed and the latest.
func (f *Fleet) undoPlan(ctx context.Context, fabric, plan, user string, hosts []string, why string) (map[string]HostOutcome, error) {
	all, err := f.Transactions(ctx)
	if err != nil {
		return nil, err
	}
	on, errs, away := map[string]calls.TxInfo{}, []error(nil), f.Unreachable()
	for _, host := range hosts {
		i := last(all[host], fabric)
		switch {
		case away[host] != "":
			errs = append(errs, fmt.Errorf("host %s: not rolled back: %s", host, away[host]))
		case i == nil || i.State != checkpoint.Committed:
		case i.Plan != plan:
			errs = append(errs, fmt.Errorf("host %s: not rolled back: its last transaction belongs to another apply, by %s from %s at %s", host, i.Holder.User, i.Holder.From, i.Since.Format(time.RFC3339)))
		default:
			on[host] = *i
		}
	}
	fates, err := f.revertEach(ctx, on, func(_ string, i calls.TxInfo) calls.TxRevert {
		return calls.TxRevert{TxRef: calls.TxRef{ID: i.ID}, Why: why, User: user, Undo: true}
	})
	return fates, errors.Join(append(errs, err)...)
}

// revertEach reverts one transaction on each host. The error is a *heldError if the request lacks the token of an open
// transaction; such a host gets no fate.
func (f *Fleet) revertEach(ctx context.Context, on map[string]calls.TxInfo, ask func(host string, i calls.TxInfo) calls.TxRevert) (map[string]HostOutcome, error) {
	fates, held := map[string]HostOutcome{}, &heldError{Hosts: map[string]string{}, by: f.invocation}
	var mu sync.Mutex
	err := eachHost(slices.Sorted(maps.Keys(on)), func(host string) error {
		p := ask(host, on[host])
		f.rememberFormer(host, on[host])
		f.leases.hold(f, host, p.TxRef, 0)
		f.leases.asked(host, "revert")
		defer f.leases.drop(host)
		now, err := calls.Revert.Call(ctx, f, host, p)
		o := outcomeOf(host, now)
		var refused *agent.Error
		if err != nil && !errors.As(err, &refused) { // the revert may have removed the connection
			o = f.awaitEnd(ctx, host, p, checkpoint.DefaultLease)
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
	if err != nil && ctx.Err() != nil {
		err = errors.Join(fmt.Errorf("interrupted; not every host has answered whether it rolled back: run %s", f.invocation.Hint("pending")), found(err))
	}
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

// FoundOthers returns the hosts whose latest transaction reverted and found changes of others.
func FoundOthers(reported map[string][]calls.TxInfo) []HostOutcome {
	fates := map[string]HostOutcome{}
	for host, all := range reported {
		if n := len(all); n > 0 && all[n-1].State == checkpoint.Reverted && len(all[n-1].Kept)+len(all[n-1].Overwritten) > 0 {
			fates[host] = outcomeOf(host, all[n-1])
		}
	}
	return sorted(fates)
}
