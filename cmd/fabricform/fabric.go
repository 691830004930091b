package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/config"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/lab"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/providers"
	"github.com/fabricform/fabricform/providers/ofed"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/transport"
)

// sources are what the command line and the environment say of a fabric.
func (a *app) sources() config.Options {
	return config.Options{Inputs: a.inputs, Env: os.Environ(), Version: version}
}

// load reads a fabric and prints every problem of its files to stderr.
func (a *app) load(path string) (*fabric.Fabric, error) {
	f, files, diags := config.Load(path, a.sources())
	if err := a.err.Diagnostics(files, diags); err != nil {
		return nil, err
	}
	if diags.HasErrors() {
		return nil, &exit{code: exitError}
	}
	return f, nil
}

// session is a loaded fabric with a helper on every host that answers.
type session struct {
	fabric  *fabric.Fabric
	fleet   *apply.Fleet
	lab     lab.Lab // nil: the declared hosts
	kinds   resource.Kinds
	desired map[string][]resource.Resource // by host
	derived map[string][]resource.Resource // by host: of the plan that was proposed last
	destroy bool                           // give everything back
	// management allows changes of the operator's own path.
	management bool
	chosen     map[string]bool // nil: all hosts
	source     string          // of the files
	build      string

	mu      sync.Mutex
	facts   map[string]*facts.Snapshot   // as read last
	records map[string][]resource.Record // as read last
}

// open loads the fabric and connects to its hosts.
func (a *app) open(ctx context.Context, path string) (*session, error) {
	f, err := a.load(path)
	if err != nil {
		return nil, err
	}
	s, err := a.connect(ctx, f)
	if err != nil {
		return nil, err
	}
	s.source = config.SourceID(path)
	return s, nil
}

// onHosts is the body of a command that opens a session first, and closes it afterwards.
func (a *app) onHosts(do func(ctx context.Context, s *session) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		s, err := a.open(cmd.Context(), fabricArg(args))
		if err != nil {
			return err
		}
		defer s.fleet.Close()
		return do(cmd.Context(), s)
	}
}

// unreachable says why hosts were left out, by name.
func (s *session) unreachable() map[string]string {
	out := map[string]string{}
	for name, err := range s.fleet.Unreachable {
		out[name] = err.Error()
	}
	return out
}

// reached names the hosts that could not be, and answers the exit.
func (a *app) reached(left map[string]string) error {
	if len(left) == 0 {
		return nil
	}
	a.err.Unreachable(left)
	return told(exitUnreachable)
}

// labName is the lab that -lab means: the fabric's own, or another fabric's by its name.
func labName(flag string, f *fabric.Fabric) string {
	if flag == ownLab {
		return f.Name
	}
	return flag
}

// member is a host of a roster.
type member = resource.Member

// connect opens helpers on a fabric's hosts.
func (a *app) connect(ctx context.Context, f *fabric.Fabric) (*session, error) {
	id, err := buildID()
	if err != nil {
		return nil, err
	}
	chosen, err := a.Choose(f)
	if err != nil {
		return nil, err
	}
	return a.connectTo(ctx, f, chosen, id)
}

// newSession is a session before it is connected.
func newSession(f *fabric.Fabric, chosen map[string]bool, build string) *session {
	s := &session{fabric: f, kinds: providers.Kinds(), desired: map[string][]resource.Resource{}, derived: map[string][]resource.Resource{}, chosen: chosen, build: build,
		facts: map[string]*facts.Snapshot{}, records: map[string][]resource.Record{}}
	for _, h := range f.Hosts {
		s.desired[h.Name] = providers.Desired(f, h)
	}
	return s
}

// connectTo opens helpers on the chosen hosts; nil chooses all.
func (a *app) connectTo(ctx context.Context, f *fabric.Fabric, chosen map[string]bool, id string) (*session, error) {
	s := newSession(f, chosen, id)
	var err error
	d := &transport.Dialer{Helper: transport.Helpers{ID: id}, SSHConfig: true,
		Progress: func(host, message string) { a.err.Progressf("%s: %s", host, message) }}
	if a.lab != "" {
		if s.lab, err = lab.Open(labName(a.lab, f)); err != nil {
			return nil, err
		}
		d.NetDial, d.SSHConfig = s.lab.NetDial, false
	}
	var members []apply.Member
	for _, h := range f.Hosts {
		if s.leftOut(h.Name) {
			continue
		}
		looks := slices.Concat(s.desired[h.Name], providers.Looks(f, h, !a.glance)) // a plan compares no hosts with each other
		members = append(members, apply.Member{Target: s.target(h), Looks: looks})
	}
	reach := apply.Connect
	if a.glance {
		reach = apply.Glance
	}
	s.fleet = reach(ctx, d, id, a.parallel, members)
	return s, nil
}

