package apply

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/parallel"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/transport"
)

// Dial starts a helper on a host, and returns the stream to it.
type Dial func(ctx context.Context, to transport.Target) (io.ReadWriteCloser, error)

// Resources is the table of kinds, and the resources that they derive for a host.
type Resources struct {
	Kinds   resource.Kinds
	Desired func(*fabric.Fabric, *fabric.Host) []resource.Resource
	// Derived returns resources that also depend on the host's facts and on its records.
	Derived func(*fabric.Fabric, *fabric.Host, *facts.Snapshot, []resource.Record) []resource.Resource
	// Joined returns resources that depend on the facts of several hosts, by name; those that were not reached are absent.
	Joined func(*fabric.Fabric, *fabric.Host, map[string]*facts.Snapshot) []resource.Resource
	// Looks returns resources that are only read: those that Derived and Joined need.
	Looks func(*fabric.Fabric, *fabric.Host) []resource.Resource
	// Compared returns resources that are only read to compare the hosts with each other.
	Compared func(*fabric.Host) []resource.Resource
}

// Lab runs the hosts of a fabric on this machine.
type Lab interface {
	Target(host string) (addr string, port int, user, identityFile, knownHosts string)
	// ConnectTimeout applies to hosts whose files declare none.
	ConnectTimeout() time.Duration
	// LinkCapGbps is the highest rate of the lab's links; 0 if they are not limited.
	LinkCapGbps() float64
}

// SessionOptions say how to reach the hosts, and on whose behalf.
type SessionOptions struct {
	Dial      Dial
	Resources Resources
	Lab       Lab             // nil: the declared hosts
	Chosen    map[string]bool // nil: all hosts
	// Away says why chosen hosts count as unreachable without being contacted.
	Away        map[string]string
	Parallelism int // maximum number of hosts to connect to in parallel
	// Glance reads each host once and disconnects: the session can only make a plan.
	Glance bool
	// Changing is set for Run and Destroy: each host is asked for what they need first as soon as it is connected.
	Changing bool
	Tokens   TokenStore
	Leases   *Leases // of the program; may be nil
	// Scheduler gives hosts with a slurm block to jobs; nil if there are none.
	Scheduler Scheduler
	// Exclusive reaches those hosts only while no job is there, and keeps jobs away until the session ends: for measurements.
	Exclusive bool
	Build     string // of this program and of the helpers
	Source    string // of the files
	// Invocation is how the operator named the fabric, for commands in messages.
	Invocation fabric.Invocation
	User       string // user@machine of the operator
	// Management allows changes of the operator's own path.
	Management bool
	// HalfLinks allows changes at one end of a link whose other end is unreachable, or changed since the plan was saved.
	HalfLinks bool
	Destroy   bool // undo everything that the fabric made
}

// Session is a fabric with a helper on every reachable host, or with what the helpers answered (SessionOptions.Glance).
type Session struct {
	*Fleet
	Fabric  *fabric.Fabric
	Options SessionOptions

	saved    *planner.Saved // the plan to apply; nil to make one now
	latest   proposal
	keysOnly bool // a saved plan made keys, without what is derived from them
	joined   bool // the joined resources of the hosts are known

	mu    sync.Mutex
	known map[string]*state // by host
}

// proposal is what a session remembers of its latest proposed plan. Later plans and live checks leave out the same.
type proposal struct {
	leftOut    []planner.LeftOut // links and networks
	incomplete map[string]bool   // hosts with changes that are therefore left out
}

// state is what a session knows about a host.
type state struct {
	derived  []resource.Resource // of the latest proposed plan
	proposed bool
	joined   []resource.Resource // as derived
	applied  map[string]string   // digests of what each fabric applied last, as read last
	alone    bool                // one guardian only would watch a transaction
	snapshot *facts.Snapshot     // as read last
	records  []resource.Record   // as read last
}

// Open connects to the chosen hosts of a fabric. Unreachable names those without a helper.
func Open(ctx context.Context, f *fabric.Fabric, o SessionOptions) *Session {
	s := &Session{Fabric: f, Options: o, known: map[string]*state{}}
	hosts := make([]FleetHost, 0, len(f.Hosts))
	for _, h := range f.Hosts {
		s.known[h.Name] = &state{}
		if s.Excluded(h.Name) || o.Away[h.Name] != "" {
			continue
		}
		m := FleetHost{Target: s.target(h), Looks: func() []resource.Resource {
			return slices.Concat(o.Resources.Desired(f, h), o.Resources.Looks(f, h))
		}}
		if !o.Glance {
			m.Compared = o.Resources.Compared(h)
		}
		hosts = append(hosts, m)
	}
	s.Fleet = newFleet(o.Dial, o.Build, hosts)
	s.invocation, s.kinds, s.leases = o.Invocation, o.Resources.Kinds, o.Leases
	switch {
	case o.Glance:
		s.glance(ctx, o.Parallelism, hosts, s.release)
	case o.Changing:
		s.connect(ctx, o.Parallelism, hosts, func(host string) { s.askFirst(ctx, host, !o.Destroy) })
	default:
		s.connect(ctx, o.Parallelism, hosts, func(string) {})
	}
	for name, why := range o.Away {
		s.hosts[name] = &hostConn{why: errors.New(why)}
	}
	return s
}

