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
	// Permitted are the values of -allow, for changes that need one (resource.Asker).
	Permitted []string
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
	return r.report.end(r.without(ending), err)
}

func (r *run) rollback(ctx context.Context, o RollbackOptions) (Ending, error) {
	k := r.s.Options.Tokens
	mine, err := k.all("") // read before the hosts report: a transaction that opens in between is then in neither list
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
	ended := r.s.endedNow(r.s.Fabric.Name)
	t, unclear := newestCommitted(reported, r.s.Fabric.Name, "")
	ofCommitted := func(i calls.TxInfo) bool { return t != nil && i.Plan == t.plan }
	if open := openIn(reported, r.s.Fabric.Name); len(open) > 0 {
		fates, ending, err = r.revertOpen(ctx, open, openRefs(shown, before))
	} else if len(ended) > 0 && !slices.ContainsFunc(slices.Collect(maps.Values(ended)), ofCommitted) {
		// The transaction that was to be rolled back has ended since a host was read. An older one was not asked for.
		ending = r.unreachable(r.s.Unreachable())
	} else if unclear != nil {
		ending, err = Failed, fmt.Errorf("%w. To roll back the last transaction of one host on that host alone, run %s", unclear,
			r.s.Options.Invocation.Hint("rollback", "-host=HOST"))
	} else {
		fates, ending, err = r.revertCommitted(ctx, t, reported, o)
		if err == nil && ending == Done && r.report.Plan != nil {
			ending, err = r.revertKeys(ctx, r.report.Plan.RollsBack, fates, o)
		}
	}
	all := map[string]HostOutcome{}
	for host, i := range ended {
		all[host] = outcomeOf(host, i)
	}
	maps.Copy(all, fates)
	fates = all
	r.report.Outcomes = sorted(fates)
	now := endedBy(fates)
	forgotten := k.removeEnded(mine, func(host string, on calls.TxRef) bool { return before(host, on) || now(host, on) })
	return max(ending, fatesEnding(fates)), errors.Join(err, forgotten)
}

