package validators

import (
	"context"
	"slices"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/nccl"
)

// Checks are the kinds of checks, in the order in which they run.
var Checks = []string{"link", "ping", "tcp", "nccl"}

// Options narrow and steer a run.
type Options struct {
	Only        []string          // kinds of checks; empty: all
	Link        string            // name of one link; "": all
	Lab         bool              // links are shaped to LabCapGbps, and thresholds with them
	LabCapGbps  float64           // Gb/s
	Unreachable map[string]string // host -> why: checks on its links are skipped
	Progress    func(string)      // nil: quiet
}

func (o Options) wants(check string) bool {
	return len(o.Only) == 0 || slices.Contains(o.Only, check)
}

func (o Options) progress(what string) {
	if o.Progress != nil {
		o.Progress(what)
	}
}

// side is one end of a link, resolved on its host.
type side struct {
	host, nic string
	spec      *fabric.NIC
	link      *host.Link
}

func (s side) port() string { return s.host + "." + s.nic }

// run is one validation.
type run struct {
	fabric    *fabric.Fabric
	fleet     Fleet
	options   Options
	snapshots map[string]*facts.Snapshot
	out       []Result
}

// Run checks every link, one after the other, and then every host's NCCL view. It answers with
// results only: what could not be measured is a failure or a skip with its reason.
func Run(ctx context.Context, f *fabric.Fabric, fleet Fleet, o Options) []Result {
	r := &run{fabric: f, fleet: fleet, options: o, snapshots: map[string]*facts.Snapshot{}}
	r.look(ctx)
	for _, l := range f.Links {
		if o.Link == "" || o.Link == l.Name {
			r.link(ctx, l)
		}
	}
	if o.wants("nccl") && o.Link == "" {
		for _, h := range f.Hosts {
			r.nccl(h)
		}
	}
	return r.out
}

// look reads every host once. A host that falls away here is treated as one that never answered.
func (r *run) look(ctx context.Context) {
	lost := map[string]string{}
	for name, why := range r.options.Unreachable {
		lost[name] = why
	}
	for _, h := range r.fabric.Hosts {
		if lost[h.Name] != "" {
			continue
		}
		snap, err := r.fleet.Snapshot(ctx, h.Name)
		if err != nil {
			lost[h.Name] = err.Error()
			continue
		}
		r.snapshots[h.Name] = snap
	}
	r.options.Unreachable = lost
}

func (r *run) add(res Result) { r.out = append(r.out, res) }

// link runs a link's checks. Ping and throughput are not tried on a link that cannot carry them.
func (r *run) link(ctx context.Context, l *fabric.Link) {
	ends, why := r.ends(l)
	checks := []struct {
		name string
		do   func(context.Context, *fabric.Link, [2]side)
	}{{"link", r.carrier}, {"ping", r.ping}, {"tcp", r.tcp}}
	for _, c := range checks {
		if !r.options.wants(c.name) {
			continue
		}
		if why != "" {
			r.add(Result{Check: c.name, Link: l.Name, Host: l.Endpoints[0].Host, Peer: l.Endpoints[1].Host, Verdict: Skip, What: c.name, Cause: why})
			continue
		}
		r.options.progress("link " + l.Name + ": " + c.name)
		c.do(ctx, l, ends)
	}
}

// ends resolves both ends; why is not empty where one cannot be used.
func (r *run) ends(l *fabric.Link) (ends [2]side, why string) {
	for i, ref := range l.Endpoints {
		snap := r.snapshots[ref.Host]
		if snap == nil {
			return ends, "host " + ref.Host + " could not be reached: " + r.options.Unreachable[ref.Host]
		}
		spec := r.fabric.NIC(ref)
		s := side{host: ref.Host, nic: ref.NIC, spec: spec, link: nccl.Netdev(snap, spec)}
		if s.link == nil {
			return ends, s.port() + ": no device, or several, match it; run plan"
		}
		ends[i] = s
	}
	return ends, ""
}