// Save returns a plan that this session made, to be applied later by OpenSaved and Run.
func (s *Session) Save(p *planner.Plan) *planner.Saved {
	declared := *s.Fabric
	declared.Outputs = nil // outputs may be sensitive, and no host needs them
	o, whole := s.Options, *p
	whole.Invocation.Flags, whole.LeftOut = slices.Clone(p.Invocation.Flags), slices.Clone(p.LeftOut)
	for i := range whole.LeftOut {
		whole.LeftOut[i].Saved = !whole.LeftOut[i].Half
	}
	if path, err := filepath.Abs(p.Invocation.Path); err == nil { // apply may run in another directory
		whole.Invocation.Path, whole.Invocation.Dir = path, ""
	}
	for i, flag := range whole.Invocation.Flags {
		if file, is := strings.CutPrefix(flag, "-var-file="); is {
			if path, err := filepath.Abs(file); err == nil {
				whole.Invocation.Flags[i] = "-var-file=" + path
			}
		}
	}
	return &planner.Saved{ID: NewID(), Build: o.Build, Created: time.Now().UTC(), User: o.User, Source: o.Source, Lab: o.Tokens.Lab,
		Destroy: o.Destroy, Management: o.Management, Fabric: &declared, Plan: &whole}
}

// OpenSaved connects to the hosts that a saved plan holds, and to no other: a host that was unreachable when the plan was
// saved still counts as unreachable. The plan must have been made on the hosts that the options select: the declared
// ones, or those of one lab.
func OpenSaved(ctx context.Context, saved *planner.Saved, o SessionOptions) (*Session, error) {
	if err := saved.CheckTarget(o.Tokens.Lab); err != nil {
		return nil, err
	}
	o.Source, o.Destroy, o.Management, o.Invocation = saved.Source, saved.Destroy, saved.Management, saved.Plan.Invocation
	chosen, unreachable := saved.Covered()
	o.Chosen, o.Away = chosen, map[string]string{}
	for host, why := range unreachable {
		o.Away[host] = "it was unreachable when the plan was saved: " + why
	}
	s := Open(ctx, saved.Fabric, o)
	s.saved = saved
	return s, nil
}

// Excluded reports whether the operator excluded the host with -host or -exclude.
func (s *Session) Excluded(host string) bool {
	return s.Options.Chosen != nil && !s.Options.Chosen[host]
}

// ReadNone reports whether no chosen host was read, because all of them are unreachable: then nothing is known.
func (s *Session) ReadNone(unreachable map[string]string) bool {
	return !slices.ContainsFunc(s.Fabric.Hosts, func(h *fabric.Host) bool { return unreachable[h.Name] == "" && !s.Excluded(h.Name) })
}

// target says how to reach a host.
func (s *Session) target(h *fabric.Host) transport.Target {
	if lab := s.Options.Lab; lab != nil {
		addr, port, user, identity, known := lab.Target(h.Name)
		return transport.Target{Name: h.Name, Address: addr, Port: port, User: user, IdentityFile: identity, KnownHosts: known,
			ConnectTimeout: cmp.Or(h.SSH.ConnectTimeout, lab.ConnectTimeout())}
	}
	if h.Slurm != nil {
		return transport.Target{Name: h.Name, Address: h.Address, Slurm: &transport.Slurm{Partition: h.Slurm.Partition,
			Reservation: h.Slurm.Reservation, Account: h.Slurm.Account, QOS: h.Slurm.QOS,
			TimeLimit: h.Slurm.TimeLimit, Sudo: h.Slurm.Sudo, MaxDrained: h.Slurm.MaxDrained, DrainTimeout: h.Slurm.DrainTimeout, Exclusive: s.Options.Exclusive}}
	}
	return transport.Target{
		Name: h.Name, Address: h.Address, User: h.SSH.User, Port: h.SSH.Port, IdentityFile: h.SSH.IdentityFile,
		KnownHosts: h.SSH.KnownHosts, ProxyJump: h.SSH.ProxyJump, Sudo: h.SSH.Sudo, ConnectTimeout: h.SSH.ConnectTimeout,
	}
}

