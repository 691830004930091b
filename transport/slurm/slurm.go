//go:build linux

package slurm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/fabricform/fabricform/transport"
)

// Cluster starts helpers on nodes. The zero value with a Helper works. Safe for concurrent use.
type Cluster struct {
	Helper   transport.Helper
	Progress func(host, message string) // may be nil
	Warn     func(message string)       // may be nil

	mu      sync.Mutex
	waiting []*request     // for the next launch
	launch  *time.Timer    // of the next launch; nil if nothing waits
	door    *door          // nil until the first launch
	held    map[string]*on // by node
	holds   []*hold
	reached map[string]place   // by host
	drained map[string]drain   // by host
	packed  map[string]*packed // by architecture
	listed  listing
	steps   sync.WaitGroup
	closed  bool
}

// on is a node with an allocation of ours.
type on struct {
	node   node
	hold   *hold
	ready  bool   // the helper of this build is installed
	goarch string // as Go names it
}

// place is where a host was found.
type place struct {
	node string
	to   transport.Target
}

// request is one call of Start.
type request struct {
	ctx  context.Context
	to   transport.Target
	node node        // of the host
	done chan answer // holds one
	// waits is how long it may wait for a processor that jobs have; 0: not at all.
	waits time.Duration
}

type answer struct {
	stream io.ReadWriteCloser
	err    error
}

func (r *request) answer(s io.ReadWriteCloser, err error) { r.done <- answer{s, err} }

func (r *request) refuse(op, hint, format string, args ...any) {
	r.answer(nil, &transport.Error{Host: r.to.Name, Op: op, Err: fmt.Errorf(format, args...), Hint: hint})
}

// gather is how long a launch waits for further hosts, so that many of them share one step.
const gather = 100 * time.Millisecond

// startPatience is how long a helper may take from the start of its step until it has dialled back.
const startPatience = 60 * time.Second

// Start starts a helper on a node, and returns the stream to it. Calls at the same time share their steps.
func (c *Cluster) Start(ctx context.Context, t transport.Target) (io.ReadWriteCloser, error) {
	if t.Via != "" {
		return nil, &transport.Error{Host: t.Name, Op: "connect to " + t.Via, Err: errors.New("a node of Slurm has one address only"),
			Hint: "change NodeAddr in slurm.conf by hand, or reach this host by SSH for the change of its address"}
	}
	if os.Getuid() != root && !sudo(t) {
		return nil, &transport.Error{Host: t.Name, Op: "start helper", Err: errors.New("the helper needs root, and slurm.sudo is false"),
			Hint: "leave slurm.sudo out, or run fabricform as root"}
	}
	r := &request{ctx: ctx, to: t, done: make(chan answer, 1)}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, &transport.Error{Host: t.Name, Op: "start helper", Err: errors.New("the session is closed")}
	}
	c.waiting = append(c.waiting, r)
	if c.launch == nil {
		c.launch = time.AfterFunc(gather, c.launchAll)
	} else {
		c.launch.Reset(gather)
	}
	c.mu.Unlock()
	select {
	case a := <-r.done:
		return a.stream, a.err
	case <-ctx.Done():
		go func() { // nobody takes a stream that comes later
			if a := <-r.done; a.stream != nil {
				a.stream.Close()
			}
		}()
		return nil, &transport.Error{Host: t.Name, Op: "start helper", Err: ctx.Err()}
	}
}

// sudo reports whether the step on that node starts its helper by sudo.
func sudo(t transport.Target) bool {
	if s := t.Slurm.Sudo; s != nil {
		return *s
	}
	return os.Getuid() != root
}

// Close ends all allocations and steps. The streams must be closed before.
func (c *Cluster) Close() {
	c.mu.Lock()
	c.closed = true
	holds, d := c.holds, c.door
	c.mu.Unlock()
	var ending sync.WaitGroup
	for _, h := range holds {
		ending.Go(h.end)
	}
	ending.Wait()
	c.steps.Wait()
	c.removePacked()
	if d != nil {
		d.close()
	}
}

// launchAll starts helpers for all calls that wait. Calls for the same node follow one another: a step has one task on each node.
func (c *Cluster) launchAll() {
	c.mu.Lock()
	all := c.waiting
	c.waiting, c.launch = nil, nil
	c.mu.Unlock()
	for located := c.locate(all); len(located) > 0; {
		round, fresh := map[string]*request{}, map[string]*request{}
		for _, name := range sorted(located) {
			calls := located[name]
			if round[name], located[name] = calls[0], calls[1:]; len(calls) == 1 {
				delete(located, name)
			}
			if c.holding(name) == nil {
				fresh[name] = round[name]
			}
		}
		for name := range c.allocate(fresh) {
			delete(round, name)
		}
		c.startHelpers(round)
	}
}

