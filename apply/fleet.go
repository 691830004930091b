// Package apply is the engine. Open connects a Session to a fabric's hosts; Run, Destroy, Verify, Confirm and
// Rollback report to Events while they work and end in a Report with an Ending.
//
// Run works in this order: first driver stacks, which each host completes and never reverts; then keys, in a transaction on all hosts
// that is committed at once; then the rest, in another transaction on all hosts, with the runtime stage, the gate (every
// host accepts a new connection and is as declared, and no carrier or ping was lost), the persist stage and the commit;
// then the live checks. A failure before a commit reverts its transaction. What was committed before stays.
package apply

import (
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
	memory     *memory
}

// hostConn is one host and the connection to it.
type hostConn struct {
	target   transport.Target
	former   *transport.Target // how to reach the host after a revert, if the plan changed its address
	client   *agent.Client
	glance   *glance                    // what the host answered; its helper is closed
	looks    func() []resource.Resource // see FleetHost
	compared []resource.Resource
	why      error                 // why the host has no helper
	resting  error                 // why it has none for now (rest); nil if it does not rest
	latest   *calls.SnapshotResult // what Read returned last; nil if it never did
	first    firstAnswers
	// transactions are those that the host reported last, and endedNow those that a report of it ended.
	transactions []calls.TxInfo
	endedNow     []calls.TxInfo
}

// FleetHost is one host to connect to.
type FleetHost struct {
	Target transport.Target
	// Looks returns the resources that each read of the host covers: those that are wanted, and those that
	// other resources are derived from.
	Looks func() []resource.Resource
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

// glance is a host's only answer of a plan, with what its connection proved. The answer is decoded when it is
// read: the facts of ten thousand hosts would fill memory.
type glance struct {
	answer []byte // see memory
	proven identity
	noted  bool // its transactions are known
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
// hosts needs at most parallelism connections at once. The fleet then answers Read from memory, and cannot change or
// measure anything. closed is called for each host whose helper was closed.
func (f *Fleet) glance(ctx context.Context, parallelism int, hosts []FleetHost, closed func(host string)) {
	f.each(parallelism, hosts, func(m FleetHost) error {
		c, err := f.open(ctx, m.first())
		if err != nil {
			return err
		}
		defer func() { c.Close(); closed(m.Target.Name) }()
		answer, err := calls.Snapshot.Ask(ctx, patient{Caller: c}, m.Target.Name, calls.SnapshotParams{Resources: m.Looks(), Ask: true})
		if err != nil {
			return err
		}
		packed, err := f.memory.pack(answer)
		if err != nil {
			return err
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.host(m.Target.Name).glance = &glance{answer: packed, proven: identityBy(c.Stream())}
		return nil
	})
}

// newFleet makes a fleet that has connected to no host yet. build is the ID of the helpers.
func newFleet(d Dial, build string, hosts []FleetHost) *Fleet {
	f := &Fleet{hosts: map[string]*hostConn{}, memory: newMemory()}
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
		if h.client != nil || h.glance != nil {
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
	case h.resting != nil:
		return nil, fmt.Errorf("host %s: %w", host, h.resting)
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
	seen, glance, looks := h.first.seen, h.glance, h.looks
	h.first.seen = nil
	if h.resting != nil {
		seen = h.latest
	}
	f.mu.Unlock()
	switch {
	case seen != nil:
		return *seen, nil
	case glance != nil:
		return f.recall(host, glance)
	}
	r, err := f.readAnew(ctx, host, covered(looks), asking)
	if err == nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.host(host).latest = &r
	}
	return r, err
}

// recall decodes a host's stored answer. If the answer is not a snapshot, the host counts as unreachable.
func (f *Fleet) recall(host string, g *glance) (calls.SnapshotResult, error) {
	var r calls.SnapshotResult
	answer, err := f.memory.unpack(g.answer)
	if err == nil {
		r, err = checked(calls.Snapshot.Decode(answer))
	}
	if err != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		h := f.host(host)
		h.glance, h.why = nil, err
		return r, err
	}
	g.proven.set(r.Snapshot)
	if !g.noted {
		g.noted = true
		f.noteTransactions(host, r.Transactions)
	}
	return r, nil
}

// covered returns the resources of FleetHost.Looks; none for a host that this fleet was not to connect to.
func covered(looks func() []resource.Resource) []resource.Resource {
	if looks == nil {
		return nil
	}
	return looks()
}

func (f *Fleet) readAnew(ctx context.Context, host string, looks []resource.Resource, asking bool) (calls.SnapshotResult, error) {
	r, err := checked(calls.Snapshot.Call(ctx, f, host, calls.SnapshotParams{Resources: looks, Ask: asking}))
	f.noteTransactions(host, r.Transactions)
	if c := f.client(host); c != nil && r.Snapshot != nil {
		identityBy(c.Stream()).set(r.Snapshot)
	}
	return r, err
}

// identity is what our own connection to a host proved of it.
type identity struct {
	hostKey string
	dialled netip.AddrPort
}

func identityBy(stream any) (p identity) {
	if s, is := stream.(interface {
		HostKey() string
		Dialled() netip.AddrPort
	}); is {
		p = identity{s.HostKey(), s.Dialled()}
	}
	return p
}

// set adds the host's key and address to its facts. They replace whatever the host itself reported. At another port than that
// of the host's SSH server, the address is one that forwards to the host.
func (p identity) set(snap *facts.Snapshot) {
	m := &snap.Management
	m.HostKey, m.Dialled = p.hostKey, netip.Addr{}
	if int(p.dialled.Port()) == m.Port {
		m.Dialled = p.dialled.Addr()
	}
}

// checked expects a snapshot: without one, a host that was not read would look like one without differences.
func checked(r calls.SnapshotResult, err error) (calls.SnapshotResult, error) {
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
	looks, compared := h.looks, h.compared
	f.mu.Unlock()
	r, err := f.readAnew(ctx, host, slices.Concat(covered(looks), compared), false)
	return r.Snapshot, err
}

// Enrolment is what a host stores beside the roster. Each part may be nil.
type Enrolment struct {
	Entry   *resource.HistoryEntry   // the host was changed
	Adopt   map[resource.Atom]string // values that its record adopts
	Applied *resource.Applied        // what is applied, if the host does not keep it
}

// Enrol writes the plan's roster, and what else each host stores, to the hosts in parallel. It joins their errors.
func (f *Fleet) Enrol(ctx context.Context, of *planner.Plan, hosts []string, more map[string]Enrolment) error {
	return parallel.Do(0, hosts, func(_ int, h string) error {
		m := more[h]
		p := calls.EnrolParams{Fabric: of.Fabric, Roster: of.Roster, Vanished: of.Vanished, Entry: m.Entry, Adopt: m.Adopt, Applied: m.Applied}
		if _, err := calls.Enrol.Call(ctx, f, h, p); err != nil {
			return fmt.Errorf("write the roster and the history on host %s: %w", h, err)
		}
		return nil
	})
}