// Facts returns the latest snapshot of each host, without sensitive values.
func (s *Session) Facts() map[string]*facts.Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]*facts.Snapshot{}
	for name, h := range s.known {
		if h.snapshot != nil {
			out[name] = h.snapshot.Masked(s.Fabric.Secrets.Redact)
		}
	}
	return out
}

// Records returns the latest ownership records of each host.
func (s *Session) Records() map[string][]resource.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string][]resource.Record{}
	for name, h := range s.known {
		out[name] = h.records
	}
	return out
}

// Propose makes a plan to show or apply. Unlike Plan, it also asks the hosts' own programs whether they
// would accept the changes.
func (s *Session) Propose(ctx context.Context) *planner.Plan {
	p, _ := s.propose(ctx)
	return p
}

// propose also returns what the plan was made from.
func (s *Session) propose(ctx context.Context) (*planner.Plan, []planner.HostInput) {
	inputs := s.inputs(ctx, !s.Options.Destroy)
	return s.planWithout(inputs, nil), inputs
}

// Plan reads all hosts in parallel and compares them with the files. It leaves out the links and networks that the
// latest proposed plan left out. It fails only after an interrupt.
func (s *Session) Plan(ctx context.Context) (*planner.Plan, error) {
	p := s.compare(ctx)
	return p, Interrupted(ctx)
}

// compare is Plan for callers that handle interrupts themselves.
func (s *Session) compare(ctx context.Context) *planner.Plan {
	return s.plan(s.inputs(ctx, false), s.latest.leftOut)
}

func (s *Session) plan(inputs []planner.HostInput, left []planner.LeftOut) *planner.Plan {
	p := planner.Make(s.Fabric.Name, s.revealing(), inputs, left...)
	p.Invocation, p.Destroy = s.Options.Invocation, s.Options.Destroy
	for _, h := range p.Hosts {
		for i := range h.Problems {
			h.Problems[i].Message = p.Invocation.Fill(h.Problems[i].Message)
		}
		for i := range h.Notes {
			h.Notes[i] = p.Invocation.Fill(h.Notes[i])
		}
	}
	return p
}

// planWithout proposes a plan without the links and networks that lack a host: an unreachable one, or a stale one, which
// changed since the plan was saved. A destroy only removes, which needs no other end. It sets s.latest.
func (s *Session) planWithout(inputs []planner.HostInput, stale map[string][]string) *planner.Plan {
	missing := map[string]bool{}
	for _, in := range inputs {
		if !in.Excluded && !s.Options.Destroy && (in.Read == nil && in.Snapshot == nil || stale[in.Name] != nil) {
			missing[in.Name] = true
		}
	}
	leftOut, p := s.leave(inputs, missing)
	if again := p.Unreachable(); !s.Options.Destroy && len(again) > 0 { // an answer that was not decoded before may be no snapshot
		before := len(missing)
		for host := range again {
			missing[host] = true
		}
		if len(missing) > before {
			leftOut, p = s.leave(inputs, missing)
		}
	}
	s.latest = proposal{leftOut: leftOut, incomplete: map[string]bool{}}
	for _, h := range p.Hosts {
		s.latest.incomplete[h.Name] = len(h.LeftOut) > 0
	}
	s.remark(p)
	return p
}

// leave makes a plan without the links and networks that lack a host.
func (s *Session) leave(inputs []planner.HostInput, missing map[string]bool) ([]planner.LeftOut, *planner.Plan) {
	leftOut := planner.Leave(s.Fabric, s.revealing(), inputs, missing)
	for i := range leftOut {
		leftOut[i].Saved = s.saved != nil && !s.saved.Plan.Shows(leftOut[i])
		leftOut[i].Half = s.Options.HalfLinks && !leftOut[i].Saved
	}
	return leftOut, s.plan(inputs, leftOut)
}

// inputs reads all hosts in parallel for the planner. With Destroy, no resources are wanted. Where each host was read once, and
// none depends on the facts of another, the planner has one host's facts in memory at a time.
func (s *Session) inputs(ctx context.Context, asking bool) []planner.HostInput {
	inputs := make([]planner.HostInput, len(s.Fabric.Hosts))
	if s.Options.Glance && len(s.Fabric.LoginMeshes) == 0 {
		away := s.Unreachable()
		for i, h := range s.Fabric.Hosts {
			in := planner.HostInput{Name: h.Name, Address: h.Address, Excluded: s.Excluded(h.Name), Unreachable: away[h.Name]}
			if !in.Excluded && in.Unreachable == "" {
				in.Read = func() planner.HostInput { return s.input(ctx, h, asking) }
			}
			inputs[i] = in
		}
		return inputs
	}
	parallel.Each(0, s.Fabric.Hosts, func(i int, h *fabric.Host) { inputs[i] = s.input(ctx, h, asking) })
	if !s.Options.Destroy {
		s.join(inputs, asking)
	}
	return inputs
}

