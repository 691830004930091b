package validators

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/nccl"
	"github.com/fabricform/fabricform/probe"
	"github.com/fabricform/fabricform/probe/perftest"
	"github.com/fabricform/fabricform/widearea"
)

// The items and metrics of the check.
const (
	RDMADevice      Item = "rdma_device"
	RDMAMTU         Item = "rdma_mtu"
	PerftestRelease Item = "perftest_release"
	PerftestRun     Item = "perftest"

	MetricBandwidth Metric = "bandwidth"
	MetricLatency   Metric = "latency" // the median, or the average where a release of perftest prints no median
)

// The defaults for perftest.
const (
	latencySize       = 2        // bytes
	bandwidthSize     = 64 << 10 // bytes
	latencyIterations = 1000
	bandwidthQPs      = 4
	verbsFraction     = 0.95 // of the goodput that the link's speed allows
)

// port is the RDMA port at one end of a path.
type port struct {
	side
	device facts.RDMADevice
	gid    facts.GID
	mtu    int // bytes, of RDMA; it follows from the MTU of base, the netdev of the device
}

// setup describes the port in results.
func (p port) setup() *UsedPort {
	return &UsedPort{Device: p.device.Name, Port: p.device.Port, GIDIndex: p.gid.Index}
}

// verbs runs perftest on all paths; in a lab one path at a time, because its virtual machines share
// processors.
func (r *run) verbs(ctx context.Context, trials []*trial) []Result {
	r.check(ctx, trials, CheckVerbs, r.options.Lab, (*trial).verbs)
	return nil
}

// verbs runs perftest between both ends, with device, port and GID index named on each.
func (t *trial) verbs(ctx context.Context) {
	res := t.both(CheckVerbs, RDMADevice)
	found := pairs(t.ends, t.path.Routed)
	switch {
	case !t.path.Validate.Verbs.Enabled:
		t.add(res.skips(Disabled, "disabled in the validate block"))
	case len(found) == 0:
		t.add(res.skips(NoAddressPair, t.noPair()))
	default:
		ends, why := t.rdmaPorts(found)
		if why != nil {
			t.add(*why)
			return
		}
		t.rdma(ctx, ends)
	}
}

// rdmaPorts resolves both ends by addresses of the declared GID's family. A failure, RDMA declared but
// missing, comes before a skip.
func (t *trial) rdmaPorts(found []pair) (ends [2]port, why *Result) {
	at := found[0]
	for _, p := range found {
		if p.a.Is6() == (t.ends[0].spec.GID.Family == "ipv6") {
			at = p
			break
		}
	}
	for i, addr := range []netip.Addr{at.a, at.b} {
		end, res := t.rdmaPort(t.ends[i], addr)
		if ends[i] = end; res != nil && (why == nil || why.Verdict == Skip) {
			why = res
		}
	}
	return ends, why
}

