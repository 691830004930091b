package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/fabricform/fabricform/checkpoint"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/probe"
	"github.com/fabricform/fabricform/resource"
)

// SnapshotParams asks for the host's facts.
type SnapshotParams struct {
	// Resources are what is wanted of the host: each kind reads what it looks at for them.
	Resources []resource.Resource `json:"resources,omitempty"`
	// Ask is for what is to be shown before anything changes: the host's own programs are asked whether they
	// would take what differs, and homes are looked into. Such a read may take some seconds, and never
	// happens within a transaction.
	Ask bool `json:"ask,omitempty"`
}

// SnapshotResult is the host's facts, and what fabrics made on it.
type SnapshotResult struct {
	Snapshot *facts.Snapshot   `json:"snapshot"`
	Records  []resource.Record `json:"records,omitempty"`
	Refused  map[string]string `json:"refused,omitempty"` // why, by the address of a resource that was asked about
}

// ActParams asks for one action of a plan.
type ActParams struct {
	Fabric   string            `json:"fabric"` // who will own what is made
	Resource resource.Resource `json:"resource"`
	Changes  []resource.Change `json:"changes"` // what the plan showed
	// Settling is true where an earlier action of this plan changed something below this resource:
	// the kernel may have dropped more (routes of a bounced link), which is then put back and said.
	Settling bool `json:"settling,omitempty"`
	// Management allows that the operator's own path is touched, as the plan showed it.
	Management bool `json:"management,omitempty"`
	// Later are differences that another action of this plan takes care of.
	Later []resource.Change `json:"later,omitempty"`
	// Tx is the transaction that the change is part of; nothing is changed without one.
	Tx TxRef `json:"tx"`
}

// ActResult says what was changed: the plan's changes, and what an earlier action had disturbed.
type ActResult struct {
	Changes []resource.Change `json:"changes"`
	Also    []resource.Change `json:"also,omitempty"`
}

// RDMAPort names a port of an RDMA device.
type RDMAPort struct {
	Device string `json:"device"`
	Port   int    `json:"port"`
}

// Methods is the helper's side: what a client may ask of this host.
func Methods(h host.Host, kinds resource.Kinds, store *checkpoint.Store, sshConnection string) map[string]Handler {
	s := &server{host: h, kinds: kinds, sshConnection: sshConnection, tcp: new(probe.TCPServer), verbs: new(probe.VerbsServer), captures: new(probe.CaptureServer), collectives: new(probe.Collectives),
		store: store, stack: host.StackDir, arrivals: arrivals, startInstaller: startInstaller}
	return map[string]Handler{
		"snapshot":     method(s.snapshot),
		"act":          method(s.act),
		"undo":         method(s.undo),
		"tx.ready":     method(s.txReady),
		"tx.open":      method(s.txOpen),
		"tx.beat":      step(s.store.Beat),
		"tx.prepare":   step(s.store.Prepare),
		"tx.persist":   method(s.txPersist),
		"tx.settle":    method(s.txSettle),
		"tx.commit":    method(s.txCommit),
		"tx.revert":    method(s.txRevert),
		"tx.list":      method(s.txList),
		"tx.takeover":  method(s.txTakeOver),
		"tx.release":   method(s.txRelease),
		"bundle.room":  method(s.bundleRoom),
		"bundle.check": method(s.bundleCheck),
		"relay.serve":  method(s.relayServe),
		"relay.fetch":  method(s.relayFetch),
		"relay.end":    method(s.relayEnd),
		"stack.start":  method(s.stackStart),
		"stack.state":  method(s.stackState),
		"stack.reboot": method(s.stackReboot),
		"enrol":        method(s.enrol),
		"ping":         method(probe.Ping),
		"tcp.listen":   method(s.tcp.Listen),
		"tcp.send":     method(probe.Send),
		"tcp.collect": method(func(ctx context.Context, id string) (probe.TCPResult, error) {
			return s.tcp.Collect(ctx, id)
		}),
		"verbs.serve":     method(s.verbs.Serve),
		"verbs.run":       method(s.verbs.Run),
		"verbs.collect":   method(s.verbs.Collect),
		"verbs.version":   method(s.verbs.Version),
		"collective.look": method(s.collectives.Look),
		"collective.run":  method(s.collectives.Run),
		"collective.stop": method(s.collectives.Stop),
		"launch.look":     method(s.collectives.LaunchLook),
		"launch.run":      method(s.collectives.Launch),
		"launch.asked":    method(s.collectives.Asked),
		"launch.told":     method(s.collectives.Told),
		"launch.daemon":   method(s.collectives.Daemon),
		"capture.start":   method(s.captures.Start),
		"capture.collect": method(s.captures.Collect),
		"counters.rdma": method(func(_ context.Context, p RDMAPort) (probe.RDMACounters, error) {
			return probe.ReadRDMACounters(p.Device, p.Port)
		}),
		"counters": method(func(_ context.Context, netdev string) (probe.Counters, error) {
			return probe.ReadCounters(netdev)
		}),
	}
}

