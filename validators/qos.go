package validators

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/parallel"
	"github.com/fabricform/fabricform/probe"
	"github.com/fabricform/fabricform/retry"
)

// The items of the check. ClassCounted is also an item of the check verbs.
const (
	ClassCounted Item = "class" // packets of the class were counted on its priority at both ends
	PFCIsOn      Item = "pfc"
)

// classPings is how many packets prove a class: more than protocols such as ARP and LLDP send meanwhile.
const classPings = 50

// classes checks the class of traffic of all paths that have one.
func (r *run) classes(ctx context.Context, trials []*trial) []Result {
	var with []*trial
	for _, t := range trials {
		if r.nics[t.path.Endpoints[0]].QoS != nil || r.nics[t.path.Endpoints[1]].QoS != nil {
			with = append(with, t)
		} else if slices.Contains(r.options.Only, CheckQoS) {
			t.add(t.both(CheckQoS, ClassCounted).skips(NotDeclared, "the NICs have no qos block"))
		}
	}
	r.check(ctx, with, CheckQoS, false, (*trial).class)
	return nil
}

// class checks PFC at both ends, and sends pings of the class in both directions.
func (t *trial) class(ctx context.Context) {
	t.pfc(ctx)
	if found := t.measurable(true, t.both(CheckQoS, ClassCounted)); len(found) > 0 {
		t.add(t.classPing(ctx, t.ends[0], t.ends[1], found[0]))
		t.add(t.classPing(ctx, t.ends[1], t.ends[0], found[0].reverse()))
	}
}

// pfc compares the priorities with PFC at both ends with the class. Where one end has none, it drops packets that the other takes for
// lossless.
func (t *trial) pfc(ctx context.Context) {
	res := t.both(CheckQoS, PFCIsOn)
	now, err := t.lanes(ctx, [2]tap{t.ends[0].tap(), t.ends[1].tap()})
	if err != nil {
		t.add(res.unmeasured(err.Error(), ""))
		return
	}
	var wrong, cures []string
	declared, blind := false, ""
	for i, s := range t.ends {
		q, dcb, cure := s.spec.QoS, now[i].DCB, t.reapply()
		if q == nil { // a member of a network: what the other end sends must be lossless here, too
			q = t.ends[1-i].spec.QoS
			cure = fmt.Sprintf("set qos = qos.%s for %s", q.Name, s.port())
		}
		if q.PFC == nil || q.Priority == nil {
			continue
		}
		declared = true
		if dcb == nil {
			blind = "no DCB on " + s.tap().String()
			continue
		}
		var on []string
		for _, p := range dcb.PFC {
			on = append(on, fmt.Sprint(p))
		}
		res.FoundOn = append(res.FoundOn, FoundOn{strings.Join(on, " "), []string{s.host}})
		switch has := slices.Contains(dcb.PFC, *q.Priority); {
		case *q.PFC && !has:
			wrong = append(wrong, fmt.Sprintf("%s has no PFC on priority %d, so it drops packets where it must pause %s", s.port(), *q.Priority, t.ends[1-i].port()))
			cures = append(cures, cure)
		case !*q.PFC && has:
			wrong = append(wrong, fmt.Sprintf("%s has PFC on priority %d, and qos.%s has none", s.port(), *q.Priority, q.Name))
			cures = append(cures, cure)
		}
	}
	switch {
	case len(wrong) > 0:
		res.Wanted = "as declared at both ends"
		t.add(res.fails(strings.Join(wrong, "; "), strings.Join(slices.Compact(cures), "; ")))
	case blind != "":
		t.add(res.skips(NoPriorities, blind))
	case declared:
		t.add(res)
	}
}

// classPing sends pings of the class in one direction.
func (t *trial) classPing(ctx context.Context, from, to side, p pair) Result {
	res := t.result(CheckQoS, ClassCounted, from.host, to.host)
	res.Object = p.b.String()
	q := from.spec.QoS
	if why := unproven(q, from); why != "" {
		return res.skips(NotDeclared, why)
	}
	w := t.watch(ctx, from.tap(), to.tap())
	if w.err != nil {
		return res.unmeasured(w.err.Error(), "")
	}
	if why := w.uncounted(probe.Packets); why != "" {
		return res.skips(NoPriorities, why)
	}
	class := classOf(from)
	got, err := t.pingOne(ctx, from.host, probe.PingSpec{Netdev: from.link.Name, Source: p.a, Targets: []netip.Addr{p.b}, Count: classPings,
		Interval: pingInterval, Timeout: pingTimeout, Size: smallPayload, Class: class})
	switch {
	case err != nil:
		return res.unmeasured(err.Error(), "")
	case got.Received == 0:
		return res.unmeasured("no answer to pings of this class: "+strings.Join(append(got.Errors, "see the ping check"), "; "), "")
	}
	return w.counted(ctx, res, q, load{probe.Packets, uint64(got.Received), class.TrafficClass})
}