// revertKeys rolls back the transaction that made the keys of a plan that is being rolled back.
func (r *run) revertKeys(ctx context.Context, plan string, before map[string]HostOutcome, o RollbackOptions) (Ending, error) {
	if fatesEnding(before) != Done {
		return Done, nil
	}
	reported, err := r.s.Transactions(ctx)
	if err != nil {
		return Done, err
	}
	t, err := newestCommitted(reported, r.s.Fabric.Name, keysOf(plan))
	if err != nil || t == nil {
		return Done, err
	}
	fates, ending, err := r.revertCommitted(ctx, t, reported, o)
	maps.Copy(before, fates)
	return ending, err
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
func (r *run) revertOpen(ctx context.Context, open map[string]calls.TxInfo,
	refs map[string]calls.TxRef) (map[string]HostOutcome, Ending, error) {
	fates, err := r.s.revertEach(ctx, open, func(host string, i calls.TxInfo) calls.TxRevert {
		p := calls.TxRevert{TxRef: calls.TxRef{ID: i.ID}, Why: "rollback by " + r.s.Options.User, User: r.s.Options.User}
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

// newestCommitted returns the fabric's newest transaction that is committed on a host, or that of the plan if plan is not "";
// nil if there is none. Each host knows the order of its own transactions, so the newest one is the last on all of its hosts.
// The clocks of hosts may differ: they only decide between transactions that have no host in common. If hosts have transactions
// in different orders, none may be the last on all of its hosts: then the error names them.
func newestCommitted(reported map[string][]calls.TxInfo, fabric, plan string) (*committedTx, error) {
	by, lastOn := map[string]*committedTx{}, map[string]string{}
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
			t.on[host], t.hosts, lastOn[host] = i, i.Hosts, i.Plan
			if i.Since.After(t.since) {
				t.since = i.Since
			}
		}
	}
	var newest *committedTx
	var followed []string
	for _, p := range slices.Sorted(maps.Keys(by)) {
		t := by[p]
		switch {
		case slices.ContainsFunc(t.answering(), func(host string) bool { return lastOn[host] != p }):
			followed = append(followed, fmt.Sprintf("%s on %s", t, planner.Names(t.answering())))
		case (plan == "" || plan == p) && (newest == nil || t.since.After(newest.since)):
			newest = t
		}
	}
	if newest == nil && plan == "" && len(followed) > 0 {
		return nil, fmt.Errorf("nothing was rolled back: no transaction is the last one on all of its hosts: %s",
			strings.Join(followed, "; "))
	}
	return newest, nil
}

// checkNotPruned returns an error if the transaction to roll back is not kept any more on a host: the newest one, or another one
// that is newer. t is nil if no committed transaction is kept. The order of a host's history says what came before the
// transactions that it keeps; clocks, of the hosts and of the operators, only decide where no history does.
func checkNotPruned(t *committedTx, fabric string, reported map[string][]calls.TxInfo, records map[string][]resource.Record) error {
	for _, host := range slices.Sorted(maps.Keys(reported)) {
		kept := reported[host]
		held := func(e resource.HistoryEntry) bool {
			return slices.ContainsFunc(kept, func(i calls.TxInfo) bool { return i.Plan == e.Plan })
		}
		for _, rec := range records[host] {
			first := slices.IndexFunc(rec.History, held)
			for n, e := range slices.Backward(rec.History) {
				_, applied := rec.Applied(e.Plan)
				if rec.Fabric != fabric || e.Reverts() || e.OnlyAdopts() || !applied || held(e) || len(kept) == 0 || first >= 0 && n > first ||
					first < 0 && e.Time.After(kept[0].Since) {
					continue
				}
				if t == nil || e.Plan == t.plan || t.on[host].Plan == "" && e.Time.After(t.since) {
					return fmt.Errorf("nothing was rolled back: "+
						"the next transaction to roll back is the %s of %s by %s (plan %s), and host %s has no backup of it any more: "+
						"each host keeps its last five transactions", e.Command, e.Time.Local().Format(time.DateTime), e.Who, e.Plan, host)
				}
			}
		}
	}
	return nil
}

// adopted reports whether the fabric's history has an apply that only adopted.
func (r *run) adopted() bool {
	for _, records := range r.s.Records() {
		for _, rec := range records {
			if rec.Fabric == r.s.Fabric.Name && slices.ContainsFunc(rec.History, resource.HistoryEntry.OnlyAdopts) {
				return true
			}
		}
	}
	return false
}

// revertCommitted shows the rollback of a committed transaction, asks, and makes it. t is nil if no host has one.
func (r *run) revertCommitted(ctx context.Context, t *committedTx, reported map[string][]calls.TxInfo,
	o RollbackOptions) (map[string]HostOutcome, Ending, error) {
	inputs := r.s.inputs(ctx, false) // with the histories
	if err := Interrupted(ctx); err != nil {
		return nil, Failed, err
	}
	files := r.s.plan(inputs, r.s.latest.leftOut)
	if err := checkNotPruned(t, r.s.Fabric.Name, reported, r.s.Records()); err != nil {
		return nil, Failed, err
	}
	if t == nil {
		if away := r.unreachable(r.s.Unreachable()); away != Done {
			r.e.Warn("Nothing was rolled back: no host that answered has a transaction of this fabric to roll back.")
			return nil, away, nil
		}
		why := "no host has an open or committed transaction of this fabric"
		if r.adopted() {
			why += ". An apply that only adopted changed nothing: " + r.s.Options.Invocation.Hint("destroy") + " gives up what it recorded"
		}
		return nil, Failed, errors.New("nothing to roll back: " + why)
	}
	away := r.s.Unreachable()
	maps.DeleteFunc(away, func(host, _ string) bool { return !t.mayBeOn(host) })
	ending := r.unreachable(away)
	if ending != Done && !o.HalfLinks {
		r.e.Warn("%s", r.refusal(t, slices.Sorted(maps.Keys(away))))
		return nil, ending, nil
	}
	shown, err := r.s.reversals(ctx, t.on, o.Foreign)
	if err != nil {
		return nil, Failed, err
	}
	r.showRollback(t, inputs, files.Vanished, away, shown)
	if err := r.mayRollBack(shown, inputs, o); err != nil {
		return nil, Failed, err
	}
	fates := map[string]HostOutcome{}
	reverted, err := r.changeInWaves(ctx, parts{change: func(ctx context.Context, of func(string) bool) (Ending, error) {
		part := *t
		part.on = maps.Clone(t.on)
		maps.DeleteFunc(part.on, func(host string, _ calls.TxInfo) bool { return !of(host) })
		if !o.HalfLinks {
			if changed, err := r.lookAgain(ctx, &part, shown, o); changed != Done {
				return changed, err
			}
		}
		now, err := r.s.revertEach(ctx, part.on, func(host string, i calls.TxInfo) calls.TxRevert {
			return calls.TxRevert{TxRef: calls.TxRef{ID: i.ID}, Why: "rollback by " + r.s.Options.User, User: r.s.Options.User, RollBack: true,
				Foreign: o.Foreign, Digest: shown[host].Digest}
		})
		maps.Copy(fates, now)
		r.report.Outcomes = sorted(now)
		ending := fatesEnding(now)
		if isStale(err) {
			ending = max(ending, Stale)
		}
		return ending, errors.Join(err, r.enrolVanished(context.WithoutCancel(ctx), files, now))
	}})
	return fates, max(ending, reverted), err
}

// enrolVanished writes the roster to the hosts that were rolled back, if it names hosts that the files do not: their
// changes remain, and the record from before the transaction may not name them.
func (r *run) enrolVanished(ctx context.Context, files *planner.Plan, fates map[string]HostOutcome) error {
	if len(files.Vanished) == 0 {
		return nil
	}
	var hosts []string
	for host, o := range fates {
		if o.Fate == Reverted {
			hosts = append(hosts, host)
		}
	}
	return r.s.Enrol(ctx, files, hosts, nil)
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
	return text + fmt.Sprintf("Run rollback again once all its hosts are reachable. To roll back %s alone nevertheless, run %s.",
		planner.Names(t.answering()), r.s.Options.Invocation.Hint("rollback", "-allow=half-links"))
}

// halves names the links and networks between hosts that are missing and hosts that would be rolled back.
func (r *run) halves(t *committedTx, missing []string) []string {
	return r.between(missing, t.answering())
}

// between names the links and networks with an end on one of these hosts and an end on one of those.
func (r *run) between(these, those []string) (out []string) {
	joins := func(of planner.Joint, name string, members []fabric.NICRef) {
		ends := func(hosts []string) bool {
			return slices.ContainsFunc(members, func(m fabric.NICRef) bool { return slices.Contains(hosts, m.Host) })
		}
		if ends(these) && ends(those) {
			out = append(out, string(of)+" "+name)
		}
	}
	for _, l := range r.s.Fabric.Links {
		joins(planner.OfLink, l.Name, l.Endpoints)
	}
	for _, n := range r.s.Fabric.Networks {
		joins(planner.OfNetwork, n.Name, n.Members)
	}
	return out
}

// lookAgain asks all hosts once more, before the first one reverts, whether the rollback would still do what was shown:
// a host that refuses only when the others have reverted would leave its links with one end rolled back.
func (r *run) lookAgain(ctx context.Context, t *committedTx, shown map[string]calls.TxReversed, o RollbackOptions) (Ending, error) {
	now, err := r.s.reversals(ctx, t.on, o.Foreign)
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
	where := ""
	if r.wave != "" {
		where = r.wave + ": "
	}
	return Stale, fmt.Errorf("%snothing was rolled back: %s changed since the rollback was shown; "+
		"to see and make what it would do now, run %s", where, planner.Names(changed), r.s.Options.Invocation.Hint("rollback"))
}

// reversals asks the hosts what the rollback of these transactions would do.
func (f *Fleet) reversals(ctx context.Context, on map[string]calls.TxInfo, foreign bool) (map[string]calls.TxReversed, error) {
	out := map[string]calls.TxReversed{}
	var mu sync.Mutex
	err := eachHost(slices.Sorted(maps.Keys(on)), func(host string) error {
		rev, err := calls.Reversal.Call(ctx, f, host, calls.TxReversal{ID: on[host].ID, Foreign: foreign})
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

// showRollback shows the rollback as a plan. Unreachable hosts keep the transaction.
func (r *run) showRollback(t *committedTx, inputs []planner.HostInput, vanished []resource.Member, away map[string]string,
	shown map[string]calls.TxReversed) {
	r.e.Note("Rolls back %s on %s:", t, planner.Names(t.answering()))
	r.p = &planner.Plan{Fabric: r.s.Fabric.Name, Invocation: r.s.Options.Invocation, RollsBack: t.plan, Vanished: vanished}
	var blind, disturbed []string
	for _, host := range t.answering() {
		rev := shown[host]
		in := inputs[slices.IndexFunc(inputs, func(in planner.HostInput) bool { return in.Name == host })]
		r.p.Hosts = append(r.p.Hosts, planner.HostPlan{Name: host,
			Actions: planner.RevertActions(r.p.Fabric, r.s.revealing(), in, rev.Changes, rev.Kept), Management: rev.Management})
		for _, clause := range rev.Disturbed {
			disturbed = append(disturbed, host+": "+clause)
		}
		if rev.Blind {
			blind = append(blind, host)
		}
	}
	r.report.Plan, r.report.Before = r.p, map[string]*facts.Snapshot{}
	notes := disturbed
	if len(blind) > 0 {
		notes = append(notes, planner.Names(blind)+
			": the state at the commit was not stored, so changes that others made since are rolled back with the rest")
	}
	for _, host := range t.answering() {
		if former := t.on[host].Former; former.IsValid() {
			notes = append(notes, fmt.Sprintf("%s: the host will be reachable at %s", host, former))
		}
	}
	if rest := r.excludedHosts(t); len(rest) > 0 {
		notes = append(notes, "the transaction also changed "+planner.Names(rest)+", which this rollback leaves out")
	}
	missing := slices.Sorted(maps.Keys(away))
	if joints := r.halves(t, missing); len(joints) > 0 {
		notes = append(notes,
			fmt.Sprintf("%s: rolled back at the other ends only, although these hosts are unreachable: %s (-allow=half-links)",
				planner.Names(joints), planner.Names(missing)))
	}
	for _, host := range slices.Sorted(maps.Keys(r.s.Unreachable())) {
		if !slices.Contains(t.hosts, host) {
			notes = append(notes, host+": the host does not answer, and may have a newer transaction")
		}
	}
	r.e.Plan(r.p, notes)
}

// excludedHosts returns the hosts of the transaction that the operator did not choose, or that the files no longer name.
func (r *run) excludedHosts(t *committedTx) (out []string) {
	for _, host := range t.hosts {
		if r.s.Fabric.Host(host) == nil || r.s.Excluded(host) {
			out = append(out, host)
		}
	}
	return out
}

// mayRollBack asks for approval. The error says why nothing may be rolled back.
func (r *run) mayRollBack(shown map[string]calls.TxReversed, inputs []planner.HostInput, o RollbackOptions) error {
	var others []string
	for _, host := range slices.Sorted(maps.Keys(shown)) {
		for _, c := range shown[host].Overwritten {
			others = append(others, host+": "+c.Atom.Owner()+": "+c.Attribute+" "+c.From)
		}
	}
	if len(others) > 0 && !o.Foreign {
		return fmt.Errorf("nothing was rolled back: these changes of somebody else cannot be kept if the rest is rolled back: %s. "+
			"To roll them back too, run %s", strings.Join(others, "; "), r.s.Options.Invocation.Hint("rollback", "-allow=foreign"))
	}
	for _, in := range inputs {
		for _, c := range shown[in.Name].Changes {
			kind, _ := r.s.Options.Resources.Kinds.Lookup(c.Atom.Kind())
			if kind.Asks == nil || in.Snapshot == nil {
				continue
			}
			if allow, why := kind.Asks(in.Snapshot, c); allow != "" && !slices.Contains(o.Permitted, allow) {
				return fmt.Errorf("nothing was rolled back: on host %s, %s. To allow this, run %s",
					in.Name, why, r.s.Options.Invocation.Hint("rollback", "-allow="+allow))
			}
		}
	}
	return r.approve(r.p)
}

// undoPlan rolls a plan's committed transactions back on these hosts: on all of them, or on none if one is unreachable, does
// not keep its transaction any more, has a later one or refuses, because a cable that is rolled back at one end only may not
// work. A host on which the transaction has reverted already is as the others will be.
func (f *Fleet) undoPlan(ctx context.Context, fabric, plan, user string, hosts []string, why string) (map[string]HostOutcome, error) {
	reachable := slices.DeleteFunc(f.Hosts(), func(host string) bool { return !slices.Contains(hosts, host) })
	all, err := f.transactionsOn(ctx, reachable)
	if err != nil {
		return nil, fmt.Errorf("nothing was rolled back, because not every host can be: %w", err)
	}
	on, before, errs, away := map[string]calls.TxInfo{}, map[string]HostOutcome{}, []error(nil), f.Unreachable()
	for _, host := range hosts {
		n := slices.IndexFunc(all[host], func(i calls.TxInfo) bool { return i.Fabric == fabric && i.Plan == plan })
		switch {
		case away[host] != "":
			errs = append(errs, fmt.Errorf("host %s: %s", host, away[host]))
		case n < 0:
			errs = append(errs, fmt.Errorf("host %s: it does not keep the transaction of this apply any more", host))
		case all[host][n].State == checkpoint.Reverted:
			before[host] = outcomeOf(host, all[host][n])
		default:
			on[host] = all[host][n]
			for _, i := range all[host][n+1:] {
				if i.State.Open() || i.State == checkpoint.Committed {
					errs = append(errs, fmt.Errorf("host %s: a later transaction belongs to another apply, by %s from %s at %s",
						host, i.Holder.User, i.Holder.From, i.Since.Format(time.RFC3339)))
				}
			}
		}
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("nothing was rolled back, because not every host can be: %w", errors.Join(errs...))
	}
	if _, err := f.reversals(ctx, on, false); err != nil {
		return nil, err
	}
	fates, err := f.revertEach(ctx, on, func(_ string, i calls.TxInfo) calls.TxRevert {
		return calls.TxRevert{TxRef: calls.TxRef{ID: i.ID}, Why: why, User: user, RollBack: true}
	})
	maps.Copy(fates, before)
	return fates, err
}

// revertEach reverts one transaction on each host. The error is a *heldError if the request lacks the token of an open
// transaction; such a host gets no fate.
func (f *Fleet) revertEach(ctx context.Context, on map[string]calls.TxInfo,
	ask func(host string, i calls.TxInfo) calls.TxRevert) (map[string]HostOutcome, error) {
	fates, held := map[string]HostOutcome{}, &heldError{Hosts: map[string]string{}, by: f.invocation}
	var mu sync.Mutex
	err := eachHost(slices.Sorted(maps.Keys(on)), func(host string) error {
		p := ask(host, on[host])
		f.rememberFormer(host, on[host])
		f.leases.hold(f, host, p.TxRef, 0)
		f.leases.reverts(host)
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
			held.add(host, refused.Message)
			return nil
		case refused != nil:
			return err
		}
		if checkpoint.Records(o.Why, p.Why+" from ") {
			o.Why = p.Why // the operator of this rollback knows from where and when
		}
		fates[host] = o
		f.leases.end(o)
		return nil
	})
	if err != nil && ctx.Err() != nil {
		err = errors.Join(fmt.Errorf("interrupted; not every host has answered whether it rolled back: run %s",
			f.invocation.Hint("pending")), withoutInterrupts(err))
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