// rdmaPort finds a side's device and the GID of its address. If there is none, the result is a failure if
// RDMA is declared, otherwise a skip.
func (t *trial) rdmaPort(s side, addr netip.Addr) (port, *Result) {
	p, snap := port{side: s}, t.snapshots[s.host]
	fail := func(cause, cure string) (port, *Result) {
		res := t.result(CheckVerbs, RDMADevice, s.host, "").unmeasured(cause, cure)
		return p, &res
	}
	found := snap.RDMAOn(s.link.Name)
	switch {
	case len(found) == 0 && t.options.Lab && t.options.LabCapGbps > 0:
		res := t.result(CheckVerbs, RDMADevice, s.host, "").skips(InLab, noRDMAInLab+"; a lab of virtual machines (lab up -backend vm) has those of rxe blocks")
		return p, &res
	case len(found) == 0 && !t.declaresRDMA(s):
		res := t.result(CheckVerbs, RDMADevice, s.host, "").skips(NoRDMA,
			noDevice(s)+", and none declared; declare an rxe block for a Soft-RoCE device")
		return p, &res
	case len(found) == 0:
		return fail(noDevice(s), "declare an rxe block for Soft-RoCE; a card needs its driver")
	}
	i := slices.IndexFunc(found, func(d *facts.RDMADevice) bool { return d.State == "ACTIVE" })
	p.device = *found[max(i, 0)]
	if l := snap.Link(p.device.Netdev); l != nil {
		p.base = l
	}
	p.mtu = facts.ActiveMTU(p.base.MTU)
	if i < 0 {
		return fail(fmt.Sprintf("the port of %s is %s (%s)", p.device.Name, p.device.State, p.device.PhysState),
			fmt.Sprintf("make sure that %s is up and has a carrier", p.base.Name))
	}
	if p.device.LinkLayer == "InfiniBand" {
		return p, nil // index 0, which belongs to no address
	}
	version := s.spec.GID.Version
	if version == 0 {
		version = 2
	}
	for _, g := range p.device.GIDs {
		if g.Addr.Unmap() == addr && g.Version == version && g.Of(s.link.Name) {
			p.gid = g
			return p, nil
		}
	}
	return fail(fmt.Sprintf("the GID table of %s has no RoCE v%d entry for %s of %s", p.device.Name, version, addr, s.link.Name),
		fmt.Sprintf("make sure that %s has the address, and that it was added after the device appeared", s.link.Name))
}

// noRDMAInLab is why a namespace lab proves nothing about RDMA.
const noRDMAInLab = "a namespace lab has no RDMA devices"

func noDevice(s side) string { return "no RDMA device on " + s.link.Name }

// declaresRDMA reports whether the files declare RDMA on the NIC.
func (t *trial) declaresRDMA(s side) bool {
	h := t.hosts[s.host]
	return slices.ContainsFunc(h.RXE, func(x *fabric.RXE) bool { return x.NIC == s.spec.Ref() || x.Netdev == s.link.Name }) ||
		slices.Contains(t.fabric.NCCLOf(h).HCA, s.spec.Ref()) || s.spec.Match.RDMA != "" || s.spec.GID.Index != nil
}

func (t *trial) rdma(ctx context.Context, ends [2]port) {
	if ends[0].mtu != ends[1].mtu {
		// perftest and NCCL silently use the smaller of both.
		res := t.both(CheckVerbs, RDMAMTU)
		for _, e := range ends {
			res.Values = append(res.Values, Measurement{Name: MetricMTU, Value: float64(e.mtu), Unit: Bytes, Of: e.key().String()})
		}
		res.Wanted = "the same"
		t.add(res.fails(fmt.Sprintf("the RDMA MTU depends on the MTU of %s (%d) and %s (%d)",
			ends[0].below(), ends[0].base.MTU, ends[1].below(), ends[1].base.MTU), "set the same MTU on both"))
	}
	t.sameRelease(ctx, ends)
	tests := t.path.Validate.Verbs.Tests
	if t.options.Tests != nil {
		tests = t.options.Tests
	}
	dead := ""
	for _, name := range tests {
		if dead != "" { // further tests would time out for the same reason
			res := t.both(CheckVerbs, PerftestRun)
			res.Object = name
			t.add(res.skips(EarlierFailure, dead+" could not be measured in either direction"))
			continue
		}
		test := perftest.Test(name)
		there, more := t.perftest(ctx, test, ends[0], ends[1])
		back, evenMore := t.perftest(ctx, test, ends[1], ends[0])
		t.out = slices.Concat(t.out, []Result{there}, more, []Result{back}, evenMore)
		if there.Unmeasured && back.Unmeasured {
			dead = name
		}
	}
}