// method gives a typed function the shape of a Handler.
func method[P, R any](f func(context.Context, P) (R, error)) Handler {
	return func(ctx context.Context, raw json.RawMessage) (any, error) {
		var p P
		if err := json.Unmarshal(raw, &p); err != nil {
			return nil, fmt.Errorf("decode request: %w", err)
		}
		return f(ctx, p)
	}
}

type server struct {
	host           host.Host
	kinds          resource.Kinds
	sshConnection  string
	tcp            *probe.TCPServer
	verbs          *probe.VerbsServer
	captures       *probe.CaptureServer
	collectives    *probe.Collectives
	store          *checkpoint.Store
	stack          stackFolder
	relays         relays
	arrivals       string // where bundles are uploaded to
	startInstaller func(order string, stderr *os.File) (ended <-chan struct{}, err error)
	acting         sync.Mutex // one action at a time: each re-reads before it changes
	goesDown       func()     // gives back the lock of a host that restarts; kept, because Go closes a file that nobody has
}

func (s *server) snapshot(ctx context.Context, p SnapshotParams) (SnapshotResult, error) {
	records, err := s.records()
	if err != nil {
		return SnapshotResult{}, err
	}
	var atoms []resource.Atom
	for _, r := range records {
		atoms = slices.AppendSeq(atoms, maps.Keys(r.Atoms))
	}
	snap, err := s.kinds.Gather(ctx, s.host, resource.Query{SSHConnection: s.sshConnection, Resources: p.Resources, Atoms: atoms, Patient: p.Ask})
	if err != nil || !p.Ask {
		return SnapshotResult{Snapshot: snap, Records: records}, err
	}
	return SnapshotResult{snap, records, s.refused(ctx, snap, p.Resources)}, nil
}

// look reads what one kind looks at for one resource.
func (s *server) look(ctx context.Context, kind resource.Kind, r resource.Resource) (*facts.Snapshot, error) {
	return resource.Kinds{kind}.Gather(ctx, s.host, resource.Query{SSHConnection: s.sshConnection, Resources: []resource.Resource{r}})
}

// refused asks the host's own programs about resources that differ.
func (s *server) refused(ctx context.Context, snap *facts.Snapshot, about []resource.Resource) map[string]string {
	out := map[string]string{}
	for _, r := range about {
		kind, ok := s.kinds.Lookup(r.Addr.Kind)
		if !ok || kind.Check == nil {
			continue
		}
		if d, err := kind.Plan(snap, r.Spec); err != nil || len(d.Changes) == 0 {
			continue // the planner says so
		}
		if err := kind.Check(ctx, s.host, r.Spec); err != nil {
			out[r.Addr.String()] = err.Error()
		}
	}
	return out
}

// act re-reads what the plan read and makes the plan's changes only if they still are the
// difference between wanted and found.
func (s *server) act(ctx context.Context, p ActParams) (ActResult, error) {
	s.acting.Lock()
	defer s.acting.Unlock()
	kind, ok := s.kinds.Lookup(p.Resource.Addr.Kind)
	if !ok {
		return ActResult{}, fmt.Errorf("this helper has no resource kind %q", p.Resource.Addr.Kind)
	}
	snap, err := s.look(ctx, kind, p.Resource)
	if err != nil {
		return ActResult{}, err
	}
	seen, err := kind.Plan(snap, p.Resource.Spec)
	if err != nil {
		return ActResult{}, err
	}
	seen.Changes = slices.DeleteFunc(seen.Changes, func(c resource.Change) bool { return among(p.Later, c) })
	also, err := recheck(p, seen.Changes)
	if err != nil {
		return ActResult{}, err
	}
	if err := s.store.Live(p.Tx.ID, p.Tx.Token); err != nil {
		return ActResult{}, err
	}
	if len(seen.Changes) == 0 {
		return ActResult{}, nil
	}
	if seen.Touches != "" && (!p.Management || snap.Management.Unknown != "") {
		return ActResult{}, errors.New(seen.Touches)
	}
	if err := s.note(p.Fabric, seen.Changes); err != nil {
		return ActResult{}, err
	}
	if err := kind.Apply(ctx, s.host, p.Resource.Spec, seen.Changes); err != nil {
		return ActResult{}, err
	}
	return ActResult{Changes: p.Changes, Also: also}, nil
}

// recheck compares what the plan showed with the difference now.
func recheck(p ActParams, now []resource.Change) (also []resource.Change, err error) {
	var moved []string
	for _, c := range p.Changes {
		c.Drift = false // the plan's judgement, not the host's
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
	if len(moved) == 0 || p.Settling {
		return also, nil
	}
	return nil, &Error{Stale: true, Message: fmt.Sprintf("%s moved since the plan was made (%s); plan again",
		p.Resource.Addr, strings.Join(moved, "; "))}
}

// among says whether the plan showed this difference.
func among(shown []resource.Change, c resource.Change) bool {
	return slices.ContainsFunc(shown, func(o resource.Change) bool { o.Drift = false; return o == c })
}