// unproven says why a class cannot be proven by packets; "": it can.
func unproven(q *fabric.QoS, s side) string {
	switch {
	case q == nil:
		return s.port() + " has no qos block"
	case q.DSCP == nil || q.Priority == nil:
		return fmt.Sprintf("qos.%s of %s does not declare both dscp and priority", q.Name, s.port())
	}
	return ""
}

// classOf is the class of what a NIC sends; the kernel's default if its block does not declare one that can be proven.
func classOf(s side) probe.Class {
	if unproven(s.spec.QoS, s) != "" {
		return probe.Class{}
	}
	return probe.Class{TrafficClass: *s.spec.QoS.DSCP << 2, Priority: *s.spec.QoS.Priority}
}

// load is what a test has sent at least.
type load struct {
	of probe.Counted // Packets or Bytes
	n  uint64
	tc int // the traffic class byte that was asked for
}

// classed judges on which priority both ends counted the load of a test, which test is a result of; nil if the sender has no class.
func (w *watched) classed(ctx context.Context, test Result, from side, sent load) *Result {
	res := Result{Check: test.Check, Item: ClassCounted, Subject: test.Subject, Host: test.Host, Peer: test.Peer, Object: test.Object, Verdict: Pass}
	if unproven(from.spec.QoS, from) != "" {
		return nil
	}
	switch why := w.uncounted(sent.of); {
	case w.err != nil:
		res = res.unmeasured(w.err.Error(), "")
	case why != "":
		res = res.skips(NoPriorities, why)
	default:
		res = w.counted(ctx, res, from.spec.QoS, sent)
	}
	return &res
}

// tap is a port at an end of a path whose priorities are watched.
type tap struct {
	host, netdev, driver string
	port                 string // for people
	classless            bool   // it has no qos block
}

func (t tap) String() string {
	if t.driver == "" {
		return t.port
	}
	return fmt.Sprintf("%s (driver %s)", t.port, t.driver)
}

func (s side) tap() tap { return tap{s.host, s.base.Name, s.base.Driver, s.below(), s.spec.QoS == nil} }

// lanes is what the NICs at both ends have counted by priority: the sender's first.
type lanes [2]probe.Priorities

func (r *run) lanes(ctx context.Context, ends [2]tap) (out lanes, err error) {
	err = parallel.Do(0, []int{0, 1}, func(_ int, i int) (err error) {
		if out[i], err = probe.ReadPriorities.Call(ctx, r.fleet, ends[i].host, ends[i].netdev); err != nil {
			return fmt.Errorf("host %s: %w", ends[i].host, err)
		}
		return nil
	})
	return out, err
}

// watched is a path whose priorities are counted while something is sent over it.
type watched struct {
	*run
	ends          [2]tap // the sender first
	before, after lanes
	began         time.Time
	sends         time.Duration // for how long the test sends; 0: unknown
	err           error         // the counters could not be read
}

func (r *run) watch(ctx context.Context, from, to tap) watched {
	w := watched{run: r, ends: [2]tap{from, to}, began: time.Now()}
	w.before, w.err = r.lanes(ctx, w.ends)
	return w
}

// rise returns how far the statistics of one kind have risen at an end, and the name of the last that exists. A statistic that was missing
// before, as mlx5's of a priority without PFC, has no known rise. Discards are not added up: drivers count one packet under several names.
func (w watched) rise(end int, counts probe.Counted, sent bool, priority int) (n uint64, name string) {
	before := map[string]uint64{}
	for _, s := range w.before[end].Statistics {
		before[s.Name] = s.Value
	}
	for _, s := range w.after[end].Statistics {
		was, known := before[s.Name]
		if !known || s.Counts != counts || s.Sent != sent || s.Priority != priority {
			continue
		}
		if by := grown(was, s.Value); counts == probe.Discards {
			n = max(n, by)
		} else {
			n += by
		}
		name = s.Name
	}
	return n, name
}

// uncounted says which NIC does not count packets or bytes by priority; "": both do.
func (w watched) uncounted(of probe.Counted) string {
	for i, e := range w.ends {
		if !slices.ContainsFunc(w.before[i].Statistics, func(s probe.Statistic) bool { return s.Counts == of }) {
			return "no per-priority counters on " + e.String()
		}
	}
	return ""
}