// sameRelease warns about different releases of perftest, which may be incompatible.
func (t *trial) sameRelease(ctx context.Context, ends [2]port) {
	var got [2]perftest.Version
	for i, e := range ends {
		v, err := probe.VerbsVersion.Call(ctx, t.fleet, e.host, perftest.SendLat)
		if err != nil || v == (perftest.Version{}) {
			return // the test itself reports the error
		}
		got[i] = v
	}
	if got[0] != got[1] {
		res := t.both(CheckVerbs, PerftestRelease)
		for i, e := range ends {
			res.FoundOn = append(res.FoundOn, FoundOn{got[i].String(), []string{e.host}})
		}
		res.Verdict, res.Wanted = Warn, "the same"
		res.Cause = "the two releases may be incompatible, and their results may not be comparable"
		res.Cure = "install the same release of perftest on both"
		t.add(res)
	}
}

// spec returns the request to both ends, and how long the test may take. The packets are of the class of the
// sending NIC, as NCCL's are.
func (t *trial) spec(test perftest.Test, from port, v6 bool) (perftest.Spec, time.Duration) {
	c, lane := t.path.Validate.Verbs, nccl.LaneOf(t.fabric, t.hosts[from.host], from.spec, t.snapshots[from.host])
	s := perftest.Spec{Test: test, Size: c.Size, ServiceLevel: lane.ServiceLevel, ControlIPv6: v6}
	if from.device.LinkLayer != "InfiniBand" { // NCCL sets it for Ethernet only
		s.TrafficClass = lane.TrafficClass
	}
	s.AckTimeout = t.ackTimeout()
	if test.Bandwidth() {
		s.Duration, s.QPs = max(c.Duration.Round(time.Second), 2*time.Second), bandwidthQPs
		if t.options.Lab {
			s.Duration, s.QPs = 2*time.Second, 1
		}
		if s.Size == 0 {
			s.Size = bandwidthSize
		}
		return s, s.Duration + 20*time.Second
	}
	s.Size, s.Iterations = latencySize, latencyIterations
	limit := 15 * time.Second
	if t.options.Lab { // an emulated machine takes milliseconds for each
		s.Iterations, limit = 200, 20*time.Second
	}
	if rtt := t.slowestAnswer(); rtt > 0 { // over a long way, fewer of them
		s.Iterations = min(s.Iterations, max(fewestIterations, int(longLatency/rtt)))
	}
	return s, limit
}

const (
	fewestIterations = 5               // MIN_ITER of perftest
	longLatency      = 8 * time.Second // for the round trips of a latency test
)

// slowestAnswer returns the longest round trip that was declared or measured on the path; 0 if there is neither.
func (t *trial) slowestAnswer() time.Duration {
	slowest := widearea.Roundtrip(t.path.Span).Largest()
	if rtt, known := t.roundTrip(); known {
		slowest = max(slowest, rtt.High)
	}
	return time.Duration(slowest * float64(time.Second))
}

// ackTimeoutMargin is how many round trips the timeout must exceed. Packets also wait in the queue of the window before them, and a
// processor that runs Soft-RoCE answers late. What is sent again without a loss costs rate, and rxe refuses some of it
// (REM_INV_REQ_ERR, seen with 67 ms over 52 ms). A NIC may itself wait up to four times the timeout (InfiniBand specification, volume 1,
// 9.7.6.1.3).
const ackTimeoutMargin = 4

// ackTimeout returns the exponent of a timeout that exceeds the round trip by far; 0 if perftest's own does.
func (t *trial) ackTimeout() int {
	if n, _ := widearea.Timeout(widearea.Exactly(ackTimeoutMargin * t.slowestAnswer().Seconds())); n > perftest.DefaultAckTimeout {
		return n
	}
	return 0
}

