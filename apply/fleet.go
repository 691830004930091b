// Package apply carries a plan out on a fleet: connections to all hosts, the walk over the plan's
// actions, and the proof that the fabric has settled.
package apply

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/probe"
	"github.com/fabricform/fabricform/probe/perftest"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/transport"
)

// Fleet is one open helper per reachable host. Its measuring methods implement validators.Fleet.
type Fleet struct {
	open    func(context.Context, transport.Target) (*agent.Client, error) // another connection with its helper
	mu      sync.Mutex                                                     // of what moves with a connection
	targets map[string]transport.Target
	former  map[string]transport.Target // by which hosts were reached before a plan moved them
	clients map[string]*agent.Client
	seen    map[string]agent.SnapshotResult // by Glance, whose helpers have ended
	looks   map[string][]resource.Resource  // see Member
	// Unreachable says per host why there is no helper.
	Unreachable map[string]error
}

// Member is one host to connect to.
type Member struct {
	Target transport.Target
	// Looks are what each read of the host is for: the resources that are wanted there, and those whose
	// kinds have to look before anything can be wanted.
	Looks []resource.Resource
}

// Connect opens helpers on all members side by side, at most parallelism at once. It never fails as
// a whole: hosts without a helper are in Unreachable.
func Connect(ctx context.Context, d *transport.Dialer, version string, parallelism int, members []Member) *Fleet {
	f := newFleet(members)
	f.open = func(ctx context.Context, t transport.Target) (*agent.Client, error) { return open(ctx, d, version, t) }
	f.each(parallelism, members, func(m Member) error {
		c, err := f.open(ctx, m.Target)
		if err == nil {
			f.adopt(m.Target.Name, c)
		}
		return err
	})
	return f
}

// Glance reads all members once and ends each helper when it has answered, so that a plan of ten
// thousand hosts holds as many connections as parallelism allows. Its fleet answers Read, and can
// neither change nor measure.
func Glance(ctx context.Context, d *transport.Dialer, version string, parallelism int, members []Member) *Fleet {
	f := newFleet(members)
	var mu sync.Mutex
	f.each(parallelism, members, func(m Member) error {
		c, err := open(ctx, d, version, m.Target)
		if err != nil {
			return err
		}
		defer c.Close()
		var r agent.SnapshotResult
		if err := c.Call(ctx, "snapshot", agent.SnapshotParams{Resources: m.Looks, Ask: true}, &r); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		f.seen[m.Target.Name] = r
		return nil
	})
	return f
}

func newFleet(members []Member) *Fleet {
	f := &Fleet{targets: map[string]transport.Target{}, former: map[string]transport.Target{}, clients: map[string]*agent.Client{}, seen: map[string]agent.SnapshotResult{}, looks: map[string][]resource.Resource{},
		Unreachable: map[string]error{}}
	for _, m := range members {
		f.looks[m.Target.Name], f.targets[m.Target.Name] = m.Looks, m.Target
	}
	return f
}

// each does something to all members side by side; where it fails, the host is unreachable.
func (f *Fleet) each(parallelism int, members []Member, do func(Member) error) {
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(parallelism)
	for _, m := range members {
		g.Go(func() error {
			if err := do(m); err != nil {
				mu.Lock()
				defer mu.Unlock()
				f.Unreachable[m.Target.Name] = err
			}
			return nil
		})
	}
	_ = g.Wait() // the functions above return nil always
}

func open(ctx context.Context, d *transport.Dialer, version string, t transport.Target) (*agent.Client, error) {
	began := time.Now()
	s, err := d.Start(ctx, t)
	if err != nil {
		return nil, err
	}
	return agent.Connect(ctx, s, version, agent.Patience(time.Since(began), t.ConnectTimeout))
}

// adopt makes a helper the host's, and answers the one from before.
func (f *Fleet) adopt(host string, c *agent.Client) (before *agent.Client) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before, f.clients[host] = f.clients[host], c
	return before
}

func (f *Fleet) client(host string) *agent.Client {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.clients[host]
}