// join adds the resources that depend on the facts of several hosts. As those of derive, they stay the same after a plan was
// proposed.
func (s *Session) join(inputs []planner.HostInput, proposing bool) {
	snaps := map[string]*facts.Snapshot{}
	for _, in := range inputs {
		if in.Snapshot != nil {
			snaps[in.Name] = in.Snapshot
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, h := range s.Fabric.Hosts {
		known := s.known[h.Name]
		if proposing || !s.joined {
			known.joined = s.Options.Resources.Joined(s.Fabric, h, snaps)
		}
		if inputs[i].Snapshot != nil {
			inputs[i].Resources = slices.Concat(inputs[i].Resources, known.joined)
		}
	}
	s.joined = s.joined || proposing
}

// revealing returns the kinds for the planner: they compare a host with the sensitive values, of which the planner sees only
// placeholders.
func (s *Session) revealing() resource.Kinds {
	out := slices.Clone(s.Options.Resources.Kinds)
	for i, k := range out {
		out[i].Plan = func(snap *facts.Snapshot, spec json.RawMessage) (resource.Difference, error) {
			return k.Plan(snap, s.Fabric.Secrets.Reveal(spec))
		}
	}
	return out
}

// input reads one host for the planner.
func (s *Session) input(ctx context.Context, h *fabric.Host, asking bool) planner.HostInput {
	known := s.known[h.Name]
	in := planner.HostInput{Name: h.Name, Address: h.Address, Resources: s.Options.Resources.Desired(s.Fabric, h),
		Excluded: s.Excluded(h.Name), Management: s.Options.Management}
	if s.Options.Destroy {
		in.Resources, in.Declared = nil, in.Resources
	}
	if in.Excluded {
		return in
	}
	read, err := s.Read(ctx, h.Name, asking)
	if err == nil {
		err = s.Options.Resources.Kinds.CheckAnswer(read.Snapshot, in.Resources, s.recordIn(read.Records))
	}
	if err != nil {
		in.Unreachable, read = err.Error(), calls.SnapshotResult{}
	}
	in.Snapshot, in.Records, in.Refused = read.Snapshot, read.Records, map[resource.Addr]string{}
	if read.Snapshot != nil && !s.Options.Destroy {
		in.Resources = slices.Concat(in.Resources, s.derive(h, read, asking))
	}
	for _, r := range in.Resources {
		if why := cmp.Or(unreadable(r.Payload), read.Refused[r.Addr.String()]); why != "" {
			in.Refused[r.Addr] = why
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	known.alone = read.Guardians == 1
	if !s.Options.Glance {
		known.records, known.snapshot, known.applied = read.Records, read.Snapshot, read.Applied
	}
	return in
}

// recordIn returns the session's own record; it is empty if the fabric owns nothing on the host.
func (s *Session) recordIn(records []resource.Record) resource.Record {
	if i := slices.IndexFunc(records, func(r resource.Record) bool { return r.Fabric == s.Fabric.Name }); i >= 0 {
		return records[i]
	}
	return resource.Record{}
}

// derive returns the resources that depend on the host's facts. After a plan was proposed, they stay the
// same for the rest of the session: apply writes what the plan showed.
func (s *Session) derive(h *fabric.Host, read calls.SnapshotResult, proposing bool) []resource.Resource {
	known := s.known[h.Name]
	s.mu.Lock()
	before, proposed := known.derived, known.proposed
	s.mu.Unlock()
	if proposed && !proposing {
		return before
	}
	out := s.Options.Resources.Derived(s.Fabric, h, read.Snapshot, read.Records)
	if proposing && !s.Options.Glance {
		s.mu.Lock()
		defer s.mu.Unlock()
		known.proposed, known.derived = true, out
	}
	return out
}

// Snapshots reads all reachable hosts.
func (s *Session) Snapshots(ctx context.Context) (map[string]*facts.Snapshot, error) {
	out := map[string]*facts.Snapshot{}
	var mu sync.Mutex
	err := eachHost(s.Hosts(), func(host string) error {
		snap, err := s.Snapshot(ctx, host)
		mu.Lock()
		defer mu.Unlock()
		out[host] = snap
		return err
	})
	if err = cmp.Or(Interrupted(ctx), err); err != nil {
		return nil, err
	}
	return out, nil
}

// others opens a session on the hosts that this one left out.
func (s *Session) others(ctx context.Context) *Session {
	f, o := *s.Fabric, s.Options
	f.Hosts = slices.DeleteFunc(slices.Clone(f.Hosts), func(h *fabric.Host) bool { return !s.Excluded(h.Name) })
	o.Chosen, o.Away, o.Destroy = nil, nil, false
	return Open(ctx, &f, o)
}