// counted reads the counters until both ends show the load on the class's priority or lateCounters is over, and judges them.
func (w *watched) counted(ctx context.Context, res Result, q *fabric.QoS, sent load) Result {
	res.Setup = &Setup{TrafficClass: &sent.tc}
	for deadline := time.Now().Add(lateCounters); ; {
		var err error
		if w.after, err = w.lanes(ctx, w.ends); err != nil {
			return res.unmeasured(err.Error(), "")
		}
		res.Counters = nil
		right := true
		for i, e := range w.ends {
			rise, name := w.rise(i, sent.of, i == 0, *q.Priority)
			res.Counters = append(res.Counters, Movement{Port: e.port, Counter: name, Rise: rise, AtLeast: sent.n})
			right = right && rise >= sent.n
		}
		if right {
			return w.alone(res, q, sent)
		}
		if time.Now().After(deadline) {
			return w.misplaced(res, q, sent)
		}
		if err := retry.Pause(ctx, lateCounters/5); err != nil {
			return res.unmeasured(err.Error(), "")
		}
	}
}

// alone passes a result unless the packets may have been on another priority at an end, and other traffic was on theirs.
func (w *watched) alone(res Result, q *fabric.QoS, sent load) Result {
	for i, m := range res.Counters {
		if other := w.elsewhere(i, *q.Priority, sent); m.Rise > sent.n+sent.n/4 && other >= 0 {
			res.Verdict, res.Unmeasured = Warn, true
			res.Cause = fmt.Sprintf("not proven: other traffic is on priority %d of %s (%d %s, %d were sent), and priority %d had %s enough to hide them",
				*q.Priority, m.Port, m.Rise, sent.of, sent.n, other, sent.of)
			res.Cure = "repeat the check while no job sends"
			return res
		}
	}
	res.Found = fmt.Sprintf("on priority %d at both ends", *q.Priority)
	return res
}

// misplaced says which end counted the packets on another priority, and why.
func (w watched) misplaced(res Result, q *fabric.QoS, sent load) Result {
	res.Wanted = fmt.Sprintf("priority %d at both ends", *q.Priority)
	end, verb := 0, "sent"
	if res.Counters[0].Rise >= sent.n {
		end, verb = 1, "received"
	}
	at := w.ends[end].port
	other := w.elsewhere(end, *q.Priority, sent)
	if got := res.Counters[end].Rise; other < 0 || got >= sent.n/2 { // what changes the class of packets changes that of all
		return res.fails(fmt.Sprintf("%s %s only %d of %d %s on priority %d, and it is not known where the others are", at, verb, got, sent.n,
			sent.of, *q.Priority), "other traffic on these ports, or a driver that counts some packets only, can hide them: repeat the check")
	}
	res.Found = fmt.Sprintf("on priority %d of %s", other, at)
	why := wrongMap(w.after[end].DCB, q)
	right := fmt.Sprintf(", although its map leads DSCP %d to priority %d", *q.DSCP, *q.Priority)
	switch {
	case why != "" && w.ends[end].classless:
		return res.fails(fmt.Sprintf("%s %s them on priority %d: %s", at, verb, other, why), fmt.Sprintf("set qos = qos.%s for %s", q.Name, at))
	case why != "":
		return res.fails(fmt.Sprintf("%s %s them on priority %d: %s", at, verb, other, why), w.reapply())
	case w.after[end].DCB == nil:
		by := map[bool]string{true: "its driver", false: "a switch"}[end == 0]
		return res.fails(fmt.Sprintf("%s %s them on priority %d, because of its map, which cannot be read, or of %s", at, verb, other, by),
			"look at the map with the vendor's tool, such as mlnx_qos")
	case end == 0:
		return res.fails(fmt.Sprintf("%s sent them on priority %d%s: its driver or firmware gives them another class", at, other, right), "compare with the driver's own traffic class (docs/qos.md)")
	}
	return res.fails(fmt.Sprintf("they left %s on priority %d and came in at %s on priority %d%s: a switch between them has changed their DSCP (it remarks)",
		w.ends[0].port, *q.Priority, at, other, right),
		fmt.Sprintf("set the ports of the switch to trust and keep the DSCP, and give DSCP %d the priority %d there", *q.DSCP, *q.Priority))
}

// elsewhere returns the other priority on which an end counted the most, if it is at least the load; otherwise -1.
func (w watched) elsewhere(end, priority int, sent load) int {
	found, most := -1, sent.n
	for p := range priorities {
		if rise, _ := w.rise(end, sent.of, end == 0, p); p != priority && rise >= most {
			found, most = p, rise
		}
	}
	return found
}

// priorities is how many priorities IEEE 802.1Q has.
const priorities = 8

// wrongMap says why a NIC does not lead the class's DSCP to its priority; "": it does, or its map is not known.
func wrongMap(d *probe.DCB, q *fabric.QoS) string {
	if d == nil {
		return ""
	}
	p, mapped := d.DSCP[*q.DSCP]
	switch {
	case d.TrustsPCP:
		return "it trusts the PCP of VLAN tags instead of the DSCP"
	case !mapped:
		return fmt.Sprintf("its map has no entry for DSCP %d", *q.DSCP)
	case p != *q.Priority:
		return fmt.Sprintf("its map leads DSCP %d to priority %d", *q.DSCP, p)
	}
	return ""
}
