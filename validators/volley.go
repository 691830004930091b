package validators

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/parallel"
	"github.com/fabricform/fabricform/probe"
	"github.com/fabricform/fabricform/retry"
)

// pings runs the pings of all trials. They are light, so they run many at a time, in volleys. A ping that a
// volley does not prove is measured again alone.
func (r *run) pings(ctx context.Context, trials []*trial) []Result {
	var hails []*hail
	for _, t := range ready(trials, CheckPing) {
		hails = append(hails, t.hails()...)
	}
	r.acquaint(ctx, hails)
	all := volleys(hails)
	for i, v := range all {
		r.options.progress(fmt.Sprintf("ping: %d pairs at once (%d of %d)", len(v), i+1, len(all)))
		r.volley(ctx, v)
	}
	r.measureAlone(ctx, leftOver(hails))
	for _, h := range hails {
		h.out = append(h.out, h.results...)
	}
	return nil
}

// measureAlone measures hails one by one: while nothing else is sent between the two hosts, or, if hosts could
// answer for each other, while nothing else is sent at all.
func (r *run) measureAlone(ctx context.Context, hails []*hail) {
	left, doubtful := map[*trial][]*hail{}, map[*trial]bool{}
	var order []*trial
	for _, h := range hails {
		if left[h.trial] == nil {
			order = append(order, h.trial)
		}
		left[h.trial] = append(left[h.trial], h)
		doubtful[h.trial] = doubtful[h.trial] || !h.certain()
	}
	for _, single := range []bool{false, true} {
		trials := slices.DeleteFunc(slices.Clone(order), func(t *trial) bool { return doubtful[t] != single })
		r.inRounds(ctx, trials, CheckPing, single, func(t *trial, ctx context.Context) {
			for _, h := range left[t] {
				h.measureRest(ctx)
			}
		})
	}
}

// volleys puts each hail into the first volley in which its hosts use no other port: a packet that arrives at
// the wrong port of a host is then missing at the right one, and no other packet hides that.
func volleys(hails []*hail) [][]*hail {
	var out [][]*hail
	var ports []map[string]string // by host
next:
	for _, h := range hails {
		fits := func(used map[string]string) bool {
			for _, s := range []side{h.from, h.to} {
				if p := used[s.host]; p != "" && p != s.nic {
					return false
				}
			}
			return true
		}
		for i := range out {
			if fits(ports[i]) {
				out[i] = append(out[i], h)
				ports[i][h.from.host], ports[i][h.to.host] = h.from.nic, h.to.nic
				continue next
			}
		}
		out = append(out, []*hail{h})
		ports = append(ports, map[string]string{h.from.host: h.from.nic, h.to.host: h.to.nic})
	}
	return out
}

// silentAlone is how many unanswered hails of a port are measured alone, to find the cause. For a dead host in
// a large network, the others would take minutes and show the same.
const silentAlone = 4

// leftOver returns the hails to measure alone. Unanswered ones beyond the first of a port keep the result of
// their volley.
func leftOver(hails []*hail) []*hail {
	var out []*hail
	silent := map[string]int{}
	for _, h := range hails {
		if len(h.results) == int(h.stages()) {
			continue
		}
		if !h.met {
			silent[h.from.port()]++
			silent[h.to.port()]++
			if max(silent[h.from.port()], silent[h.to.port()]) > silentAlone {
				h.results = []Result{h.judge(small, echoes{got: h.got})}
				continue
			}
		}
		out = append(out, h)
	}
	return out
}

// volley measures many hails at once, with one call to each host for all its peers. It adds a result only
// for hails that the counters prove.
func (r *run) volley(ctx context.Context, hails []*hail) {
	var met []*hail
	for _, h := range hails {
		if h.met && h.certain() {
			met = append(met, h)
		}
	}
	for s := range r.stages() {
		proven, unproven := r.salvo(ctx, met, s, r.lateDriver)
		if len(unproven) > 0 {
			again, _ := r.salvo(ctx, unproven, s, true)
			r.lateDriver = r.lateDriver || len(again) > 0
			proven = append(proven, again...)
		}
		met = proven
	}
}

// certain reports whether only the intended hosts can send and answer.
func (h *hail) certain() bool {
	return h.sole(h.pair.a, h.from.host) && h.sole(h.pair.b, h.to.host)
}

// sole reports whether no other host of the fabric has the address: otherwise two hosts could answer for each
// other, and the counters of both would look right.
func (r *run) sole(a netip.Addr, host string) bool {
	for name, snap := range r.snapshots {
		if name == host {
			continue
		}
		for _, other := range snap.Addrs {
			if other.Prefix.Addr() == a {
				return false
			}
		}
	}
	return true
}

// patience is how many seconds neighbour resolution may take.
const patience = 5

// acquaint runs neighbour resolution before anything is counted, so that entries from before a cable was moved
// are replaced.
func (r *run) acquaint(ctx context.Context, hails []*hail) {
	for try := range patience {
		var missing []*hail
		for _, h := range hails {
			if !h.met {
				missing = append(missing, h)
			}
		}
		if len(missing) == 0 {
			return
		}
		got, errs := r.fire(ctx, missing, func(h *hail) probe.PingSpec {
			s := h.spec(small)
			s.Count, s.Fresh = 1, try > 0
			return s
		})
		for i, h := range missing {
			// If nothing could be sent, the measurement reports why.
			h.met = errs[i] != nil || got[i].Received > 0
			h.got.Sent, h.got.Errors = h.got.Sent+got[i].Sent, got[i].Errors
		}
	}
}

