package validators

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/probe"
	"github.com/fabricform/fabricform/probe/perftest"
)

// What perftest is asked for where the files do not say it.
const (
	latencySize       = 2        // bytes
	bandwidthSize     = 64 << 10 // bytes
	latencyIterations = 1000
	bandwidthQPs      = 4
	verbsFraction     = 0.95 // of the goodput that the link's speed allows
)

// port is one end of a path as RDMA sees it.
type port struct {
	side
	device facts.RDMADevice
	gid    facts.GID
	mtu    int // bytes, of RDMA
}

// verbs runs perftest between both ends, with device, port and GID index named on each.
func (t *trial) verbs(ctx context.Context) {
	skip := Result{Check: "verbs", Link: t.path.Name, Host: t.ends[0].host, Peer: t.ends[1].host, Verdict: Skip, What: "RDMA"}
	found := pairs(t.ends, t.path.Routed)
	switch {
	case !t.path.Validate.Verbs.Enabled:
		skip.Cause = "disabled in validate"
	case len(found) == 0:
		skip.Cause = t.noPair()
	default:
		ends, res := t.rdmaPorts(found)
		if res == nil {
			t.rdma(ctx, ends)
			return
		}
		skip = *res
	}
	t.add(skip)
}

// rdmaPorts resolves both ends by the addresses of the family that their GIDs are meant to have. A
// side whose RDMA is declared and missing comes before one that never meant to have any.
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

// rdmaPort finds a side's device and the GID of its address. The result says why there is none: a
// skip where nobody declares RDMA there, a failure where somebody does.
func (t *trial) rdmaPort(s side, addr netip.Addr) (port, *Result) {
	p := port{side: s, mtu: facts.ActiveMTU(s.link.MTU)}
	res := &Result{Check: "verbs", Link: t.path.Name, Host: s.host, Verdict: Fail, What: "RDMA", Measured: unmeasured, Expected: "a usable port"}
	i := slices.IndexFunc(t.snapshots[s.host].RDMA, func(d facts.RDMADevice) bool { return d.Netdev == s.link.Name })
	if i < 0 {
		res.Cause = fmt.Sprintf("there is no RDMA device on %s: an rxe block makes one of software; a card's needs its driver", s.link.Name)
		if !t.declaresRDMA(s) {
			res.Verdict, res.Measured, res.Expected = Skip, "", ""
		}
		return p, res
	}
	p.device = t.snapshots[s.host].RDMA[i]
	if p.device.State != "ACTIVE" {
		res.Cause = fmt.Sprintf("the port of %s is %s (%s): it follows %s, which needs to be up with a carrier", p.device.Name, p.device.State, p.device.PhysState, s.link.Name)
		return p, res
	}
	if p.device.LinkLayer == "InfiniBand" {
		return p, nil // index 0, and no address stands behind it
	}
	version := s.spec.GID.Version
	if version == 0 {
		version = 2
	}
	for _, g := range p.device.GIDs {
		if g.Addr.Unmap() == addr && g.Version == version {
			p.gid = g
			return p, nil
		}
	}
	res.Cause = fmt.Sprintf("the GID table of %s has no RoCE v%d entry for %s: is the address on %s, and did it get there after the device?", p.device.Name, version, addr, s.link.Name)
	return p, res
}

// declaresRDMA says whether the files want RDMA on the NIC.
func (t *trial) declaresRDMA(s side) bool {
	h := t.hosts[s.host]
	return slices.ContainsFunc(h.RXE, func(x *fabric.RXE) bool { return x.NIC == s.spec.Ref() || x.Netdev == s.link.Name }) ||
		slices.Contains(t.fabric.NCCLOf(h).HCA, s.spec.Ref()) || s.spec.Match.RDMA != "" || s.spec.GID.Index != nil
}

