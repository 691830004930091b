//go:build linux

// Package helper is the side of the protocol that runs on a host: it reads the host, changes it within a transaction,
// and runs measurements.
package helper

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/checkpoint"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/probe"
	"github.com/fabricform/fabricform/resource"
)

// Methods returns the helper's handlers for all calls. connection is what the transport states about the operator's
// connection.
func Methods(h host.Host, kinds resource.Kinds, store *checkpoint.Store, connection facts.Connection) (agent.Table, error) {
	s := &server{host: h, kinds: kinds, connection: connection, store: store, stack: host.StackDir, arrivals: arrivals,
		startInstaller: startInstaller}
	return agent.NewTable(append(probe.Served(),
		calls.Snapshot.Serve(s.snapshot),
		calls.Import.Serve(s.importHost),
		calls.Act.Serve(s.act),
		calls.Undo.Serve(s.undo),
		calls.Enrol.Serve(s.enrol),
		calls.Ready.Serve(s.txReady),
		calls.Open.Serve(s.txOpen),
		calls.Beat.Serve(step(s.store.Beat)),
		calls.Prepare.Serve(s.txPrepare),
		calls.Persist.Serve(s.txPersist),
		calls.Commit.Serve(s.txCommit),
		calls.Reversal.Serve(s.txReversal),
		calls.Revert.Serve(s.txRevert),
		calls.TakeOver.Serve(s.txTakeOver),
		calls.Release.Serve(s.txRelease),
		calls.FinishInterrupted.Serve(s.txFinishInterrupted),
		calls.Transactions.Serve(s.txList),
		calls.PrepareUpload.Serve(s.prepareUpload),
		calls.CheckBundle.Serve(s.bundleCheck),
		calls.StartRelay.Serve(s.relayServe),
		calls.Fetch.Serve(s.relayFetch),
		calls.EndRelay.Serve(s.relayEnd),
		calls.StartStack.Serve(s.stackStart),
		calls.ReadStack.Serve(s.stackState),
		calls.Reboot.Serve(s.stackReboot),
		probe.TryLogins.Serve(s.tryLogins),
		probe.InspectLogin.Serve(s.inspectLogin),
	)...)
}

type server struct {
	host           host.Host
	kinds          resource.Kinds
	connection     facts.Connection
	store          *checkpoint.Store
	stack          stackFolder
	relays         relays
	arrivals       string // where bundles are uploaded to
	startInstaller func(order string, stderr *os.File) (ended <-chan struct{}, err error)
	acting         turn
	goesDown       func() // releases the lock of a rebooting host; stored, because Go closes an unreferenced file
}

func (s *server) snapshot(ctx context.Context, p calls.SnapshotParams) (calls.SnapshotResult, error) {
	transactions, err := s.txList(ctx, struct{}{})
	if err != nil && !errors.Is(err, fs.ErrPermission) { // only root has transactions
		return calls.SnapshotResult{}, err
	}
	records, err := s.records(ctx)
	if err != nil {
		return calls.SnapshotResult{}, err
	}
	var atoms []resource.Atom
	for _, r := range records {
		atoms = slices.AppendSeq(atoms, maps.Keys(r.Atoms))
	}
	snap, err := s.kinds.Gather(ctx, s.host, resource.Query{Connection: s.connection, Resources: p.Resources, Atoms: atoms, Patient: p.Ask})
	if err == nil {
		snap.ReadGIDs(ctx, s.host)
	}
	out := calls.SnapshotResult{Snapshot: snap, Records: records, Transactions: transactions, Applied: s.applied(),
		Guardians: checkpoint.Guardians()}
	if err == nil && p.Ask {
		out.Refused = s.askPrograms(ctx, snap, p.Resources)
	}
	return out, err
}

// applied returns the digests of what each fabric applied last. A damaged file counts as none: the next apply replaces it.
func (s *server) applied() map[string]string {
	all, err := s.store.Applied()
	if err != nil {
		return nil
	}
	out := map[string]string{}
	for _, a := range all {
		out[a.Fabric] = a.Digest()
	}
	return out
}

// importHost drafts the model of the host.
func (s *server) importHost(ctx context.Context, p calls.ImportParams) (calls.ImportResult, error) {
	snap, err := s.kinds.Gather(ctx, s.host, resource.Query{Connection: s.connection})
	if err != nil {
		return calls.ImportResult{}, err
	}
	if snap.Management.Unknown != "" {
		return calls.ImportResult{}, fmt.Errorf("the NIC that carries your connection is unknown, and it must not be imported: %s", snap.Management.Unknown)
	}
	d := &resource.Draft{Snapshot: snap, Persist: p.Persist, Cabled: p.Cabled}
	if err := s.kinds.Import(ctx, s.host, d); err != nil {
		return calls.ImportResult{}, err
	}
	records, err := s.records(ctx)
	out := calls.ImportResult{Host: d.Host, Remarks: d.Remarks}
	for _, r := range records {
		if len(r.Atoms) > 0 {
			out.Owners = append(out.Owners, r.Fabric)
		}
	}
	return out, err
}