// redial opens another connection to a host: a new TCP connection, login and helper.
func (f *Fleet) redial(ctx context.Context, host string) (*agent.Client, error) {
	f.mu.Lock()
	target := f.targets[host]
	f.mu.Unlock()
	return f.open(ctx, target)
}

// Close ends all helpers.
func (f *Fleet) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.clients {
		c.Close()
	}
}

// Hosts are the hosts that answered, sorted.
func (f *Fleet) Hosts() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	names := slices.AppendSeq(slices.Collect(maps.Keys(f.clients)), maps.Keys(f.seen))
	slices.Sort(names)
	return names
}

func ask[R any](ctx context.Context, f *Fleet, host, method string, params any) (R, error) {
	var r R
	c := f.client(host)
	if c == nil {
		if err := f.Unreachable[host]; err != nil {
			return r, err
		}
		return r, fmt.Errorf("host %s is not connected", host)
	}
	err := c.Call(ctx, method, params, &r)
	return r, err
}

// Read reads a host's facts, and what fabrics made on it. asking is for what is to be shown before
// anything changes: homes are looked into, and the host's own programs are asked whether they would
// take what differs.
func (f *Fleet) Read(ctx context.Context, host string, asking bool) (agent.SnapshotResult, error) {
	if r, is := f.seen[host]; is {
		return r, nil
	}
	return ask[agent.SnapshotResult](ctx, f, host, "snapshot", agent.SnapshotParams{Resources: f.looks[host], Ask: asking})
}

// Snapshot reads a host's facts anew.
func (f *Fleet) Snapshot(ctx context.Context, host string) (*facts.Snapshot, error) {
	r, err := f.Read(ctx, host, false)
	return r.Snapshot, err
}

// Undo gives back what a fabric made on a host.
func (f *Fleet) Undo(ctx context.Context, host string, p agent.UndoParams) (agent.ActResult, error) {
	return ask[agent.ActResult](ctx, f, host, "undo", p)
}

// Enrol tells hosts which hosts their fabric has and what was done there, all side by side; the
// errors are joined. A host without an entry was not changed.
func (f *Fleet) Enrol(ctx context.Context, fabric string, roster []resource.Member, hosts []string, entries map[string]resource.Entry) error {
	var g errgroup.Group
	errs := make([]error, len(hosts))
	for i, h := range hosts {
		g.Go(func() error {
			p := agent.EnrolParams{Fabric: fabric, Roster: roster}
			if e, ok := entries[h]; ok {
				p.Entry = &e
			}
			if _, err := ask[struct{}](ctx, f, h, "enrol", p); err != nil {
				errs[i] = fmt.Errorf("keep the roster on host %s: %w", h, err)
			}
			return nil
		})
	}
	_ = g.Wait() // the functions above return nil always
	return errors.Join(errs...)
}

// Act carries out one action.
func (f *Fleet) Act(ctx context.Context, p agent.ActParams) (agent.ActResult, error) {
	return ask[agent.ActResult](ctx, f, p.Resource.Addr.Host, "act", p)
}

// Ping measures from host to all targets at once.
func (f *Fleet) Ping(ctx context.Context, host string, s probe.PingSpec) ([]probe.PingResult, error) {
	return ask[[]probe.PingResult](ctx, f, host, "ping", s)
}

// TCPListen opens a receiver on host.
func (f *Fleet) TCPListen(ctx context.Context, host string, s probe.TCPListenSpec) (probe.TCPListenResult, error) {
	return ask[probe.TCPListenResult](ctx, f, host, "tcp.listen", s)
}

// TCPSend sends from host.
func (f *Fleet) TCPSend(ctx context.Context, host string, s probe.TCPSendSpec) (probe.TCPResult, error) {
	return ask[probe.TCPResult](ctx, f, host, "tcp.send", s)
}

// TCPCollect reads a receiver's account.
func (f *Fleet) TCPCollect(ctx context.Context, host, id string) (probe.TCPResult, error) {
	return ask[probe.TCPResult](ctx, f, host, "tcp.collect", id)
}

// VerbsServe starts the serving end of a perftest program on host.
func (f *Fleet) VerbsServe(ctx context.Context, host string, s probe.VerbsServeSpec) (probe.VerbsServeResult, error) {
	return ask[probe.VerbsServeResult](ctx, f, host, "verbs.serve", s)
}

