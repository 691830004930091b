package e2e

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/lab"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/providers"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/transport"
)

// session is what a benchmark needs of the program's session, to measure parts of a command.
type session struct {
	fabric  *fabric.Fabric
	fleet   *apply.Fleet
	lab     lab.Lab // nil: the declared hosts
	kinds   resource.Kinds
	desired map[string][]resource.Resource // by host
}

func newSession(f *fabric.Fabric, l lab.Lab) *session {
	s := &session{fabric: f, lab: l, kinds: providers.Kinds(), desired: map[string][]resource.Resource{}}
	for _, h := range f.Hosts {
		s.desired[h.Name] = providers.Desired(f, h)
	}
	return s
}

// target is how a host is reached.
func (s *session) target(h *fabric.Host) transport.Target {
	if s.lab == nil {
		return transport.Target{Name: h.Name, Address: h.Address, User: h.SSH.User, Port: h.SSH.Port, IdentityFile: h.SSH.IdentityFile,
			KnownHosts: h.SSH.KnownHosts, ConnectTimeout: h.SSH.ConnectTimeout}
	}
	addr, port, user, identity, known := s.lab.Target(h.Name)
	return transport.Target{Name: h.Name, Address: addr, Port: port, User: user, IdentityFile: identity, KnownHosts: known,
		ConnectTimeout: cmp.Or(h.SSH.ConnectTimeout, s.lab.ConnectTimeout())}
}

// plan reads all hosts side by side and compares, as the program does.
func (s *session) plan(ctx context.Context) *planner.Plan {
	inputs := make([]planner.HostInput, len(s.fabric.Hosts))
	var wg sync.WaitGroup
	for i, h := range s.fabric.Hosts {
		wg.Go(func() {
			in := planner.HostInput{Name: h.Name, Address: h.Address, Resources: s.desired[h.Name], Refused: map[resource.Addr]string{}}
			read, err := s.fleet.Read(ctx, h.Name, false)
			if err != nil {
				in.Unreachable = err.Error()
			}
			in.Snapshot, in.Records = read.Snapshot, read.Records
			if read.Snapshot != nil {
				in.Resources = slices.Concat(in.Resources, providers.Derived(s.fabric, h, read.Snapshot, read.Records))
			}
			for _, r := range in.Resources {
				in.Refused[r.Addr] = read.Refused[r.Addr.String()]
			}
			inputs[i] = in
		})
	}
	wg.Wait()
	return planner.Make(s.fabric.Name, s.kinds, inputs)
}