// leftOut says whether -host and -exclude leave the host out.
func (s *session) leftOut(host string) bool { return s.chosen != nil && !s.chosen[host] }

// target is how a host is reached.
func (s *session) target(h *fabric.Host) transport.Target {
	if s.lab != nil {
		addr, port, user, identity, known := s.lab.Target(h.Name)
		return transport.Target{Name: h.Name, Address: addr, Port: port, User: user, IdentityFile: identity, KnownHosts: known, ConnectTimeout: cmp.Or(h.SSH.ConnectTimeout, s.lab.ConnectTimeout())}
	}
	return transport.Target{
		Name: h.Name, Address: h.Address, User: h.SSH.User, Port: h.SSH.Port, IdentityFile: h.SSH.IdentityFile,
		KnownHosts: h.SSH.KnownHosts, ProxyJump: h.SSH.ProxyJump, Sudo: h.SSH.Sudo, ConnectTimeout: h.SSH.ConnectTimeout,
	}
}

// propose is a plan that is to be shown or carried out: the hosts' own programs are asked about it.
func (s *session) propose(ctx context.Context) *planner.Plan { return s.compare(ctx, !s.destroy) }

// plan reads all hosts side by side and compares.
func (s *session) plan(ctx context.Context) *planner.Plan { return s.compare(ctx, false) }

// compare is the plan. With destroy nothing is wanted any more.
func (s *session) compare(ctx context.Context, asking bool) *planner.Plan {
	inputs := make([]planner.HostInput, len(s.fabric.Hosts))
	var wg sync.WaitGroup
	for i, h := range s.fabric.Hosts {
		wg.Go(func() {
			in := planner.HostInput{Name: h.Name, Address: h.Address, Resources: s.desired[h.Name], LeftOut: s.leftOut(h.Name), Management: s.management}
			if s.destroy {
				in.Resources = nil
			}
			if in.LeftOut {
				inputs[i] = in
				return
			}
			read, err := s.fleet.Read(ctx, h.Name, asking)
			if err != nil {
				in.Unreachable = err.Error()
			}
			in.Snapshot, in.Records, in.Refused = read.Snapshot, read.Records, map[resource.Addr]string{}
			if read.Snapshot != nil && !s.destroy {
				in.Resources = slices.Concat(in.Resources, s.derive(h, read, asking))
			}
			for _, r := range in.Resources {
				in.Refused[r.Addr] = read.Refused[r.Addr.String()]
				if r.Addr.Kind == ofed.Kind {
					in.Refused[r.Addr] = noBundle(h.OFED)
				}
			}
			inputs[i] = in
			s.mu.Lock()
			defer s.mu.Unlock()
			s.facts[h.Name], s.records[h.Name] = read.Snapshot, read.Records
		})
	}
	wg.Wait()
	return planner.Make(s.fabric.Name, s.kinds, inputs)
}

// derive is what follows from the host's facts. Once a plan was proposed, it stands for the rest of the
// session: what is written is what was shown.
func (s *session) derive(h *fabric.Host, read calls.SnapshotResult, proposing bool) []resource.Resource {
	s.mu.Lock()
	proposed, is := s.derived[h.Name]
	s.mu.Unlock()
	if is && !proposing {
		return proposed
	}
	out := providers.Derived(s.fabric, h, read.Snapshot, read.Records)
	if proposing {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.derived[h.Name] = out
	}
	return out
}

// snapshots reads the hosts that answer.
func (s *session) snapshots(ctx context.Context) (map[string]*facts.Snapshot, error) {
	out := map[string]*facts.Snapshot{}
	for _, name := range s.fleet.Hosts() {
		snap, err := s.fleet.Snapshot(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("host %s: %w", name, err)
		}
		out[name] = snap
	}
	return out, nil
}
