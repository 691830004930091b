package validators

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/nccl"
	"github.com/fabricform/fabricform/parallel"
)

// Options select and control the checks of a run.
type Options struct {
	Only        []Check                // of the table; empty: all
	Tests       []string               // of perftest, instead of those that the files declare; nil: those
	Where       func(fabric.Path) bool // nil: every path
	Link        string                 // name of one link, network or path; "": all
	Lab         bool                   // links are limited to LabCapGbps, and thresholds are scaled
	LabCapGbps  float64                // Gb/s; 0 if links are not limited: speeds are then not judged
	Reach       bool                   // CheckPing sends no full-size packets: it is asked only whether the other end answers
	Unreachable map[string]string      // host -> why: checks on its links are skipped
	Excluded    func(host string) bool // hosts that the operator excluded: their links are not checked; nil for none
	// OmitPath and OmitHost say why the apply left a path, or a host's own settings, as they were: their checks are
	// skipped. "" or nil: they are checked.
	OmitPath   func(fabric.Path) string
	OmitHost   func(host string) string
	OmitLogins string            // why logins between hosts are not set up yet; "": they are
	Progress   func(string)      // nil: quiet
	Invocation fabric.Invocation // how the operator named the fabric, for commands in cures
}

func (o Options) progress(what string) {
	if o.Progress != nil {
		o.Progress(what)
	}
}

func (o Options) excluded(host string) bool { return o.Excluded != nil && o.Excluded(host) }

func (o Options) omits(p fabric.Path) string {
	if o.OmitPath == nil {
		return ""
	}
	return o.OmitPath(p)
}

func (o Options) omitsHost(host string) string {
	if o.OmitHost == nil {
		return ""
	}
	return o.OmitHost(host)
}

// side is one end of a link and its device on the host.
type side struct {
	host, nic string
	spec      *fabric.NIC
	link      *host.Link
	base      *host.Link      // the port that carries the device's packets: that below a VLAN or macvlan, or the device itself
	under     []fabric.NICRef // the NIC or bond below a VLAN, and the members of a bond: they have the same packets
	lacp      int             // how many members the bond below a VLAN has, if it uses LACP: that sends packets, too
}

func (s side) ref() fabric.NICRef { return fabric.NICRef{Host: s.host, NIC: s.nic} }

func (s side) port() string { return s.ref().String() }

// below names the port that carries the packets, and has the MTU that RDMA follows: the NIC, or the netdev below a VLAN.
func (s side) below() string {
	if s.base.Name == s.link.Name {
		return s.port()
	}
	return s.host + "." + s.base.Name
}

// run is one run of the checks.
type run struct {
	fabric    *fabric.Fabric
	nics      map[fabric.NICRef]*fabric.NIC
	hosts     map[string]*fabric.Host
	fleet     Fleet
	options   Options
	snapshots map[string]*facts.Snapshot

	lateDriver bool   // some port's counters lag behind
	bonded     []bond // those that the paths use; nil if they are not to be checked
}

// trial is the checks of one path. The trials of one round have no host in common and run in parallel.
type trial struct {
	*run
	path fabric.Path
	ends [2]side
	// skip and why are set if the path cannot be checked.
	skip SkipReason
	why  string
	out  []Result
}

func (t *trial) add(res Result) { t.out = append(t.out, res) }

// result returns a passing result about the path. Peer may be empty.
func (t *trial) result(check Check, item Item, host, peer string) Result {
	return Result{Check: check, Item: item, Subject: OnPath(t.path), Host: host, Peer: peer, Verdict: Pass}
}

// both returns a result about both ends.
func (t *trial) both(check Check, item Item) Result {
	return t.result(check, item, t.path.Endpoints[0].Host, t.path.Endpoints[1].Host)
}

// Run checks every link and every pair of each network, then groups of links that share a port, then each
// host's logins to the others and NCCL settings, NCCL itself if the files ask for it, and the differences between hosts. It returns no
// error: a failed measurement is a failure, or a skip with its reason.
func Run(ctx context.Context, f *fabric.Fabric, fleet Fleet, o Options) []Result {
	r := &run{fabric: f, nics: map[fabric.NICRef]*fabric.NIC{}, hosts: map[string]*fabric.Host{}, fleet: fleet, options: o,
		snapshots: map[string]*facts.Snapshot{}}
	for _, h := range f.Hosts {
		r.hosts[h.Name] = h
		for _, n := range h.NICs {
			r.nics[n.Ref()] = n
		}
	}
	r.look(ctx)
	trials := r.trials()
	r.bonded = r.watchBonds(ctx, trials)
	ofHosts := r.judge(ctx, trials)
	var out []Result
	for _, t := range trials {
		out = append(out, t.out...)
	}
	out = slices.Concat(out, culprits(trials), ofHosts)
	for i := range out {
		if out[i].Check == CheckNCCL { // it quotes the logs of jobs, which know the values
			for _, text := range []*string{&out[i].Found, &out[i].Wanted, &out[i].Cause, &out[i].Cure} {
				*text = f.Secrets.Redact(*text)
			}
		}
	}
	return out
}