// locate returns the calls by their nodes, and refuses those without one.
func (c *Cluster) locate(all []*request) map[string][]*request {
	if len(all) == 0 {
		return nil
	}
	var addresses []string
	for _, r := range all {
		addresses = append(addresses, r.to.Address)
	}
	known, err := c.list(all[0].ctx, addresses)
	out := map[string][]*request{}
	for _, r := range all {
		if err != nil {
			r.answer(nil, &transport.Error{Host: r.to.Name, Op: "ask Slurm for its nodes", Err: err, Hint: whereToRun(err)})
			continue
		}
		n, found := known.find(r.ctx, r.to.Address)
		if !found {
			r.refuse("find its node", "give the host a name or address that `scontrol show node` says", "Slurm has no node %s", r.to.Address)
			continue
		}
		r.node = n.own()
		c.note(r)
		out[n.name] = append(out[n.name], r)
	}
	return out
}

// list returns the nodes: those of the latest list, if it is recent and the nodes with these addresses respond there.
func (c *Cluster) list(ctx context.Context, addresses []string) (nodes, error) {
	c.mu.Lock()
	known := c.listed
	c.mu.Unlock()
	if time.Since(known.at) < listedFor && !known.all.waitFor(ctx, addresses) {
		return known.all, nil
	}
	all, err := listResponding(ctx, addresses)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.listed = (listing{all, time.Now()}); err != nil {
		c.listed = listing{}
	}
	return all, err
}

// note remembers the node of a host.
func (c *Cluster) note(r *request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reached == nil {
		c.reached = map[string]place{}
	}
	c.reached[r.to.Name] = place{r.node.name, r.to}
}

func (c *Cluster) holding(node string) *on {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := c.held[node]; at != nil && at.hold.alive() {
		return at
	}
	return nil
}

// allocate gets an allocation on each node: one for those with free processors, and one for each of the others, which have them only in
// a partition that shares them. It refuses the calls whose nodes it cannot get, and returns these.
func (c *Cluster) allocate(fresh map[string]*request) (refused map[string]bool) {
	type share struct {
		partition, reservation string
		sudo                   bool
	}
	free := map[share][]*request{}
	var all sync.WaitGroup
	busy := jobsOnEach(fresh)
	for _, name := range sorted(fresh) {
		r := fresh[name]
		if err := r.node.unusable(r.to); err != nil {
			r.answer(nil, err)
			continue
		}
		if err := r.node.resolve(r.ctx); err != nil {
			r.answer(nil, &transport.Error{Host: r.to.Name, Op: "find its node", Err: err})
			continue
		}
		if r.to.Slurm.Exclusive && len(busy[name]) > 0 {
			r.answer(nil, r.node.heldBy(ids(busy[name])))
			continue
		}
		if r.node.busy() {
			all.Go(func() { c.allocateOn([]*request{r}) })
			continue
		}
		s := share{r.to.Slurm.Partition, r.to.Slurm.Reservation, sudo(r.to)}
		free[s] = append(free[s], r)
	}
	for _, rs := range free {
		for part := range bundles(rs, func(r *request) string { return r.node.name }) {
			all.Go(func() { c.allocateOn(part) })
		}
	}
	all.Wait()
	refused = map[string]bool{}
	for name := range fresh {
		refused[name] = c.holding(name) == nil
	}
	maps.DeleteFunc(refused, func(_ string, is bool) bool { return !is })
	return refused
}

// jobsOnEach returns the jobs on those nodes that have some and that shall have none.
func jobsOnEach(fresh map[string]*request) map[string][]job {
	out := map[string][]job{}
	var names []string
	ctx := context.Background()
	for _, name := range sorted(fresh) {
		if r := fresh[name]; r.to.Slurm.Exclusive {
			names, ctx = append(names, name), r.ctx
		}
	}
	if len(names) == 0 {
		return nil
	}
	if any, err := jobsStaying(ctx, names...); err == nil && len(any) == 0 {
		return nil
	}
	for _, name := range names {
		out[name], _ = jobsOn(ctx, name) // an error: Slurm refuses the allocation
	}
	return out
}