// look reads the facts that a kind needs for one resource.
func (s *server) look(ctx context.Context, kind resource.Kind, r resource.Resource) (*facts.Snapshot, error) {
	return resource.Kinds{kind}.Gather(ctx, s.host, resource.Query{Connection: s.connection, Resources: []resource.Resource{r}})
}

// askPrograms asks the host's own programs whether they would accept the resources that differ. It returns the reasons of those
// that they would not.
func (s *server) askPrograms(ctx context.Context, snap *facts.Snapshot, about []resource.Resource) map[string]string {
	out := map[string]string{}
	for _, r := range about {
		kind, ok := s.kinds.Lookup(r.Addr.Kind)
		if !ok || kind.Check == nil {
			continue
		}
		if d, err := kind.Plan(snap, r.Spec); err != nil || len(d.Changes) == 0 {
			continue // the planner reports the error
		}
		if err := kind.Check(ctx, s.host, r.Spec); err != nil {
			out[r.Addr.String()] = err.Error()
		}
	}
	return out
}

// act makes the changes of one action of a plan.
func (s *server) act(ctx context.Context, p calls.ActParams) (calls.ActResult, error) {
	kind, ok := s.kinds.Lookup(p.Resource.Addr.Kind)
	if !ok {
		return calls.ActResult{}, fmt.Errorf("this helper has no resource kind %q", p.Resource.Addr.Kind)
	}
	return runInTurn(ctx, &s.acting, kind.Patience(), func(ctx context.Context) (calls.ActResult, error) { return s.actNow(ctx, kind, p) })
}

// actNow reads the host again, and makes the plan's changes only if they are still the difference between the declared
// and the actual state.
func (s *server) actNow(ctx context.Context, kind resource.Kind, p calls.ActParams) (calls.ActResult, error) {
	snap, err := s.look(ctx, kind, p.Resource)
	if err != nil {
		return calls.ActResult{}, err
	}
	seen, err := kind.Plan(snap, p.Resource.Spec)
	if err != nil {
		return calls.ActResult{}, err
	}
	seen.Changes = slices.DeleteFunc(seen.Changes, func(c resource.Change) bool { return among(p.Later, c) })
	p.Changes = needed(p.Changes, seen.Changes)
	also, err := recheck(p, seen.Changes)
	if err != nil {
		return calls.ActResult{}, err
	}
	if err := s.store.Live(p.Tx.ID, p.Tx.Token); err != nil {
		return calls.ActResult{}, err
	}
	if len(seen.Changes) == 0 {
		return calls.ActResult{}, nil
	}
	if seen.Touches != "" && !p.Management {
		return calls.ActResult{}, errors.New(seen.Touches)
	}
	if err := s.note(ctx, p.Fabric, recorded(p.Changes, seen.Changes)); err != nil {
		return calls.ActResult{}, err
	}
	err = kind.Apply(ctx, s.host, p.Resource.Spec, seen.Changes)
	if errors.Is(err, resource.ErrMadeElsewhere) {
		return calls.ActResult{}, s.forget(ctx, p.Fabric, seen.Changes)
	}
	if err != nil {
		return calls.ActResult{}, err
	}
	return calls.ActResult{Changes: p.Changes, Also: also}, nil
}

// recorded leaves out what others added since to what we had set: it was not there before the first apply, so that no undo brings it back.
func recorded(planned, now []resource.Change) []resource.Change {
	return slices.DeleteFunc(slices.Clone(now), func(c resource.Change) bool {
		i := slices.IndexFunc(planned, func(o resource.Change) bool { return o.Atom == c.Atom })
		return i >= 0 && planned[i].Drift && c.To == ""
	})
}

// needed leaves out a key that is there by now: a host that shares the home has made it. What is derived from keys is planned
// after them.
func needed(changes, now []resource.Change) []resource.Change {
	return slices.DeleteFunc(slices.Clone(changes), func(c resource.Change) bool {
		return c.Stage == resource.StageKeys && !among(now, c)
	})
}

// recheck compares the plan's changes with the current difference. also are differences that the plan does not have.
func recheck(p calls.ActParams, now []resource.Change) (also []resource.Change, err error) {
	var moved []string
	for _, c := range p.Changes {
		c.Drift = false // the planner sets Drift, not the host
		if !slices.Contains(now, c) {
			moved = append(moved, "no longer: "+c.String())
		}
	}
	for _, c := range now {
		if !among(p.Changes, c) {
			also = append(also, c)
			moved = append(moved, "new: "+c.String())
		}
	}
	if len(moved) == 0 || p.Disturbed {
		return also, nil
	}
	return nil, &agent.Error{Stale: true, Message: fmt.Sprintf("%s changed since the plan was made (%s); plan again",
		p.Resource.Addr, strings.Join(moved, "; "))}
}

// among reports whether the plan has this change.
func among(shown []resource.Change, c resource.Change) bool {
	return slices.ContainsFunc(shown, func(o resource.Change) bool { o.Drift = false; return o == c })
}