// trials returns the paths to check, with both ends resolved.
func (r *run) trials() []*trial {
	var out []*trial
	for _, p := range r.fabric.Paths() {
		if r.options.Where != nil && !r.options.Where(p) || r.options.excluded(p.Endpoints[0].Host) ||
			r.options.excluded(p.Endpoints[1].Host) {
			continue
		}
		network := p.Network != nil && p.Network.Name == r.options.Link
		if r.options.Link == "" || r.options.Link == p.Name || network {
			t := &trial{run: r, path: p}
			t.ends, t.skip, t.why = r.ends(p)
			if why := r.options.omits(p); t.skip == "" && why != "" {
				t.skip, t.why = NotApplied, why
			}
			out = append(out, t)
		}
	}
	return out
}

// sideBySide limits the number of trials that run in parallel.
const sideBySide = 64

// check runs one check on all trials, round by round; with single, one trial at a time.
func (r *run) check(ctx context.Context, trials []*trial, name Check, single bool, do func(*trial, context.Context)) {
	r.inRounds(ctx, ready(trials, name), name, single, do)
}

// ready returns the trials that can be checked. The others get a skipped result.
func ready(trials []*trial, name Check) []*trial {
	var out []*trial
	for _, t := range trials {
		if t.skip != "" {
			t.add(t.both(name, "").skips(t.skip, t.why))
		} else {
			out = append(out, t)
		}
	}
	return out
}

// inRounds calls do for all trials, round by round; with single, one trial at a time.
func (r *run) inRounds(ctx context.Context, trials []*trial, name Check, single bool, do func(*trial, context.Context)) {
	done := 0
	for _, round := range rounds(trials, single) {
		names := make([]string, 0, len(round))
		for _, t := range round {
			names = append(names, t.path.Name)
		}
		r.options.progress(fmt.Sprintf("%s: %s (%d of %d)", name, some(names), done+len(round), len(trials)))
		parallel.Each(sideBySide, round, func(_ int, t *trial) { do(t, ctx) })
		done += len(round)
	}
}

func some(names []string) string {
	if len(names) > 3 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:3], ", "), len(names)-3)
	}
	return strings.Join(names, ", ")
}

// rounds puts each trial into the first round that does not use either of its hosts.
func rounds(trials []*trial, single bool) [][]*trial {
	var out [][]*trial
	var busy []map[string]bool
next:
	for _, t := range trials {
		a, b := t.path.Endpoints[0].Host, t.path.Endpoints[1].Host
		for i := range out {
			if !single && !busy[i][a] && !busy[i][b] {
				out[i] = append(out[i], t)
				busy[i][a], busy[i][b] = true, true
				continue next
			}
		}
		out = append(out, []*trial{t})
		busy = append(busy, map[string]bool{a: true, b: true})
	}
	return out
}

// look reads every host once. A host that fails here counts as unreachable.
func (r *run) look(ctx context.Context) {
	lost := map[string]string{}
	maps.Copy(lost, r.options.Unreachable)
	var mu sync.Mutex
	parallel.Each(0, r.fabric.Hosts, func(_ int, h *fabric.Host) {
		if r.options.Unreachable[h.Name] != "" || r.options.excluded(h.Name) {
			return
		}
		snap, err := r.fleet.Snapshot(ctx, h.Name)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			lost[h.Name] = err.Error()
			return
		}
		r.snapshots[h.Name] = snap
	})
	r.options.Unreachable = lost
}

// reapply is the cure for drift.
func (r *run) reapply() string {
	return "run " + r.options.Invocation.Hint("plan") + ", then " + r.options.Invocation.Hint("apply")
}

// ends resolves both ends. skip is set if one cannot be used.
func (r *run) ends(p fabric.Path) (ends [2]side, skip SkipReason, why string) {
	for i, ref := range p.Endpoints {
		snap := r.snapshots[ref.Host]
		if snap == nil {
			return ends, HostUnreachable, "host " + ref.Host + " could not be reached: " + r.options.Unreachable[ref.Host]
		}
		spec := r.nics[ref]
		s := side{host: ref.Host, nic: ref.NIC, spec: spec, link: nccl.Netdev(snap, spec), under: under(r.hosts[ref.Host], spec)}
		if s.link == nil {
			return ends, DeviceMissing, s.port() + " matches no device, or several; run " + r.options.Invocation.Hint("plan")
		}
		if s.base = s.link; s.link.OnParent() {
			s.base = cmp.Or(snap.LinkByIndex(s.link.Parent), s.link)
		}
		for _, below := range s.under {
			if b := r.nics[below]; b != nil && b.Bond != nil && b.Bond.Mode == lacpMode {
				s.lacp = len(b.Bond.NICs)
			}
		}
		ends[i] = s
	}
	return ends, "", ""
}