// allocateOn answers the calls whose nodes it cannot get.
func (c *Cluster) allocateOn(rs []*request) {
	h, reports, err := startHold(rs, c.Helper.Version(), c.first())
	if err != nil && len(rs) > 1 { // one of them may not be what Slurm said a moment ago
		fresh := map[string]*request{}
		for _, r := range rs {
			fresh[r.node.name] = r
		}
		busy := jobsOnEach(fresh)
		rest := slices.DeleteFunc(slices.Clone(rs), func(r *request) bool {
			taken := len(busy[r.node.name]) > 0
			if taken {
				r.answer(nil, r.node.heldBy(ids(busy[r.node.name])))
			}
			return taken
		})
		if len(rest) > 0 && len(rest) < len(rs) {
			c.allocateOn(rest)
			return
		}
		if len(rest) == 0 {
			return
		}
		var each sync.WaitGroup
		for _, r := range rs {
			each.Go(func() { c.allocateOn([]*request{r}) })
		}
		each.Wait()
		return
	}
	if err != nil {
		rs[0].answer(nil, whyNot(rs[0], err))
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holds = append(c.holds, h)
	c.steps.Go(func() { h.watch(c.warn) })
	if c.held == nil {
		c.held = map[string]*on{}
	}
	for _, r := range rs {
		report := reports[r.node.name]
		c.held[r.node.name] = &on{node: r.node, hold: h, ready: report.ready, goarch: report.goarch}
	}
}

// Release ends the allocations of hosts whose streams are closed: one that has several nodes ends once all of them are released.
func (c *Cluster) Release(hosts []string) {
	var over []*hold
	c.mu.Lock()
	for _, host := range hosts {
		at, known := c.reached[host]
		on := c.held[at.node]
		if !known || on == nil {
			continue
		}
		delete(c.held, at.node)
		used := false
		for _, other := range c.held {
			used = used || other.hold == on.hold
		}
		if !used {
			over = append(over, on.hold)
		}
	}
	c.mu.Unlock()
	var ending sync.WaitGroup
	for _, h := range over {
		ending.Go(h.end)
	}
	ending.Wait()
}

// warn tells the operator something that no call returns.
func (c *Cluster) warn(message string) {
	if c.Warn != nil {
		c.Warn(message)
	}
}

// whyNot explains why a node could not be allocated: with the jobs that hold it, if some do.
func whyNot(r *request, err error) error {
	jobs, asked := jobsOn(context.WithoutCancel(r.ctx), r.node.name)
	jobs = slices.DeleteFunc(jobs, func(j job) bool { return j.name == holdName && j.completing() }) // the one that did not start
	if asked == nil && len(jobs) > 0 {
		return r.node.heldBy(ids(jobs))
	}
	return &transport.Error{Host: r.to.Name, Op: "reach node " + r.node.name, Err: err, Hint: whereToRun(err)}
}

// step is what the helpers of one step have in common.
type step struct {
	hold   *hold
	goarch string // of the program to send; "" if it is there
	gpus   int    // of each node, if the allocation has all of them
	sudo   bool   // the helper is started by sudo
}

// startHelpers starts one helper on each of the nodes, in as few steps as their allocations, programs and GPUs allow.
func (c *Cluster) startHelpers(round map[string]*request) {
	steps := map[step][]string{}
	for _, name := range sorted(round) {
		at := c.holding(name)
		if at == nil {
			round[name].refuse("start helper", "", "the allocation on node %s has ended", name)
			continue
		}
		s := step{hold: at.hold, sudo: sudo(round[name].to)}
		if !at.ready {
			s.goarch = at.goarch
		}
		if at.hold.exclusive {
			s.gpus = at.node.gpus
		}
		steps[s] = append(steps[s], name)
	}
	var all sync.WaitGroup
	for s, names := range steps {
		all.Go(func() { c.startStep(s, names, round) })
	}
	all.Wait()
}

// startStep starts a helper on nodes of one allocation. A program that is sent goes to fewer nodes at a time if it does not reach all at
// once.
func (c *Cluster) startStep(s step, names []string, round map[string]*request) {
	fail := func(op string, err error) {
		for _, name := range names {
			round[name].answer(nil, &transport.Error{Host: round[name].to.Name, Op: op, Err: err})
		}
	}
	first := round[names[0]].ctx
	var ns []node
	c.mu.Lock()
	for _, name := range names {
		ns = append(ns, c.held[name].node)
	}
	c.mu.Unlock()
	d, err := c.openDoor(first, ns[0])
	if err != nil {
		fail("listen for helpers", err)
		return
	}
	p, err := c.run(first, s, names)
	switch {
	case err != nil && s.goarch != "" && len(names) > 1 && first.Err() == nil && s.hold.alive():
		half := len(names) / 2
		c.startStep(s, names[:half], round)
		c.startStep(s, names[half:], round)
		return
	case err != nil:
		fail("start helper", err)
		return
	}
	guests, credential, err := d.invite(first, ns)
	if err == nil {
		err = p.tell(credential)
	}
	if err != nil {
		p.stop()
		fail("make a credential", err)
		return
	}
	c.steps.Go(p.wait)
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() {
			r := round[name]
			conn, err := guests[i].await(r.ctx, p, name)
			d.forget(guests[i])
			if err != nil {
				r.answer(nil, &transport.Error{Host: r.to.Name, Op: "start helper", Err: err})
				return
			}
			c.mu.Lock()
			if at := c.held[name]; at != nil {
				at.ready = true
			}
			c.mu.Unlock()
			r.answer(conn, nil)
		})
	}
	all.Wait()
}

// openDoor returns the door, which it opens at the address from which this machine reaches the node.
func (c *Cluster) openDoor(ctx context.Context, n node) (*door, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.door == nil {
		at, err := localAddress(n.addrs[0])
		if err != nil {
			return nil, err
		}
		controllers, err := controllers(ctx)
		if err != nil {
			return nil, err
		}
		d, err := openDoor(at, munge{})
		if err != nil {
			return nil, err
		}
		d.controllers = controllers
		c.door = d
	}
	return c.door, nil
}

func sorted[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