// perftest measures in one direction: data goes from one port to the other. In a read test, data goes to
// the client. more is what the priorities of both ports show.
func (t *trial) perftest(ctx context.Context, test perftest.Test, from, to port) (res Result, more []Result) {
	res = t.result(CheckVerbs, PerftestRun, from.host, to.host)
	client, server := from, to
	if test == perftest.ReadBW {
		client, server = to, from
	}
	spec, limit := t.spec(test, from, server.gid.Addr.IsValid() && !server.gid.Addr.Is4In6())
	res.Object, res.Setup = string(test), &Setup{MessageBytes: int64(spec.Size), From: client.setup(), To: server.setup(),
		TrafficClass: &spec.TrafficClass, ServiceLevel: &spec.ServiceLevel, QueuePairs: spec.QPs, AckTimeout: spec.AckTimeout}
	before, err := t.devices(ctx, from, to)
	w := t.watch(ctx, from.tap(), to.tap())
	w.sends = spec.Duration
	var out [2]probe.VerbsOutcome
	if err == nil {
		out, err = t.bothEnds(ctx, spec, limit, client, server)
	}
	if err != nil {
		return res.unmeasured(err.Error(), ""), nil
	}
	if failure, failed := perftest.Classify(out[1].ProgramRun, out[0].ProgramRun); failed {
		return res.unmeasured(t.explain(failure, client, server)), t.congestion(ctx, test, w, before, from, to)
	}
	m, err := parseMeasurement(out[0])
	if err != nil {
		return res.unmeasured("cannot parse perftest's report: "+err.Error(), ""), t.congestion(ctx, test, w, before, from, to)
	}
	if m.count == 0 {
		return res.unmeasured("timed out before any message arrived",
				"with Soft-RoCE allow UDP port 4791 in both hosts' firewalls; compare both ends' MTU with that of the switches between them"),
			t.congestion(ctx, test, w, before, from, to)
	}
	res.Setup.RDMAMTU = m.report.MTU
	m.value.Threshold = t.verbsThreshold(test, from, to)
	res.Values = []Measurement{m.value}
	if class := w.classed(ctx, res, from.side, load{probe.Packets, m.packets(), spec.TrafficClass}); class != nil {
		more = append(more, *class)
	}
	return t.judgeVerbs(ctx, res, before, m, from, to, client), append(more, t.congestion(ctx, test, w, before, from, to)...)
}

// congestion names what slowed a test, also one that failed.
func (t *trial) congestion(ctx context.Context, test perftest.Test, w watched, before counted, from, to port) []Result {
	res := t.result(CheckVerbs, Congested, from.host, to.host)
	res.Object = string(test)
	after, err := t.devices(ctx, from, to)
	if err != nil {
		return []Result{res.unmeasured(err.Error(), "")}
	}
	moved := func(p port) func([]string) Movement {
		return func(names []string) Movement {
			name, n, _ := rise(before[p.key()], after[p.key()], names)
			return Movement{Port: p.key().String(), Counter: name, Rise: n}
		}
	}
	return w.congested(ctx, res, [2]*fabric.NIC{from.spec, to.spec}, [2]func([]string) Movement{moved(from), moved(to)})
}

// judgeVerbs judges a measurement by the counters of the RDMA devices and its threshold.
func (t *trial) judgeVerbs(ctx context.Context, res Result, before counted, m measurement, from, to, client port) Result {
	test := perftest.Test(res.Object)
	port, errors, err := t.proveCarried(ctx, before, m, from, to)
	res.Counters = slices.Concat(port.counters, errors)
	switch wrong := wrongGID(m.report, client); {
	case err != nil:
		return res.fails(err.Error(), "")
	case port.denied != "":
		return res.fails("measured, but not by this port: "+port.denied, "")
	case wrong != "":
		return res.fails(wrong, "")
	case !m.value.Met() && test.Bandwidth():
		return res.fails("slower than declared: possible causes are too few PCIe lanes, a lower negotiated speed, "+
			"an RDMA MTU below 4096, or congestion", "")
	case !m.value.Met():
		return res.fails("slower than declared: possible causes are a switch or a longer path, power saving, or a busy CPU", "")
	case len(errors) > 0 && t.options.Lab:
		res.Verdict, res.Cause = Warn, rose(errors)+"; only a warning in a lab, because emulated machines answer late"
	case len(errors) > 0 && from.spec.QoS == nil:
		return res.fails(rose(errors)+": packets were lost or late", "check cables and MTU, and declare a lossless class in a qos block (docs/qos.md): the files "+
			"have none for these NICs")
	case len(errors) > 0:
		return res.fails(rose(errors)+": packets were lost or late", "check cables, flow control and MTU")
	case test.Bandwidth():
		return res.judgedBy(m.value)
	}
	return res
}

