// Package apply is the engine. Open connects a Session to a fabric's hosts; Run, Destroy, Verify, Confirm and
// Rollback report to Events while they work and end in a Report with an Ending.
//
// Run works in this order: first driver stacks, which each host completes and never reverts; then keys, in a transaction on all hosts
// that is committed at once; then the rest, in another transaction on all hosts, with the runtime stage, the gate (every
// host accepts a new connection and is as declared, and no carrier or ping was lost), the persist stage and the commit;
// then the live checks. A failure before a commit reverts its transaction. What was committed before stays.
package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/parallel"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/transport"
)

// Fleet is one open helper per reachable host. It implements agent.Caller and validators.Fleet.
type Fleet struct {
	open  func(context.Context, transport.Target) (*agent.Client, error) // opens another connection, with its own helper
	mu    sync.Mutex                                                     // guards hosts
	hosts map[string]*hostConn
	// invocation is how the operator named the fabric, for commands in messages.
	invocation fabric.Invocation
	kinds      resource.Kinds // they say how long actions may take
	leases     *Leases
}

// hostConn is one host and the connection to it.
type hostConn struct {
	target   transport.Target
	former   *transport.Target // how to reach the host after a revert, if the plan changed its address
	client   *agent.Client
	seen     *calls.SnapshotResult // set by Glance, which has closed the helper
	looks    []resource.Resource   // see FleetHost
	compared []resource.Resource
	why      error // why the host has no helper
	first    firstAnswers
	// transactions are those that the host reported last, and endedNow those that a report of it ended.
	transactions []calls.TxInfo
	endedNow     []calls.TxInfo
}

// FleetHost is one host to connect to.
type FleetHost struct {
	Target transport.Target
	// Looks are the resources that each read of the host covers: those that are wanted, and those that
	// other resources are derived from.
	Looks []resource.Resource
	// Compared are resources that are read only to compare the hosts with each other (Snapshot).
	Compared []resource.Resource
}

// firstAnswers are what a host answered to askFirst.
type firstAnswers struct {
	asked     bool
	finished  calls.TxFinished
	finishing error
	seen      *calls.SnapshotResult // nil if it was not read, or the first Read has returned it
}

// first returns the target for the first connection to a host, which may be a kept one. Every later one shows that a new login works.
func (m FleetHost) first() transport.Target {
	t := m.Target
	t.MayReuse = true
	return t
}

// connect opens helpers on all hosts, at most parallelism at once. It returns no error: Unreachable names
// the hosts without a helper. The host's helper is then asked for what the caller needs first.
func (f *Fleet) connect(ctx context.Context, parallelism int, hosts []FleetHost, then func(host string)) {
	f.each(parallelism, hosts, func(m FleetHost) error {
		c, err := f.open(ctx, m.first())
		if err == nil {
			f.adopt(m.Target.Name, c)
			then(m.Target.Name)
		}
		return err
	})
}