// VerbsRun runs the client's end on host.
func (f *Fleet) VerbsRun(ctx context.Context, host string, s probe.VerbsRunSpec) (probe.VerbsOutcome, error) {
	return ask[probe.VerbsOutcome](ctx, f, host, "verbs.run", s)
}

// VerbsCollect waits for the end of a serving end.
func (f *Fleet) VerbsCollect(ctx context.Context, host, id string) (probe.VerbsOutcome, error) {
	return ask[probe.VerbsOutcome](ctx, f, host, "verbs.collect", id)
}

// VerbsVersion asks for perftest's release; the zero one where it is missing or does not say.
func (f *Fleet) VerbsVersion(ctx context.Context, host string, t perftest.Test) (perftest.Version, error) {
	return ask[perftest.Version](ctx, f, host, "verbs.version", t)
}

// CollectiveLook asks what a host has to run ranks of NCCL with.
func (f *Fleet) CollectiveLook(ctx context.Context, host string, l probe.CollectiveLook) (probe.CollectiveHas, error) {
	return ask[probe.CollectiveHas](ctx, f, host, "collective.look", l)
}

// CollectiveRun runs a host's ranks of a job to their ends.
func (f *Fleet) CollectiveRun(ctx context.Context, host string, s probe.CollectiveSpec) ([]probe.CollectiveRank, error) {
	return ask[[]probe.CollectiveRank](ctx, f, host, "collective.run", s)
}

// CollectiveStop ends a host's ranks of a job.
func (f *Fleet) CollectiveStop(ctx context.Context, host, id string) error {
	_, err := ask[struct{}](ctx, f, host, "collective.stop", id)
	return err
}

// LaunchLook asks what a host has to run nccl-tests with.
func (f *Fleet) LaunchLook(ctx context.Context, host string, l probe.LaunchLook) (probe.LaunchHas, error) {
	return ask[probe.LaunchHas](ctx, f, host, "launch.look", l)
}

// Launch runs mpirun on host to its end.
func (f *Fleet) Launch(ctx context.Context, host string, s probe.LaunchSpec) (probe.LaunchEnded, error) {
	return ask[probe.LaunchEnded](ctx, f, host, "launch.run", s)
}

// LaunchAsked waits for what the mpirun on host wants of another one.
func (f *Fleet) LaunchAsked(ctx context.Context, host, id string) (probe.LaunchAsk, error) {
	return ask[probe.LaunchAsk](ctx, f, host, "launch.asked", id)
}

// LaunchTold answers the mpirun on host.
func (f *Fleet) LaunchTold(ctx context.Context, host string, t probe.LaunchTold) error {
	_, err := ask[struct{}](ctx, f, host, "launch.told", t)
	return err
}

// LaunchDaemon runs a daemon of mpirun's on host to its end.
func (f *Fleet) LaunchDaemon(ctx context.Context, host string, s probe.DaemonSpec) (probe.LaunchEnded, error) {
	return ask[probe.LaunchEnded](ctx, f, host, "launch.daemon", s)
}

// CaptureStart begins to record RoCE v2 packets on host.
func (f *Fleet) CaptureStart(ctx context.Context, host string, s probe.CaptureSpec) (id string, err error) {
	return ask[string](ctx, f, host, "capture.start", s)
}

// CaptureCollect ends a capture.
func (f *Fleet) CaptureCollect(ctx context.Context, host, id string) (probe.CaptureReport, error) {
	return ask[probe.CaptureReport](ctx, f, host, "capture.collect", id)
}

// RDMACounters reads the counters of a port of an RDMA device.
func (f *Fleet) RDMACounters(ctx context.Context, host, device string, port int) (probe.RDMACounters, error) {
	return ask[probe.RDMACounters](ctx, f, host, "counters.rdma", agent.RDMAPort{Device: device, Port: port})
}

// Counters reads a port's counters.
func (f *Fleet) Counters(ctx context.Context, host, netdev string) (probe.Counters, error) {
	return ask[probe.Counters](ctx, f, host, "counters", netdev)
}
