package validators

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/probe"
	"github.com/fabricform/fabricform/probe/perftest"
)

// verbs adds RDMA to the hosts in memory: rdmaN on ethN, whose counters of packets move where
// device says the test truly ran.
type verbs struct {
	*wires
	rdma     map[string]probe.RDMACounters
	device   func(asked string) string
	gbps     float64
	count    int
	errors   string // a counter that rises on the receiver
	deaf     string // whose counters of packets rest: "sender", "receiver"
	releases map[string]perftest.Version
	outcome  perftest.ProgramRun // of the client, where it is not a report
	untimed  int                 // how many runs fail to measure the clock
	asked    []probe.VerbsRunSpec
}

func newVerbs() *verbs {
	v := &verbs{wires: newWires(), rdma: map[string]probe.RDMACounters{}, device: func(d string) string { return d }, gbps: 24.4, count: 1000}
	addr := map[string]string{"a0": "192.168.88.1", "b0": "192.168.88.2", "a1": "192.168.88.5", "b1": "192.168.88.6"}
	for h, snap := range v.snaps {
		for _, i := range []string{"0", "1"} {
			snap.RDMA = append(snap.RDMA, facts.RDMADevice{Name: "rdma" + i, Port: 1, State: "ACTIVE", LinkLayer: "Ethernet", Netdev: "eth" + i,
				GIDs: []facts.GID{{Index: 0, Addr: netip.MustParseAddr("fe80::1"), Version: 2}, {Index: 3, Addr: netip.MustParseAddr("::ffff:" + addr[h+i]), Version: 2}}})
			v.rdma[h+"rdma"+i] = probe.RDMACounters{"port_xmit_packets": 0, "port_rcv_packets": 0}
		}
	}
	on(v.fake, probe.VerbsVersion, func(_ context.Context, h string, _ perftest.Test) (perftest.Version, error) {
		return v.releases[h], nil
	})
	on(v.fake, probe.ServeVerbs, func(context.Context, string, probe.VerbsServeSpec) (probe.VerbsServeResult, error) {
		return probe.VerbsServeResult{ID: "x", Port: 18515}, nil
	})
	on(v.fake, probe.RunVerbs, v.run)
	on(v.fake, probe.CollectVerbs, func(context.Context, string, string) (probe.VerbsOutcome, error) { return probe.VerbsOutcome{}, nil })
	on(v.fake, probe.ReadRDMACounters, v.readRDMACounters)
	return v
}

func (v *verbs) readRDMACounters(_ context.Context, h string, p probe.RDMAPort) (probe.RDMACounters, error) {
	out := probe.RDMACounters{}
	maps.Copy(out, v.rdma[h+p.Device])
	return out, nil
}

func (v *verbs) run(_ context.Context, h string, s probe.VerbsRunSpec) (probe.VerbsOutcome, error) {
	if v.outcome.Exit != 0 || v.outcome.TimedOut || v.outcome.Missing {
		return probe.VerbsOutcome{ProgramRun: v.outcome}, nil
	}
	if v.untimed > 0 {
		v.untimed--
		return probe.VerbsOutcome{ProgramRun: perftest.ProgramRun{Stderr: []byte("Correlation coefficient r^2: 0.83 < 0.9\n")}}, nil
	}
	v.asked = append(v.asked, s)
	d := v.device(s.End.Device)
	packets := uint64(v.count) * uint64(max(s.Test.Size/4096, 1))
	if v.deaf != "sender" {
		v.rdma[h+d]["port_xmit_packets"] += packets
	}
	if v.deaf != "receiver" {
		v.rdma[peer(h)+d]["port_rcv_packets"] += packets
	}
	if v.errors != "" {
		v.rdma[peer(h)+d][v.errors] += 7
	}
	head := fmt.Sprintf(" Mtu             : 4096[B]\n Link type       : Ethernet\n GID index       : %d\n", s.End.GIDIndex)
	row := fmt.Sprintf(" #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99%% percentile[usec]   99.9%% percentile[usec] \n %d %d 1.50 9.00 1.83 1.90 0.10 2.50 4.00\n", s.Test.Size, v.count)
	if s.Test.Test.Bandwidth() {
		row = fmt.Sprintf(" #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n %d %d 0.00 %.2f 0.04\n", s.Test.Size, v.count, v.gbps)
	}
	return probe.VerbsOutcome{ProgramRun: perftest.ProgramRun{Stdout: []byte(head + row)}}, nil
}

func rdmaFabric() *fabric.Fabric {
	f := two()
	for _, l := range f.Links {
		l.Validate.Verbs = fabric.VerbsCheck{Enabled: true, Tests: []string{"send_lat", "write_bw"}, Duration: 3 * time.Second}
	}
	return f
}