// askFirst asks a host what an apply asks every host first, while other hosts still log in: it finishes a transaction that a
// reset interrupted, and is read. FinishInterrupted and the first Read return its answers.
func (f *Fleet) askFirst(ctx context.Context, host string, asking bool) firstAnswers {
	f.mu.Lock()
	a := f.host(host).first
	f.mu.Unlock()
	if a.asked {
		return a
	}
	a.asked = true
	if a.finished, a.finishing = calls.FinishInterrupted.Call(ctx, f, host, struct{}{}); a.finishing == nil {
		if r, err := f.Read(ctx, host, asking); err == nil {
			a.seen = &r
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.host(host).first = a
	return a
}

// glance reads all hosts once and closes each helper after its answer, so that a plan of ten thousand
// hosts needs at most parallelism connections at once. The fleet then supports one Read of each host, and cannot change or
// measure anything.
func (f *Fleet) glance(ctx context.Context, parallelism int, hosts []FleetHost) {
	f.each(parallelism, hosts, func(m FleetHost) error {
		c, err := f.open(ctx, m.first())
		if err != nil {
			return err
		}
		defer c.Close()
		r, err := read(ctx, patient{Caller: c}, m.Target.Name, m.Looks, true)
		if err != nil {
			return err
		}
		setProven(c.Stream(), r.Snapshot)
		f.noteTransactions(m.Target.Name, r.Transactions)
		f.mu.Lock()
		defer f.mu.Unlock()
		h := f.host(m.Target.Name)
		h.seen, h.looks = &r, nil // it is not read again
		return nil
	})
}

// newFleet makes a fleet that has connected to no host yet. build is the ID of the helpers.
func newFleet(d Dial, build string, hosts []FleetHost) *Fleet {
	f := &Fleet{hosts: map[string]*hostConn{}}
	f.open = func(ctx context.Context, t transport.Target) (*agent.Client, error) { return open(ctx, d, build, t) }
	for _, m := range hosts {
		f.hosts[m.Target.Name] = &hostConn{target: m.Target, looks: m.Looks, compared: m.Compared}
	}
	return f
}

// host returns the entry of a host. The caller must hold f.mu.
func (f *Fleet) host(name string) *hostConn {
	if f.hosts[name] == nil {
		f.hosts[name] = &hostConn{}
	}
	return f.hosts[name]
}

// each calls do for all hosts in parallel. If it fails, the host counts as unreachable.
func (f *Fleet) each(parallelism int, hosts []FleetHost, do func(FleetHost) error) {
	parallel.Each(parallelism, hosts, func(_ int, m FleetHost) {
		if err := do(m); err != nil {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.host(m.Target.Name).why = err
		}
	})
}

func open(ctx context.Context, d Dial, version string, t transport.Target) (*agent.Client, error) {
	began := time.Now()
	s, err := d(ctx, t)
	if err != nil {
		return nil, err
	}
	took := time.Since(began)
	if kept, is := s.(interface{ Saved() time.Duration }); is {
		took += kept.Saved()
	}
	return agent.Connect(ctx, s, version, agent.Patience(took, t.ConnectTimeout))
}

// adopt sets the host's helper, and returns the previous one.
func (f *Fleet) adopt(host string, c *agent.Client) (before *agent.Client) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.host(host)
	before, h.client, h.why = h.client, c, nil
	return before
}

func (f *Fleet) client(host string) *agent.Client {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.host(host).client
}

// redial opens another connection to a host: a new TCP connection, a new login and a new helper.
func (f *Fleet) redial(ctx context.Context, host string) (*agent.Client, error) {
	f.mu.Lock()
	target := f.host(host).target
	f.mu.Unlock()
	return f.open(ctx, target)
}

// eachHost calls do for all hosts in parallel. Errors name their host.
func eachHost(hosts []string, do func(host string) error) error {
	return parallel.Do(0, hosts, func(_ int, host string) error {
		if err := do(host); err != nil {
			return fmt.Errorf("host %s: %w", host, err)
		}
		return nil
	})
}

// Close closes all helpers.
func (f *Fleet) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, h := range f.hosts {
		if h.client != nil {
			h.client.Close()
		}
	}
}

// Hosts returns the reachable hosts, sorted.
func (f *Fleet) Hosts() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var names []string
	for name, h := range f.hosts {
		if h.client != nil || h.seen != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Unreachable says, for each host without a helper, why it has none.
func (f *Fleet) Unreachable() map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[string]string{}
	for name, h := range f.hosts {
		if h.why != nil {
			out[name] = h.why.Error()
		}
	}
	return out
}

// clientOf returns the client of a host, or why there is none.
func (f *Fleet) clientOf(host string) (*agent.Client, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch h := f.host(host); {
	case h.client != nil:
		return h.client, nil
	case h.why != nil:
		return nil, h.why
	}
	return nil, fmt.Errorf("host %s is not connected", host)
}

// lose closes the helper of a host that has not answered in time: the next call would wait as long. The host counts as
// unreachable until adopt.
func (f *Fleet) lose(host string, c *agent.Client, why error) {
	c.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	if h := f.host(host); h.client == c {
		h.client, h.why = nil, why
	}
}