// bothEnds runs the server and then the client; out[0] is the client's report. Failures that may pass are retried: a
// control connection that fails at once, a port that another program took, and a clock that a busy machine disturbed.
func (t *trial) bothEnds(ctx context.Context, spec perftest.Spec, limit time.Duration,
	client, server port) (out [2]probe.VerbsOutcome, err error) {
	tries := 3
	if t.options.Lab { // the clocks of emulated machines are disturbed more often
		tries = 8
	}
	for try := range tries {
		began := time.Now()
		listen, err := probe.ServeVerbs.Call(ctx, t.fleet, server.host, probe.VerbsServeSpec{Test: spec, Limit: limit + 5*time.Second,
			End: perftest.End{Device: server.device.Name, Port: server.device.Port, GIDIndex: server.gid.Index}})
		if err != nil {
			return out, fmt.Errorf("host %s: %w", server.host, err)
		}
		spec.ControlPort = listen.Port
		out[0], err = probe.RunVerbs.Call(ctx, t.fleet, client.host, probe.VerbsRunSpec{Test: spec, Limit: limit,
			End: perftest.End{Device: client.device.Name, Port: client.device.Port, GIDIndex: client.gid.Index,
				Peer: controlAddress(server)}})
		if err != nil {
			return out, fmt.Errorf("host %s: %w", client.host, err)
		}
		if out[1], err = probe.CollectVerbs.Call(ctx, t.fleet, server.host, listen.ID); err != nil {
			return out, fmt.Errorf("host %s: %w", server.host, err)
		}
		f, failed := perftest.Classify(out[1].ProgramRun, out[0].ProgramRun)
		busy := f.Cause == perftest.NoControl && time.Since(began) < 5*time.Second || f.Cause == perftest.PortBusy
		if !failed || f.Cause != perftest.ClockUnusable && (try > 0 || !busy) {
			break
		}
	}
	return out, nil
}

// controlAddress returns the server's address on this path, so that the test's control connection also uses
// this cable. InfiniBand may have no such address: then the first declared one is used.
func controlAddress(server port) netip.Addr {
	if a := server.gid.Addr.Unmap(); a.IsValid() {
		return a
	}
	for _, p := range server.spec.Addresses {
		return p.Addr()
	}
	return netip.Addr{}
}

// explain adds the hosts' names, and what else is known about this path, to a failure.
func (t *trial) explain(f perftest.Failure, client, server port) (cause, cure string) {
	if f.Cause == perftest.NoControl { // both ends are ours, and the server was listening
		return fmt.Sprintf("%s cannot connect to TCP port %d or the following ports of %s on this link: "+
			"no ARP answer for %s (see the ping check), or a firewall on %s blocks the port",
			client.host, probe.FirstControlPort, server.host, controlAddress(server), server.host), ""
	}
	cause, cure = f.Text(map[perftest.Side]string{perftest.Client: client.host, perftest.Server: server.host})
	switch f.Cause {
	case perftest.NotInstalled:
		cure += `; or declare it: ofed { stack = "inbox", packages = ["perftest"] }`
	case perftest.SilentData, perftest.RetriesExceeded:
		if client.mtu != server.mtu {
			cause += fmt.Sprintf("; the MTUs of the two ends also differ (%d and %d)", client.base.MTU, server.base.MTU)
		}
	}
	return cause, cure
}

// wrongGID compares the GID that perftest used with the requested one.
func wrongGID(r perftest.Output, client port) string {
	for _, l := range r.Local {
		if l.GID.IsValid() && client.gid.Addr.IsValid() && l.GID.Unmap() != client.gid.Addr.Unmap() {
			return fmt.Sprintf("perftest used GID %s instead of %s: the GID table of %s changed during the test",
				l.GID.Unmap(), client.gid.Addr.Unmap(), client.device.Name)
		}
	}
	return ""
}