func TestVerbs(t *testing.T) {
	five := 5 * time.Microsecond
	one := time.Microsecond
	for name, c := range map[string]struct {
		change func(*verbs, *fabric.Fabric)
		want   string // in the failures; "": none
		warns  string
	}{
		"all is well": {func(*verbs, *fabric.Fabric) {}, "", ""},
		"the other device carried it": {func(v *verbs, _ *fabric.Fabric) { v.device = func(string) string { return "rdma0" } },
			"rail1 verbs: latency 1.83 no_max_latency: measured, but not by this port: a.rdma1 sent 0 packets and b.rdma1 received 0 instead of at least 1000; they arrived at b.rdma0", ""},
		"the sender's counters rest":                {func(v *verbs, _ *fabric.Fabric) { v.deaf = "sender" }, "a.rdma0 sent 0 packets and b.rdma0 received 1000", ""},
		"the receiver's counters rest":              {func(v *verbs, _ *fabric.Fabric) { v.deaf = "receiver" }, "a.rdma0 sent 1000 packets and b.rdma0 received 0", ""},
		"slower than the goodput of 25 Gb/s allows": {func(v *verbs, _ *fabric.Fabric) { v.gbps = 22 }, "slower than declared: possible causes are too few PCIe lanes", ""},
		"as fast as an RDMA MTU of 1024 can be": {func(v *verbs, _ *fabric.Fabric) {
			for _, s := range v.snaps {
				s.Links[0].MTU, s.Links[1].MTU = 1500, 1500
			}
			v.gbps = 23.1
		}, "", ""},
		"error counters": {func(v *verbs, _ *fabric.Fabric) { v.errors = "out_of_sequence" }, "error counters rose: b.rdma0 out_of_sequence +7", ""},
		"no traffic":     {func(v *verbs, _ *fabric.Fabric) { v.count = 0 }, "before any message arrived", ""},
		"late":           {func(_ *verbs, f *fabric.Fabric) { f.Links[0].Validate.Verbs.MaxLatency = &one }, "rail0 verbs: latency 1.83 ≤ 1", ""},
		"in time":        {func(_ *verbs, f *fabric.Fabric) { f.Links[0].Validate.Verbs.MaxLatency = &five }, "", ""},
		"MTUs differ":    {func(v *verbs, _ *fabric.Fabric) { v.snaps["b"].Links[1].MTU = 1500 }, "rail1 verbs: a.rdma1 mtu 4096, b.rdma1 mtu 1024: the RDMA MTU depends on the MTU of a.rail1 (9000) and b.rail1 (1500)", ""},
		"releases differ": {func(v *verbs, _ *fabric.Fabric) {
			v.releases = map[string]perftest.Version{"a": {Major: 6, Minor: 10}, "b": {Major: 6, Minor: 23}}
		}, "", "6.10 on a, 6.23 on b"},
		"the address is not in the table": {func(v *verbs, _ *fabric.Fabric) { v.snaps["b"].RDMA[0].GIDs = v.snaps["b"].RDMA[0].GIDs[:1] },
			"no RoCE v2 entry for 192.168.88.2", ""},
		"declared and not there": {func(v *verbs, f *fabric.Fabric) {
			f.Hosts[1].RXE = []*fabric.RXE{{Name: "rxe0", Host: "b", NIC: fabric.NICRef{Host: "b", NIC: "rail0"}}}
			v.snaps["b"].RDMA = v.snaps["b"].RDMA[1:]
		}, "no RDMA device on eth0", ""},
		"nobody meant it":                    {func(v *verbs, _ *fabric.Fabric) { v.snaps["b"].RDMA, v.snaps["a"].RDMA = nil, nil }, "", ""},
		"port down":                          {func(v *verbs, _ *fabric.Fabric) { v.snaps["a"].RDMA[1].State = "DOWN" }, "the port of rdma1 is DOWN", ""},
		"perftest missing":                   {func(v *verbs, _ *fabric.Fabric) { v.outcome.Missing = true }, `perftest is not installed on a; install`, ""},
		"a clock that is disturbed twice":    {func(v *verbs, _ *fabric.Fabric) { v.untimed = 2 }, "", ""},
		"a clock that is disturbed for long": {func(v *verbs, _ *fabric.Fabric) { v.untimed = 3 }, "perftest on a cannot measure time", ""},
		"silence after all": {func(v *verbs, _ *fabric.Fabric) {
			v.outcome = perftest.ProgramRun{TimedOut: true, Stdout: []byte(" remote address: LID 0000 QPN 0x1 PSN 0x1\n")}
		}, "allow UDP port 4791", ""},
	} {
		t.Run(name, func(t *testing.T) {
			v, f := newVerbs(), rdmaFabric()
			c.change(v, f)
			results := measure(t, f, v, Options{Only: []Check{CheckVerbs}})
			got := failed(results)
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("%s", got)
			}
			warned := ""
			for _, r := range results {
				if r.Verdict == Warn {
					warned += values(r) + r.Cause
				}
			}
			if !strings.Contains(warned, c.warns) || c.warns == "" && warned != "" {
				t.Errorf("warned of %s", warned)
			}
			if len(results) < 2 {
				t.Errorf("%+v", results)
			}
		})
	}
}