func (t *trial) rdma(ctx context.Context, ends [2]port) {
	if ends[0].mtu != ends[1].mtu {
		// perftest takes the smaller of both without a word, and so does NCCL.
		t.add(Result{Check: "verbs", Link: t.path.Name, Host: ends[0].host, Peer: ends[1].host, Verdict: Fail, What: "RDMA MTU",
			Measured: fmt.Sprintf("%d and %d", ends[0].mtu, ends[1].mtu), Expected: "the same",
			Cause: fmt.Sprintf("it follows the MTU of %s (%d) and %s (%d): set the same on both", ends[0].port(), ends[0].link.MTU, ends[1].port(), ends[1].link.MTU)})
	}
	t.sameRelease(ctx, ends)
	tests := t.path.Validate.Verbs.Tests
	if t.options.Tests != nil {
		tests = t.options.Tests
	}
	dead := ""
	for _, name := range tests {
		test := perftest.Test(name)
		if dead != "" { // each more would take its whole time to say the same
			t.add(Result{Check: "verbs", Link: t.path.Name, Host: ends[0].host, Peer: ends[1].host, Verdict: Skip, What: name, Cause: dead + " was not measured in either direction"})
			continue
		}
		there, back := t.perftest(ctx, test, ends[0], ends[1]), t.perftest(ctx, test, ends[1], ends[0])
		t.add(there)
		t.add(back)
		if there.Measured == unmeasured && back.Measured == unmeasured {
			dead = name
		}
	}
}

const unmeasured = "not measured"

// sameRelease warns of perftests that differ, and so may not understand each other.
func (t *trial) sameRelease(ctx context.Context, ends [2]port) {
	var got [2]perftest.Version
	for i, e := range ends {
		v, err := t.fleet.VerbsVersion(ctx, e.host, perftest.SendLat)
		if err != nil || v == (perftest.Version{}) {
			return // what is wrong is found and said by the test
		}
		got[i] = v
	}
	if got[0] != got[1] {
		t.add(Result{Check: "verbs", Link: t.path.Name, Host: ends[0].host, Peer: ends[1].host, Verdict: Warn, What: "perftest release",
			Measured: got[0].String() + " and " + got[1].String(), Expected: "the same",
			Cause: "their ends may not understand each other, and their numbers may not be comparable: install the same release on both"})
	}
}

// spec is what both ends are asked for, and how long the test may take.
func (t *trial) spec(test perftest.Test, v6 bool) (perftest.Spec, time.Duration) {
	c := t.path.Validate.Verbs
	s := perftest.Spec{Test: test, Size: c.Size, ControlIPv6: v6}
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
	if t.options.Lab { // an emulated machine takes milliseconds for each
		s.Iterations = 200
		return s, 20 * time.Second
	}
	return s, 15 * time.Second
}

// perftest measures in one direction: data goes from one port to the other. A read's data comes
// to the client.
func (t *trial) perftest(ctx context.Context, test perftest.Test, from, to port) Result {
	res := Result{Check: "verbs", Link: t.path.Name, Host: from.host, Peer: to.host, Verdict: Pass}
	client, server := from, to
	if test == perftest.ReadBW {
		client, server = to, from
	}
	spec, limit := t.spec(test, server.gid.Addr.IsValid() && !server.gid.Addr.Is4In6())
	res.What = fmt.Sprintf("%s %s", test, size(spec.Size))
	before, err := t.devices(ctx, from, to)
	var out [2]probe.VerbsOutcome
	if err == nil {
		out, err = t.bothEnds(ctx, spec, limit, client, server)
	}
	if err != nil {
		res.Verdict, res.Measured, res.Cause = Fail, unmeasured, err.Error()
		return res
	}
	if failure, failed := perftest.Classify(out[1].Outcome, out[0].Outcome); failed {
		res.Verdict, res.Measured, res.Expected = Fail, unmeasured, "a measurement"
		res.Cause = t.explain(failure, client, server)
		return res
	}
	m, err := measured(out[0])
	if err == nil && m.count == 0 {
		res.Verdict, res.Measured, res.Expected = Fail, unmeasured, "a measurement"
		res.Cause = "the time was over and no message had come through: let UDP port 4791 pass in both hosts' firewalls, and compare both ends' MTU with what lies between them"
		return res
	}
	if err != nil {
		res.Verdict, res.Measured, res.Cause = Fail, unmeasured, "perftest's report cannot be read: "+err.Error()
		return res
	}
	res.Measured = m.text + fmt.Sprintf(" (%s GID %d → %s GID %d, MTU %d)", client.device.Name, client.gid.Index, server.device.Name, server.gid.Index, m.report.MTU)
	need, bad := t.judge(test, m, from, to)
	res.Expected = need
	denied, errors, err := t.carried(ctx, before, m, from, to)
	switch {
	case err != nil:
		res.Verdict, res.Cause = Fail, err.Error()
	case denied != "":
		res.Verdict, res.Cause = Fail, "measured, but not by this port: "+denied
	case wrongGID(m.report, client) != "":
		res.Verdict, res.Cause = Fail, wrongGID(m.report, client)
	case bad != "":
		res.Verdict, res.Cause = Fail, bad
	case errors != "" && t.options.Lab:
		res.Verdict, res.Cause = Warn, errors+"; emulated machines answer late, so that a lab does not fail for it"
	case errors != "":
		res.Verdict, res.Cause = Fail, errors+": packets were lost or came late; look at cables, flow control and MTU"
	}
	return res
}

