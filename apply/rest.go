package apply

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/parallel"
)

// errGivenBack is why a host that rests has no helper.
var errGivenBack = errors.New("its node was given back to jobs")

// rest closes the helpers of those of the hosts that have one, until wake. Meanwhile Read returns what a host answered last, and every other
// call of it fails.
func (f *Fleet) rest(hosts []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range hosts {
		if h := f.host(name); h.client != nil {
			h.client.Close()
			h.client, h.resting = nil, errGivenBack
		}
	}
}

// wake connects to those of the hosts that rest, at most parallelism at once. Those that it does not reach still rest.
func (f *Fleet) wake(ctx context.Context, parallelism int, hosts []string) {
	resting := f.resting()
	hosts = slices.DeleteFunc(slices.Clone(hosts), func(h string) bool { return resting[h] == nil })
	parallel.Each(parallelism, hosts, func(_ int, host string) {
		c, err := f.redial(ctx, host)
		f.mu.Lock()
		defer f.mu.Unlock()
		h := f.host(host)
		if h.resting = err; err == nil {
			h.client = c
		}
	})
}

// resting returns the hosts that rest, and why: those that wake did not reach have its error.
func (f *Fleet) resting() map[string]error {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[string]error{}
	for name, h := range f.hosts {
		if h.resting != nil {
			out[name] = h.resting
		}
	}
	return out
}

// unmeasurable says of each host that cannot be measured now why: it is unreachable, or it rests.
func (s *Session) unmeasurable() map[string]string {
	out := s.Unreachable()
	for host, why := range s.resting() {
		out[host] = why.Error()
	}
	return out
}

// scheduled reports whether jobs may run on the host.
func (s *Session) scheduled(host string) bool {
	h := s.Fabric.Host(host)
	return s.Options.Scheduler != nil && h != nil && h.Slurm != nil
}

// giveBack lets jobs have all hosts on which they may run, until wake.
func (s *Session) giveBack() {
	var hosts []string
	for _, h := range s.Fabric.Hosts {
		if s.scheduled(h.Name) {
			hosts = append(hosts, h.Name)
		}
	}
	if len(hosts) > 0 {
		s.rest(hosts)
		s.Options.Scheduler.Release(hosts)
	}
}

// release lets jobs have a host that is not needed any more.
func (s *Session) release(host string) {
	if s.scheduled(host) {
		s.Options.Scheduler.Release([]string{host})
	}
}

// neighbours returns the hosts with a path to one of these that is checked, sorted, without these and without those of later waves.
func (r *run) neighbours(hosts []string) []string {
	if r.p.RollsBack != "" || r.s.Options.Destroy {
		return nil
	}
	out := map[string]bool{}
	for _, p := range r.s.Fabric.Paths() {
		for i, end := range p.Endpoints {
			if slices.Contains(hosts, end.Host) {
				out[p.Endpoints[1-i].Host] = true
			}
		}
	}
	maps.DeleteFunc(out, func(host string, _ bool) bool { return r.pending[host] || slices.Contains(hosts, host) })
	return slices.Sorted(maps.Keys(out))
}

// finished reports whether a path is as it will be once these hosts are changed, and was not before: one of its ends is theirs, and none is
// still to be changed.
func (r *run) finished(of func(host string) bool) func(fabric.Path) bool {
	return func(p fabric.Path) bool {
		a, b := p.Endpoints[0].Host, p.Endpoints[1].Host
		return (of(a) || of(b)) && !r.pending[a] && !r.pending[b]
	}
}