// Call implements agent.Caller: it calls a host's helper, which must answer in time.
func (f *Fleet) Call(ctx context.Context, host, method string, params, result any) error {
	c, err := f.clientOf(host)
	if err != nil {
		return err
	}
	err = patient{c, f.kinds}.Call(ctx, host, method, params, result)
	if isLate(err) && method != string(calls.Beat) { // a heartbeat may fail: see coordinator.add
		f.lose(host, c, err)
	}
	var said *agent.Error
	if errors.As(err, &said) {
		said.Message = f.invocation.Fill(said.Message)
	}
	return err
}

// Read reads a host's facts and ownership records. With asking, for a plan that will be shown, it also looks
// into home directories and asks the host's own programs whether they would accept the changes.
func (f *Fleet) Read(ctx context.Context, host string, asking bool) (calls.SnapshotResult, error) {
	f.mu.Lock()
	h := f.host(host)
	seen, looks := cmp.Or(h.seen, h.first.seen), h.looks
	h.first.seen = nil
	if h.seen != nil {
		h.seen = &calls.SnapshotResult{} // the caller alone keeps it
	}
	f.mu.Unlock()
	switch {
	case seen != nil && seen.Snapshot == nil:
		return *seen, fmt.Errorf("host %s was read once, and is not connected any more", host)
	case seen != nil:
		return *seen, nil
	}
	return f.readAnew(ctx, host, looks, asking)
}

func (f *Fleet) readAnew(ctx context.Context, host string, looks []resource.Resource, asking bool) (calls.SnapshotResult, error) {
	r, err := read(ctx, f, host, looks, asking)
	f.noteTransactions(host, r.Transactions)
	if c := f.client(host); c != nil && r.Snapshot != nil {
		setProven(c.Stream(), r.Snapshot)
	}
	return r, err
}

// setProven adds the host's key and address to its facts, as our connection has them. They replace whatever the host itself
// reported. At another port than that of the host's SSH server, the address is one that forwards to the host.
func setProven(stream any, snap *facts.Snapshot) {
	m := &snap.Management
	m.HostKey, m.Dialled = "", netip.Addr{}
	s, is := stream.(interface {
		HostKey() string
		Dialled() netip.AddrPort
	})
	if !is {
		return
	}
	m.HostKey = s.HostKey()
	if at := s.Dialled(); int(at.Port()) == m.Port {
		m.Dialled = at.Addr()
	}
}

// read expects a snapshot: without one, a host that was not read would look like one without differences.
func read(ctx context.Context, c agent.Caller, host string, looks []resource.Resource, asking bool) (calls.SnapshotResult, error) {
	r, err := calls.Snapshot.Call(ctx, c, host, calls.SnapshotParams{Resources: looks, Ask: asking})
	if err == nil {
		err = r.Check()
	}
	if err != nil {
		r.Snapshot, r.Records = nil, nil
	}
	return r, err
}

// Snapshot reads a host's facts anew, with those by which the hosts are compared with each other.
func (f *Fleet) Snapshot(ctx context.Context, host string) (*facts.Snapshot, error) {
	f.mu.Lock()
	h := f.host(host)
	looks := slices.Concat(h.looks, h.compared)
	f.mu.Unlock()
	r, err := f.readAnew(ctx, host, looks, false)
	return r.Snapshot, err
}

// Enrol writes the plan's roster, and the history entry of each changed host, to the hosts in parallel. It joins their
// errors.
func (f *Fleet) Enrol(ctx context.Context, of *planner.Plan, hosts []string, entries map[string]resource.HistoryEntry) error {
	return parallel.Do(0, hosts, func(_ int, h string) error {
		p := calls.EnrolParams{Fabric: of.Fabric, Roster: of.Roster, Vanished: of.Vanished}
		if e, ok := entries[h]; ok {
			p.Entry = &e
		}
		if _, err := calls.Enrol.Call(ctx, f, h, p); err != nil {
			return fmt.Errorf("write the roster and the history on host %s: %w", h, err)
		}
		return nil
	})
}
