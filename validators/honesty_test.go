package validators

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/nccl"
	"github.com/fabricform/fabricform/probe"
	"github.com/fabricform/fabricform/probe/perftest"
	"net/netip"
	"time"
)

func TestStalledTransferFails(t *testing.T) {
	w := newWires()
	on(w.fake, probe.CollectTCP, func(context.Context, string, string) (probe.TCPResult, error) {
		return probe.TCPResult{Bytes: 1e6, Gbps: 24, Streams: 4, Elapsed: 50 * time.Millisecond}, nil
	})
	if failed(measure(t, two(), w, Options{Only: []Check{CheckTCP}})) == "" {
		t.Error("50 ms of 1 s moved bytes: passed")
	}
}

// TestCounterResetIsNoProof has a driver whose counters fall with every measurement.
func TestCounterResetIsNoProof(t *testing.T) {
	w := newWires()
	var pings atomic.Uint64
	on(w.fake, probe.Ping, func(ctx context.Context, h string, p probe.PingSpec) ([]probe.PingResult, error) {
		pings.Add(1)
		return w.ping(ctx, h, p)
	})
	on(w.fake, probe.ReadCounters, func(context.Context, string, string) (probe.Counters, error) {
		n := 1e9 - 1e3*pings.Load()
		return probe.Counters{RxPackets: n, TxPackets: n, RxBytes: 1e3 * n, TxBytes: 1e3 * n}, nil
	})
	if failed(measure(t, two(), w, Options{Only: []Check{CheckPing}})) == "" {
		t.Error("counters fell to zero and the ping passed as proven")
	}
}

func TestOnlyTCPWithoutCarrierFails(t *testing.T) {
	w := newWires()
	w.snaps["b"].Links[0].Carrier = false
	if failed(measure(t, two(), w, Options{Only: []Check{CheckTCP}, Link: "rail0"})) == "" {
		t.Error("only tcp, no carrier: nothing failed")
	}
}

func TestZeroBytesFailWithoutThreshold(t *testing.T) {
	f := two()
	for _, l := range f.Links {
		l.SpeedGbps = 0
	}
	w := newWires()
	on(w.fake, probe.CollectTCP, func(context.Context, string, string) (probe.TCPResult, error) {
		return probe.TCPResult{Streams: 4}, nil
	})
	if failed(measure(t, f, w, Options{Only: []Check{CheckTCP}})) == "" {
		t.Error("no payload byte arrived: passed")
	}
}

// TestARateThatNothingJudgesIsNoPass: without a declared speed or threshold, TCP and RDMA bandwidths are shown and skipped.
func TestARateThatNothingJudgesIsNoPass(t *testing.T) {
	f, v := rdmaFabric(), newVerbs()
	for _, l := range f.Links {
		l.SpeedGbps, l.ExpectGbps, l.PortGroup = 0, 0, "p"
		l.Validate.TCP = fabric.TCPCheck{Enabled: true, Duration: time.Second, Streams: 4}
	}
	seen := map[Item]int{}
	for _, r := range measure(t, f, v, Options{Only: []Check{CheckTCP, CheckVerbs}}) {
		rate := r.Item == Throughput || r.Item == GroupThroughput || r.Item == PerftestRun && perftest.Test(r.Object).Bandwidth()
		if !rate {
			continue
		}
		seen[r.Item]++
		if r.Verdict != Skip || r.Skipped != NotDeclared || r.Cause != "speed_gbps is not declared" || len(r.Values) == 0 {
			t.Errorf("%+v", r)
		}
	}
	if seen[Throughput] != 4 || seen[GroupThroughput] == 0 || seen[PerftestRun] == 0 {
		t.Errorf("%v", seen)
	}
}

func rdma(addrs ...string) *facts.Snapshot {
	d := facts.RDMADevice{Name: "mlx5_0", Port: 1, State: "ACTIVE", LinkLayer: "Ethernet", Netdev: "eth0"}
	for i, a := range addrs {
		x := netip.MustParseAddr(a)
		d.GIDs = append(d.GIDs, facts.GID{Index: i, Addr: netip.AddrFrom16(x.As16()), Version: 1 + i%2, Netdev: "eth0"})
	}
	return &facts.Snapshot{Links: []host.Link{{Index: 1, Name: "eth0", Up: true}}, Addrs: []host.Addr{{Index: 1, Prefix: netip.MustParsePrefix("192.168.88.1/30")}}, RDMA: []facts.RDMADevice{d}}
}

func TestIPv6IntentReachesNCCL(t *testing.T) {
	f := two()
	h := f.Hosts[0]
	h.NICs[0].GID.Family = "ipv6"
	env, problems := nccl.Derive(f, h, rdma("fe80::1", "fe80::1", "fd00::1", "fd00::1"))
	for _, s := range env {
		if s.Name == "NCCL_IB_ADDR_FAMILY" {
			return
		}
	}
	t.Errorf("predicted for AF_INET6, yet not rendered: %v, problems %v", env, problems)
}

func TestDeclaredGIDIndexIsJudged(t *testing.T) {
	f := two()
	h := f.Hosts[0]
	h.NCCL.Env = map[string]string{"NCCL_IB_GID_INDEX": "0"}
	_, problems := nccl.Derive(f, h, rdma("fe80::1", "fe80::1", "192.168.88.1", "192.168.88.1"))
	if len(problems) == 0 {
		t.Error("nccl.env pins GID 0 (link-local, v1): no problem named")
	}
}

func TestNICPinIsRendered(t *testing.T) {
	f := two()
	h := f.Hosts[0]
	two := 1
	h.NICs[0].GID.Index = &two
	env, problems := nccl.Derive(f, h, rdma("fe80::1", "192.168.88.9", "192.168.88.1", "192.168.88.1"))
	t.Logf("%v %v", env, problems)
	for _, s := range env {
		if s.Name == "NCCL_IB_GID_INDEX" {
			return
		}
	}
	t.Errorf("gid.index of a NIC passes as if pinned, but NCCL is not told; it would take another")
}

func TestOneWrongGIDIsOneFailure(t *testing.T) {
	w := newWires()
	w.snaps["a"] = rdma("fe80::1", "fe80::1")
	w.snaps["a"].Links = newWires().snaps["a"].Links
	n := 0
	for _, r := range measure(t, two(), w, Options{Only: []Check{CheckNCCL}}) {
		if r.Verdict == Fail {
			n++
			t.Logf("%+v", r)
		}
	}
	if n != 1 {
		t.Errorf("%d failures for one wrong GID", n)
	}
}

func TestDeclaredHCAsNarrow(t *testing.T) {
	f := two()
	h := f.Hosts[0]
	s := rdma("fe80::1", "fe80::1", "192.168.88.1", "192.168.88.1")
	d := s.RDMA[0]
	d.Name, d.Netdev = "mlx5_1", "eth1"
	s.RDMA = append(s.RDMA, d)
	s.Links = newWires().snaps["a"].Links
	h.NCCL.HCA = append(h.NCCL.HCA, f.Links[0].Endpoints[0])
	env, _ := nccl.Derive(f, h, s)
	if env[0].Value != "=mlx5_0" {
		t.Errorf("hca = [a.rail0] is ignored: %s", env[0].Value)
	}
}