// bothEnds runs the server and then the client; out[0] is the client's.
func (t *trial) bothEnds(ctx context.Context, spec perftest.Spec, limit time.Duration, client, server port) (out [2]probe.VerbsOutcome, err error) {
	for try := range 2 {
		began := time.Now()
		listen, err := t.fleet.VerbsServe(ctx, server.host, probe.VerbsServeSpec{Test: spec, Limit: limit + 5*time.Second,
			End: perftest.End{Device: server.device.Name, Port: server.device.Port, GIDIndex: server.gid.Index}})
		if err != nil {
			return out, fmt.Errorf("host %s: %w", server.host, err)
		}
		spec.ControlPort = listen.Port
		out[0], err = t.fleet.VerbsRun(ctx, client.host, probe.VerbsRunSpec{Test: spec, Limit: limit,
			End: perftest.End{Device: client.device.Name, Port: client.device.Port, GIDIndex: client.gid.Index, Peer: controlAddress(server)}})
		if err != nil {
			return out, fmt.Errorf("host %s: %w", client.host, err)
		}
		if out[1], err = t.fleet.VerbsCollect(ctx, server.host, listen.ID); err != nil {
			return out, fmt.Errorf("host %s: %w", server.host, err)
		}
		f, failed := perftest.Classify(out[1].Outcome, out[0].Outcome)
		again := f.Cause == perftest.NoControl && time.Since(began) < 5*time.Second || f.Cause == perftest.PortBusy
		if try > 0 || !failed || !again {
			break
		}
	}
	return out, nil
}

// controlAddress is the server's own on this path, so that what the test needs beside RDMA is
// proven on the same cable. InfiniBand has no such address: the first declared one serves.
func controlAddress(server port) netip.Addr {
	if a := server.gid.Addr.Unmap(); a.IsValid() {
		return a
	}
	for _, p := range server.spec.Addresses {
		return p.Addr()
	}
	return netip.Addr{}
}

// explain puts the hosts' names into a failure, and what else is known of this path.
func (t *trial) explain(f perftest.Failure, client, server port) string {
	named := strings.NewReplacer("the server", server.host, "the client", client.host, "The server", server.host, "The client", client.host)
	s := strings.TrimSuffix(named.Replace(f.Sentence), ".") + ": " + named.Replace(f.Cure)
	switch f.Cause {
	case perftest.NoControl: // both ends were started by us, and the server was seen to listen
		return fmt.Sprintf("%s does not reach TCP port %d and those after it of %s on this link: nobody answers ARP for %s (see the ping check), or a firewall on %s refuses the port",
			client.host, probe.FirstControlPort, server.host, controlAddress(server), server.host)
	case perftest.NotInstalled:
		s += `; or declare it: ofed { stack = "inbox", packages = ["perftest"] }`
	case perftest.SilentData, perftest.RetriesExceeded:
		if client.mtu != server.mtu {
			s += fmt.Sprintf("; the ends' MTUs differ too (%d and %d)", client.link.MTU, server.link.MTU)
		}
	}
	if f.Said != "" {
		s += fmt.Sprintf(" (perftest on %s: %s)", map[perftest.Side]string{perftest.Client: client.host, perftest.Server: server.host}[f.Side], f.Said)
	}
	return s
}

// wrongGID compares what perftest says it used with what it was to use.
func wrongGID(r perftest.Report, client port) string {
	for _, l := range r.Local {
		if l.GID.IsValid() && client.gid.Addr.IsValid() && l.GID.Unmap() != client.gid.Addr.Unmap() {
			return fmt.Sprintf("perftest used GID %s, not %s: the table of %s moved meanwhile", l.GID.Unmap(), client.gid.Addr.Unmap(), client.device.Name)
		}
	}
	return ""
}

// size is a message's, for people.
func size(n int) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}