// salvo measures one stage of hails at once. A hail is proven if every packet came back once, its result passes,
// and the ports at both ends counted all the packets that the salvo must have sent over them. unproven are the
// other hails of which every packet came back once.
//
// If a driver updates its counters late, earlier packets could hide lost ones. So the counters must show all
// packets at once or, with late, the salvo starts only after the counters have stopped changing.
func (r *run) salvo(ctx context.Context, hails []*hail, s stage, late bool) (proven, unproven []*hail) {
	if len(hails) == 0 || late && retry.Pause(ctx, lateCounters) != nil {
		return nil, nil
	}
	before, err := r.counters(ctx, hails)
	if err != nil {
		return nil, nil // each hail reports the error when it is measured alone
	}
	got, errs := r.fire(ctx, hails, func(h *hail) probe.PingSpec { return h.spec(s) })
	need, blurred := map[fabric.NICRef]minimum{}, map[fabric.NICRef]bool{}
	clean := map[*hail]Result{}
	for i, h := range hails {
		spec := h.spec(s)
		if errs[i] != nil || got[i].Received != spec.Count || got[i].Sent != spec.Count || got[i].Duplicates > 0 || len(got[i].Errors) > 0 {
			// The number of its packets is unknown, and they could hide lost ones of others.
			blurred[h.from.ref()], blurred[h.to.ref()] = true, true
			continue
		}
		clean[h] = h.judge(s, echoes{got: got[i]})
		for _, port := range []fabric.NICRef{h.from.ref(), h.to.ref()} {
			m := need[port] // a port sends as much as it receives: requests one way, answers the other
			need[port] = minimum{m.packets + uint64(spec.Count), m.bytes + uint64(spec.Count)*uint64(spec.Size)}
		}
	}
	after, short := r.short(ctx, hails, before, need, late)
	for _, h := range hails {
		res, is := clean[h]
		a, b := h.from.ref(), h.to.ref()
		switch {
		case !is:
		case blurred[a] || blurred[b] || short[a] || short[b] || res.Verdict != Pass:
			unproven = append(unproven, h)
		default:
			res.Counters = shared(before, after, need, h, len(clean))
			h.results = append(h.results, res)
			proven = append(proven, h)
		}
	}
	return proven, unproven
}

// shared returns what a hail's ports moved, together with all other hails of its salvo.
func shared(before, after ports, need map[fabric.NICRef]minimum, h *hail, n int) []Movement {
	sent, received := movement(before, after, h.from, h.to, need[h.from.ref()]), movement(before, after, h.from, h.to, need[h.to.ref()])
	out := append(sent[:2:2], received[2:]...)
	for i := range out {
		out[i].Shared = n
	}
	return out
}

// short returns the ports whose counters show too few packets; with late, after the time that a driver may take
// to update them.
func (r *run) short(ctx context.Context, hails []*hail, before ports, need map[fabric.NICRef]minimum, late bool,
) (after ports, short map[fabric.NICRef]bool) {
	for deadline := time.Now().Add(lateCounters); ; {
		short = map[fabric.NICRef]bool{}
		after, err := r.counters(ctx, hails)
		for port, least := range need {
			b, a := before[port], after[port]
			if err != nil || grown(b.TxPackets, a.TxPackets) < least.packets || grown(b.RxPackets, a.RxPackets) < least.packets ||
				grown(b.TxBytes, a.TxBytes) < least.bytes || grown(b.RxBytes, a.RxBytes) < least.bytes {
				short[port] = true
			}
		}
		if len(short) == 0 || !late || time.Now().After(deadline) || retry.Pause(ctx, lateCounters/5) != nil {
			return after, short
		}
	}
}

// counters reads the counters of the hails' own ports, on all hosts in parallel.
func (r *run) counters(ctx context.Context, hails []*hail) (ports, error) {
	ends := map[fabric.NICRef]side{}
	for _, h := range hails {
		ends[h.from.ref()], ends[h.to.ref()] = h.from, h.to
	}
	out := ports{}
	var mu sync.Mutex
	err := parallel.Do(0, slices.Collect(maps.Values(ends)), func(_ int, s side) error {
		c, err := probe.ReadCounters.Call(ctx, r.fleet, s.host, s.link.Name)
		mu.Lock()
		defer mu.Unlock()
		out[s.ref()] = c
		return err
	})
	return out, err
}

// fire sends the hails' pings at once, with one request for those that differ only in their target. Results and
// errors are in the order of the hails.
func (r *run) fire(ctx context.Context, hails []*hail, of func(*hail) probe.PingSpec) ([]probe.PingResult, []error) {
	type key struct {
		host, netdev string
		source       netip.Addr
		count        int
	}
	groups := map[key][]int{}
	for i, h := range hails {
		s := of(h)
		k := key{h.from.host, s.Netdev, s.Source, s.Count}
		groups[k] = append(groups[k], i)
	}
	results, errs := make([]probe.PingResult, len(hails)), make([]error, len(hails))
	parallel.Each(0, slices.Collect(maps.Keys(groups)), func(_ int, k key) {
		members := groups[k]
		s := of(hails[members[0]])
		s.Targets = nil
		for _, i := range members {
			s.Targets = append(s.Targets, hails[i].pair.b)
		}
		got, err := probe.Ping.Call(ctx, r.fleet, k.host, s)
		if err == nil && len(got) != len(members) {
			err = fmt.Errorf("host %s answered for %d peers instead of %d", k.host, len(got), len(members))
		}
		for n, i := range members {
			if errs[i] = err; err == nil {
				results[i] = got[n]
			}
		}
	})
	return results, errs
}