// TestVerbsOfAVLANUseTheDeviceBelow: the GID is the VLAN's, and the MTU that of the NIC below.
func TestVerbsOfAVLANUseTheDeviceBelow(t *testing.T) {
	for name, c := range map[string]struct {
		change func(a, b *facts.Snapshot)
		want   string // in the failures; "": none
	}{
		"VLANs on both ends": {func(*facts.Snapshot, *facts.Snapshot) {}, ""},
		"the NIC below has another MTU": {func(_, b *facts.Snapshot) { b.Links[0].MTU = 1500 },
			"the RDMA MTU depends on the MTU of a.eth0 (9000) and b.eth0 (1500)"},
		"the address is that of the NIC below": {func(_, b *facts.Snapshot) { b.RDMA[0].GIDs[1].Netdev = "eth0" },
			"the GID table of rdma0 has no RoCE v2 entry for 192.168.88.2 of eth0.7"},
		"a bond of two cards, one down": {func(a, b *facts.Snapshot) {
			for _, s := range []*facts.Snapshot{a, b} {
				other := s.RDMA[0]
				other.Name, other.State = "another", "DOWN"
				s.RDMA = append([]facts.RDMADevice{other}, s.RDMA...)
			}
		}, ""},
		"the port below is down": {func(_, b *facts.Snapshot) { b.RDMA[0].State = "DOWN" }, "make sure that eth0 is up and has a carrier"},
	} {
		t.Run(name, func(t *testing.T) {
			v, f := newVerbs(), rdmaFabric()
			f.Links = f.Links[:1]
			for h, snap := range v.snaps {
				snap.Links = append(snap.Links, host.Link{Index: 9, Name: "eth0.7", Kind: "vlan", Parent: snap.Links[0].Index, MTU: 1500, Up: true, Carrier: true})
				f.Host(h).NICs[0].Netdev = "eth0.7"
				snap.RDMA[0].GIDs[1].Netdev = "eth0.7"
			}
			c.change(v.snaps["a"], v.snaps["b"])
			got := failed(measure(t, f, v, Options{Only: []Check{CheckVerbs}}))
			if c.want == "" && (got != "" || len(v.asked) == 0) || !strings.Contains(got, c.want) {
				t.Errorf("%s, %d tests", got, len(v.asked))
			}
			for _, s := range v.asked {
				if s.End.Device != "rdma0" || s.End.GIDIndex != 3 {
					t.Errorf("%+v", s.End)
				}
			}
		})
	}
}

// TestVerbsAreMeasuredInNCCLsLane: with the traffic class and the service level of the sending host, and the result says so.
func TestVerbsAreMeasuredInNCCLsLane(t *testing.T) {
	v, f := newVerbs(), rdmaFabric()
	f.Links = f.Links[:1]
	f.NCCL.Env = map[string]string{"NCCL_IB_TC": "0x6a"}
	f.Hosts[1].NCCL.Env = map[string]string{"NCCL_IB_TC": "160", "NCCL_IB_SL": "3"}
	results := measure(t, f, v, Options{Only: []Check{CheckVerbs}})
	want := map[string][2]int{"a": {106, 0}, "b": {160, 3}}
	for _, r := range results {
		if s := r.Setup; s == nil || s.TrafficClass == nil || *s.TrafficClass != want[r.Host][0] || *s.ServiceLevel != want[r.Host][1] {
			t.Errorf("%s: %+v", r.Host, s)
		}
	}
	seen := map[[2]int]int{}
	for _, s := range v.asked {
		seen[[2]int{s.Test.TrafficClass, s.Test.ServiceLevel}]++
	}
	if len(results) != 4 || seen[want["a"]] != 2 || seen[want["b"]] != 2 {
		t.Errorf("%d results, %v", len(results), seen)
	}
	v.outcome = perftest.ProgramRun{Exit: 1, Stderr: []byte("ib_send_lat: unrecognized option '--tclass=106'\n")}
	if got := failed(measure(t, f, v, Options{Only: []Check{CheckVerbs}})); !strings.Contains(got, "perftest on a is too old to set a traffic class") {
		t.Error(got)
	}
}
