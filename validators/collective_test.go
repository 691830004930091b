package validators

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/nccl/launch"
	"github.com/fabricform/fabricform/probe"
	"github.com/fabricform/fabricform/probe/collective"
)

// choir is two hosts that have ranks, which print what says and send what they should: over RDMA where the
// hosts have devices, and else over sockets.
type choir struct {
	*wires
	has     map[string]probe.CollectiveHas
	says    func(host string, rank int) (lines, log string, exit int)
	silent  bool   // nothing passes the fabric's ports
	idle    string // an RDMA port that sends nothing, as device:port
	packets uint64 // that each other sends; what sound says takes 1.22 million of a host
	sent    map[string]uint64
	refuses string
	hangs   string // a host whose ranks end when they are stopped

	lock    sync.Mutex
	specs   map[string]probe.CollectiveSpec
	stopped chan struct{} // made when it is first waited for: the clock's bubble knows its own alone
}

func newChoir() *choir { return choirOf(newWires()) }

func newRDMAChoir() *choir { return choirOf(newVerbs().wires) }

func choirOf(w *wires) *choir {
	has := probe.CollectiveHas{Look: collective.Software{Torch: "2.7.0", NCCL: "2.26.2", HasNCCL: true, GPUs: 2}, Port: 29500}
	c := &choir{wires: w, sent: map[string]uint64{}, packets: 7e5, has: map[string]probe.CollectiveHas{"a": has, "b": has}, specs: map[string]probe.CollectiveSpec{}}
	c.says = func(string, int) (string, string, int) { return sound, soundLog, 0 }
	on(c.fake, probe.InspectCollective, func(_ context.Context, host string, _ probe.CollectiveLook) (probe.CollectiveHas, error) {
		return c.has[host], nil
	})
	on(c.fake, probe.RunCollective, c.run)
	on(c.fake, probe.StopCollective, c.stop)
	on(c.fake, probe.ReadRDMACounters, c.readRDMACounters)
	on(c.fake, probe.SendTCP, c.sendTCP)
	return c
}

// soundLog is what a rank logs where all is well.
const soundLog = "n:1:1 [0] NCCL INFO comm 0x1 rank 0 nranks 4 - Init COMPLETE\n"

// sound is what a rank prints where all is well: 10 passes of a GB in one second, 15 GB/s by four ranks.
const sound = `{"event":"connected"}
{"event":"values","op":"all_reduce","count":9,"wrong":0}
{"event":"values","op":"broadcast","root":0,"count":9,"wrong":0}
{"event":"values","op":"broadcast","root":3,"count":9,"wrong":0}
{"event":"values","op":"send_recv","count":9,"wrong":0}
{"event":"sweep","op":"all_reduce","bytes":1024,"iterations":20,"seconds":0.001}
{"event":"sweep","op":"all_reduce","bytes":1000000000,"iterations":10,"seconds":1}
{"event":"done"}
`

func (c *choir) stop(_ context.Context, host, _ string) (none struct{}, err error) {
	if host == c.hangs {
		close(c.stopped)
	}
	return none, nil
}

func (c *choir) run(_ context.Context, host string, s probe.CollectiveSpec) (out []probe.CollectiveRank, err error) {
	c.lock.Lock()
	c.specs[host] = s
	if host == c.hangs {
		c.stopped = make(chan struct{})
	}
	c.lock.Unlock()
	if host == c.hangs {
		<-c.stopped
	}
	for i := range s.Ranks {
		lines, log, exit := c.says(host, s.First+i)
		r := probe.CollectiveRank{Rank: s.First + i, Out: []byte(lines), Log: []byte(log), Exit: exit}
		if r.Stopped = host == c.hangs; r.Stopped {
			r.Out, r.Exit = nil, -1
		}
		out = append(out, r)
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	for _, d := range c.snaps[host].RDMA {
		if at := fmt.Sprintf("%s:%d", d.Name, d.Port); at != c.idle {
			c.sent[host+at] += c.packets
		}
	}
	if !c.silent && len(c.snaps[host].RDMA) == 0 {
		c.move(host, "eth0", 1e6, 11e9)
	}
	return out, nil
}

func (c *choir) readRDMACounters(_ context.Context, host string, p probe.RDMAPort) (probe.RDMACounters, error) {
	return probe.RDMACounters{"port_xmit_packets": c.sent[fmt.Sprintf("%s%s:%d", host, p.Device, p.Port)]}, nil
}

func (c *choir) sendTCP(_ context.Context, host string, s probe.TCPSendSpec) (probe.TCPResult, error) {
	if host == c.refuses {
		return probe.TCPResult{}, errors.New("connection refused")
	}
	if s.Netdev != "" || s.Source.IsValid() {
		return probe.TCPResult{}, errors.New("bound, which NCCL is not")
	}
	return probe.TCPResult{}, nil
}

// sing judges a fabric whose links ask for collectives.
func (c *choir) sing(t *testing.T, change func(*fabric.Fabric)) string {
	t.Helper()
	f := two()
	for _, l := range f.Links {
		l.Validate.NCCL = fabric.NCCLCheck{Enabled: true, Run: "torch"}
	}
	if change != nil {
		change(f)
	}
	return spoken(measure(t, f, c, Options{Only: []Check{CheckNCCL}}))
}

// spoken are the results of jobs, a line for each.
func spoken(results []Result) string {
	var out strings.Builder
	for _, r := range results {
		if r.Item == NCCLPort || r.Item == SocketInterface {
			continue
		}
		over := ""
		if s := r.Setup; s != nil {
			over = fmt.Sprintf("%d ranks, %s, %s %s", s.Ranks, strings.Join(s.Software, ", "), s.Transport, strings.Join(s.Devices, ","))
		}
		fmt.Fprintf(&out, "%s %s %s: %s (%s) %s%s; %s\n", r.Verdict, cmp.Or(r.Host, strings.Join(r.Hosts, "+")), strings.TrimSpace(r.Object+" "+string(r.Item)), values(r), over, r.Skipped, r.Cause, r.Cure)
	}
	return out.String()
}

func demands(least float64) func(*fabric.Fabric) {
	return func(f *fabric.Fabric) { f.Links[0].Validate.NCCL.MinBusbwGBs = &least }
}

func TestCollectivesAreJudged(t *testing.T) {
	// Each case says what must be told; the first line is a sound job's.
	replace := func(old, with string) func(string, int) (string, string, int) {
		return func(host string, rank int) (string, string, int) {
			if rank == 2 {
				return strings.Replace(sound, old, with, 1), soundLog, 0
			}
			return sound, soundLog, 0
		}
	}
	for name, c := range map[string]struct {
		choir  func(*choir)
		fabric func(*fabric.Fabric)
		want   []string
	}{
		"sound": {nil, nil, []string{"pass a+b ranks: ranks 4 (4 ranks, torch 2.7.0, NCCL 2.26.2, sockets eth0)", "pass a+b broadcast collective_data: values_wrong 0 of 72 = 0 (4 ranks",
			"pass a+b all_reduce bus_bandwidth: bus_bandwidth 0.03072 at 1024 B, bus_bandwidth 15 at 1000000000 B no_min_busbw"}},
		"fast enough": {nil, demands(14.9), []string{"pass a+b all_reduce bus_bandwidth: ", "≥ 14.9"}},
		"too slow":    {nil, demands(15.1), []string{"fail a+b all_reduce bus_bandwidth: ", "≥ 15.1", "slower than required"}},
		"elsewhere":   {func(c *choir) { c.silent = true }, nil, []string{"fail a+b all_reduce bus_bandwidth: ", "measured, but not over the fabric: host a: eth0 sent "}},
		"wrong values": {func(c *choir) {
			c.says = replace(`"op":"send_recv","count":9,"wrong":0`, `"op":"send_recv","count":9,"wrong":2,"at":7,"got":5,"want":6`)
		}, nil, []string{"fail a+b send_recv collective_data: values_wrong 2 of 9", "rank 2 on host b: 2 of 9 values are wrong, the first at index 7 (5 instead of 6)", "pass a+b all_reduce collective_data"}},
		"silent on an operation": {func(c *choir) { c.says = replace(`"op":"all_reduce","count"`, `"op":"other","count"`) }, nil,
			[]string{"fail a+b all_reduce collective_data: unmeasured", "rank 2 on host b did not report this operation"}},
		"not done": {func(c *choir) { c.says = replace(`{"event":"done"}`, ``) }, nil, []string{"fail a+b job: unmeasured", "rank 2 on host b: exited with status 0 after all ranks had connected and gave no reason"}},
		"not begun": {func(c *choir) {
			c.says = func(string, int) (string, string, int) { return "hello\n", soundLog, 7 }
		}, nil, []string{"rank 0 on host a: exited with status 7 before all ranks had connected and gave no reason; unexpected lines in its output: 1"}},
		"a sweep that ends early": {func(c *choir) {
			c.says = func(string, int) (string, string, int) {
				return strings.Replace(sound, `{"event":"done"}`, `{"event":"stopped","bytes":536870912,"seconds":20.5}`+"\n"+`{"event":"done"}`, 1), soundLog, 0
			}
		}, nil, []string{"bus_bandwidth 15 at 1000000000 B no_min_busbw, pass_time 20.5 at 536870912 B"}},
		"no log": {func(c *choir) {
			c.says = func(host string, _ int) (string, string, int) {
				return sound, map[string]string{"a": soundLog, "b": "torch says hello\n"}[host], 0
			}
		}, nil, []string{"warn b log: unmeasured () rank 2 finished, but the log has no line from NCCL"}},
		"one fails": {func(c *choir) {
			c.hangs = "a"
			c.says = func(_ string, rank int) (string, string, int) {
				return fmt.Sprintf(`{"event":"failed","stage":"connect","kind":"DistBackendError","text":"rank %d cannot"}`, rank), "b:1:1 [0] NCCL INFO Bootstrap : Using docker0:172.17.0.1<0>\n", 1
			}
		}, nil, []string{"fail a+b job: unmeasured () rank 2 on host b: DistBackendError: rank 2 cannot (4 of 4 ranks failed)", "fail b log: Bootstrap over a local interface"}},
		"no GPU": {func(c *choir) {
			c.has["a"], c.has["b"] = probe.CollectiveHas{}, probe.CollectiveHas{Problem: "python3 is not installed"}
		}, nil, []string{"skip a+b job:  () no_gpuno host has a GPU that CUDA can use"}},
		"no GPU on one": {func(c *choir) { c.has["b"] = probe.CollectiveHas{Problem: "python3 is not installed"} }, nil,
			[]string{"fail a+b job: unmeasured", "host b has no GPU that CUDA can use, but other hosts do"}},
		"no GPU, and a problem": {func(c *choir) {
			c.has["a"], c.has["b"] = probe.CollectiveHas{Problem: "this Python has no torch"}, probe.CollectiveHas{}
			c.snaps["a"].GPUs = []facts.GPU{{}}
		}, nil, []string{"fail a+b job: unmeasured", "host a: this Python has no torch", "host b has no GPU that CUDA can use"}},
		"no torch": {func(c *choir) {
			c.has["b"] = probe.CollectiveHas{Problem: "this Python has no torch"}
			c.snaps["b"].GPUs = []facts.GPU{{}}
		}, nil, []string{"fail a+b job: unmeasured", "host b: this Python has no torch; install torch there, or name another Python with validate.nccl.python"}},
		"blind torch": {func(c *choir) {
			c.has["b"] = probe.CollectiveHas{Look: collective.Software{Torch: "2.7.0+cpu", HasNCCL: true}}
			c.snaps["b"].GPUs = []facts.GPU{{}}
		}, nil, []string{"fail a+b job: unmeasured", "the driver lists GPUs (1), but torch 2.7.0+cpu cannot use them"}},
		"two NCCLs": {func(c *choir) {
			h := c.has["b"]
			h.Look.NCCL = "2.21.5"
			c.has["b"] = h
		}, nil, []string{"fail a+b job: unmeasured", "different NCCL versions on the hosts (2.21.5, 2.26.2)"}},
		"firewall":    {func(c *choir) { c.refuses = "b" }, nil, []string{"fail a+b job: unmeasured", "b (192.168.88.2 on eth0) cannot connect to TCP port 40001 of a (192.168.88.1 on eth0)", "connection refused"}},
		"storage":     {nil, func(f *fabric.Fabric) { f.Links[0].Role, f.Links[1].Role = "storage", "storage" }, []string{""}},
		"lost":        {func(c *choir) { c.snaps["b"] = nil }, nil, []string{"skip a+b job:  () host_unreachablehost b could not be reached"}},
		"bad setting": {nil, func(f *fabric.Fabric) { f.NCCL.SocketIfname = "eth7" }, []string{"fail a settings", "skip a+b job:  () bad_settingsthe settings of host a cannot work: NCCL_SOCKET_IFNAME is \"eth7\""}},
	} {
		all := newChoir()
		if c.choir != nil {
			c.choir(all)
		}
		got := all.sing(t, c.fabric)
		for _, want := range c.want {
			if !strings.Contains(got, want) || want == "" && got != "" {
				t.Errorf("%s: %q is not in\n%s", name, want, got)
			}
		}
		if sound := name == "sound" || name == "fast enough"; sound && (strings.Contains(got, "fail") || strings.Contains(got, "warn")) {
			t.Errorf("%s:\n%s", name, got)
		}
	}
}

// The links carry 2 x 25 Gb/s, 6.25 GB/s, of which RDMA must reach 5.
func TestCollectivesOverRDMAAreJudged(t *testing.T) {
	takes := func(seconds string) func(*choir) {
		return func(c *choir) {
			c.says = func(string, int) (string, string, int) {
				return strings.Replace(sound, `"iterations":10,"seconds":1}`, `"iterations":10,"seconds":`+seconds+`}`, 1), soundLog, 0
			}
		}
	}
	only := func(devices string) func(*fabric.Fabric) {
		return func(f *fabric.Fabric) { f.NCCL.Env = map[string]string{"NCCL_IB_HCA": devices} }
	}
	dual := func(c *choir) { // both rails are ports of one device, as their counters are its
		for _, h := range []string{"a", "b"} {
			c.snaps[h].RDMA[1].Name, c.snaps[h].RDMA[1].Port = "rdma0", 2
		}
		c.idle = "rdma0:2"
	}
	for name, c := range map[string]struct {
		choir  func(*choir)
		fabric func(*fabric.Fabric)
		want   string
	}{
		"sound":               {nil, nil, "pass a+b ranks: ranks 4 (4 ranks, torch 2.7.0, NCCL 2.26.2, RDMA rdma0,rdma1)"},
		"fast enough":         {takes("2.99"), nil, "pass a+b all_reduce bus_bandwidth: bus_bandwidth 0.03072 at 1024 B, bus_bandwidth 5.017 at 1000000000 B ≥ 5 (4 ranks"},
		"79 %":                {takes("3.04"), nil, "fail a+b all_reduce bus_bandwidth: bus_bandwidth 0.03072 at 1024 B, bus_bandwidth 4.934 at 1000000000 B ≥ 5"},
		"idle rail":           {func(c *choir) { c.idle = "rdma1:1" }, nil, "measured, but not over the fabric: host a: its RDMA devices sent 700000 packets instead of at least 12207"},
		"idle rail, named":    {func(c *choir) { c.idle = "rdma1:1"; c.packets = 14e5 }, nil, "measured, but not over the fabric: host a: rdma1:1 carried none of the traffic"},
		"idle port":           {func(c *choir) { dual(c); c.packets = 14e5 }, nil, "measured, but not over the fabric: host a: rdma0:2 carried none of the traffic"},
		"a rail that is left": {func(c *choir) { c.idle = "rdma1:1"; c.packets = 14e5 }, only("=rdma0"), "pass a+b all_reduce bus_bandwidth: bus_bandwidth 0.03072 at 1024 B, bus_bandwidth 15 at 1000000000 B ≥ 2.5"},
		"a rail that is down": {func(c *choir) {
			c.idle = "rdma1:1"
			c.packets = 14e5
			c.snaps["a"].RDMA[1].State, c.snaps["b"].RDMA[1].State = "DOWN", "DOWN"
		}, nil, "pass a+b all_reduce bus_bandwidth: bus_bandwidth 0.03072 at 1024 B, bus_bandwidth 15 at 1000000000 B"},
		"a threshold declared": {nil, demands(15.1), "fail a+b all_reduce bus_bandwidth: bus_bandwidth 0.03072 at 1024 B, bus_bandwidth 15 at 1000000000 B ≥ 15.1"},
	} {
		all := newRDMAChoir()
		if c.choir != nil {
			c.choir(all)
		}
		if got := all.sing(t, c.fabric); !strings.Contains(got, c.want) || strings.HasPrefix(c.want, "pass") && strings.Contains(got, "fail") {
			t.Errorf("%s: %q is not in\n%s", name, c.want, got)
		}
	}
}

// What a fabric's hosts need goes along where no file of theirs says it.
func TestRanksAreGivenWhatNoFileSays(t *testing.T) {
	no, block := false, fabric.Block{Pos: fabric.Pos{File: "f.hcl", Line: 1}}
	for name, c := range map[string]struct {
		nccl fabric.NCCL
		want string
	}{
		"a file in its place":   {fabric.NCCL{Block: block}, `null`},
		"a file elsewhere":      {fabric.NCCL{Block: block, File: "/etc/x/nccl.conf"}, `{"NCCL_CONF_FILE":"/etc/x/nccl.conf"}`},
		"no block":              {fabric.NCCL{}, `{"NCCL_CROSS_NIC":"0","NCCL_IB_DISABLE":"1","NCCL_SOCKET_IFNAME":"=eth0"}`},
		"no file":               {fabric.NCCL{Write: &no}, `{"NCCL_CROSS_NIC":"0","NCCL_IB_DISABLE":"1","NCCL_SOCKET_IFNAME":"=eth0"}`},
		"what is not of NCCL's": {fabric.NCCL{Write: &no, Env: map[string]string{"GLOO_SOCKET_IFNAME": "eth0"}}, `{"NCCL_CROSS_NIC":"0","NCCL_IB_DISABLE":"1","NCCL_SOCKET_IFNAME":"=eth0"}`},
	} {
		all := newChoir()
		all.sing(t, func(f *fabric.Fabric) { f.NCCL = c.nccl })
		s := all.specs["b"]
		got, err := json.Marshal(s.Env)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if s.First != 2 || s.Ranks != 2 || s.Job.World != 4 || s.Job.Master.String() != "192.168.88.1:29500" || s.Job.Check() != nil {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

func TestHostsThatNoTrainingPathJoinsAreJobsOfTheirOwn(t *testing.T) {
	f := &fabric.Fabric{}
	link := func(run, a, b string) {
		f.Links = append(f.Links, &fabric.Link{Name: a + b, Role: "training", Endpoints: []fabric.NICRef{{Host: a, NIC: "x"}, {Host: b, NIC: "x"}},
			Validate: fabric.Validate{NCCL: fabric.NCCLCheck{Enabled: true, Run: run}}})
	}
	for h := range strings.FieldsSeq("a b c d e f g") {
		f.Hosts = append(f.Hosts, &fabric.Host{Name: h})
	}
	link("torch", "c", "d")
	link("torch", "b", "a")
	link("torch", "d", "e")
	link("none", "f", "g")
	var got []string
	for _, j := range (&run{fabric: f}).jobs() {
		got = append(got, strings.Join(j.names(), ""))
	}
	// A job stands with the host that its paths were first joined at.
	if text := strings.Join(got, " "); text != "ab cde" {
		t.Error(text)
	}
}

func TestARailThatCarriesNothingIsNamed(t *testing.T) {
	h := launch.Host{RDMA: true}
	counts := func(a, b uint64) moves {
		return moves{rdma: map[rdmaKey]probe.RDMACounters{{"a", "mlx5_0", 1}: {"port_xmit_packets": a}, {"a", "mlx5_1", 1}: {"port_xmit_packets": b}}}
	}
	const payload = 4096 * 1e6
	for want, after := range map[string]moves{
		"": counts(7e5, 7e5), "mlx5_1:1 carried none of the traffic": counts(14e5, 1000), "sent 800000 packets instead of at least 1000000": counts(4e5, 4e5),
		"no packet counters": {rdma: map[rdmaKey]probe.RDMACounters{{"a", "mlx5_0", 1}: {}}},
	} {
		if got := proveSent(h, counts(0, 0), after, payload).denied; !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// stopping tells how many hosts are being asked to stop, which never answer.
type stopping struct {
	*wires
	asked, gone atomic.Int32
}

func (s *stopping) stop(ctx context.Context, _, _ string) (none struct{}, err error) {
	s.asked.Add(1)
	<-ctx.Done()
	s.gone.Add(1)
	return none, ctx.Err()
}

func TestAJobsPartsAreStoppedAfterAWhile(t *testing.T) {
	for late, want := range map[bool]int32{true: 2, false: 0} {
		synctest.Test(t, func(t *testing.T) {
			s := &stopping{wires: newWires()}
			on(s.fake, probe.StopCollective, s.stop)
			l := (&job{run: &run{fleet: s}, hosts: []launch.Host{{Name: "a"}, {Name: "b"}}}).lateStop(t.Context(), "id")
			l.begin()
			l.begin()
			if late {
				time.Sleep(untilStopped + time.Second)
			}
			l.end()
			if s.asked.Load() != want || s.gone.Load() != want {
				t.Errorf("late is %v: %d hosts were asked to stop, %d questions are over, want %d", late, s.asked.Load(), s.gone.Load(), want)
			}
		})
	}
}

// TestAListenerThatLiesChoosesNoBytes: the first bytes of a stream are the operator's, whatever the receiver answers.
func TestAListenerThatLiesChoosesNoBytes(t *testing.T) {
	all := newChoir()
	listen := all.fake[string(probe.ListenTCP)]
	var mu sync.Mutex
	asked, sent := map[string]bool{}, 0
	all.fake[string(probe.ListenTCP)] = func(ctx context.Context, host string, raw []byte) (any, error) {
		var s probe.TCPListenSpec
		if err := json.Unmarshal(raw, &s); err != nil {
			return nil, err
		}
		if _, err := listen(ctx, host, raw); err != nil {
			return nil, err
		}
		mu.Lock()
		defer mu.Unlock()
		asked[s.Token] = true
		return map[string]any{"id": "x", "port": 40001, "token": "FLUSHALL\r\n"}, nil
	}
	send := all.fake[string(probe.SendTCP)]
	all.fake[string(probe.SendTCP)] = func(ctx context.Context, host string, raw []byte) (any, error) {
		var s probe.TCPSendSpec
		if err := json.Unmarshal(raw, &s); err != nil {
			return nil, err
		}
		mu.Lock()
		defer mu.Unlock()
		if sent++; !asked[s.Token] || s.Token == "" {
			t.Errorf("%s writes %q", host, s.Token)
		}
		delete(asked, s.Token)
		return send(ctx, host, raw)
	}
	f := two()
	for _, l := range f.Links {
		l.Validate.NCCL = fabric.NCCLCheck{Enabled: true, Run: "torch"}
	}
	if measure(t, f, all, Options{Only: []Check{CheckNCCL, CheckTCP}}); sent < 4 {
		t.Errorf("%d streams", sent)
	}
}

// TestCollectivesRunWithoutHostsThatWereNotReached: on a cluster, jobs hold some of the hosts at any time.
func TestCollectivesRunWithoutHostsThatWereNotReached(t *testing.T) {
	link := func(a, b string) fabric.Path {
		return fabric.Path{Name: a + b, Role: "training", Link: &fabric.Link{Name: a + b}, Endpoints: [2]fabric.NICRef{{Host: a}, {Host: b}}}
	}
	on := func(n *fabric.Network, a, b string) fabric.Path {
		p := link(a, b)
		p.Link, p.Network = nil, n
		return p
	}
	rail := &fabric.Network{Name: "rail"}
	for name, c := range map[string]struct {
		paths []fabric.Path
		lost  string
		want  string // the hosts of each job
	}{
		"all are there":                            {[]fabric.Path{link("a", "b"), link("c", "d")}, "", "a b|c d"},
		"a chain is cut at its end":                {[]fabric.Path{link("a", "b"), link("b", "c")}, "c", "a b"},
		"a chain is cut in the middle":             {[]fabric.Path{link("a", "b"), link("b", "c"), link("c", "d"), link("d", "e")}, "c", "a b|d e"},
		"nobody remains who could talk":            {[]fabric.Path{link("a", "b"), link("b", "c")}, "b", ""},
		"members of a network stay joined by it":   {[]fabric.Path{on(rail, "a", "b"), on(rail, "b", "c"), on(rail, "c", "d"), on(rail, "d", "a")}, "bd", "a c"},
		"a network and a link, whose host is lost": {[]fabric.Path{on(rail, "a", "b"), link("b", "c"), link("c", "d")}, "c", "a b"},
	} {
		r := &run{fabric: &fabric.Fabric{}}
		for _, h := range "abcde" {
			r.fabric.Hosts = append(r.fabric.Hosts, &fabric.Host{Name: string(h)})
		}
		for i := range c.paths {
			c.paths[i].Validate.NCCL = fabric.NCCLCheck{Enabled: true, Run: "torch"}
		}
		var got []string
		for _, j := range r.joined(c.paths, func(host string) bool { return !strings.Contains(c.lost, host) }) {
			got = append(got, strings.Join(j.names(), " "))
		}
		if text := strings.Join(got, "|"); text != c.want {
			t.Errorf("%s: jobs of %q, want %q", name, text, c.want)
		}
	}

	c := newChoir()
	f := two()
	third := *f.Hosts[1]
	third.Name = "c"
	f.Hosts = append(f.Hosts, &third)
	f.Links = nil
	f.Networks = []*fabric.Network{{Name: "rail", Role: "training", Members: []fabric.NICRef{{Host: "a", NIC: "rail0"}, {Host: "b", NIC: "rail0"}, {Host: "c", NIC: "rail0"}},
		Validate: fabric.Validate{NCCL: fabric.NCCLCheck{Enabled: true, Run: "torch"}}}}
	got := spoken(measure(t, f, c, Options{Only: []Check{CheckNCCL}, Unreachable: map[string]string{"c": "busy (job 7): not read"}}))
	for _, want := range []string{"pass a+b ranks: ", "skip c job:", "host c could not be reached: busy (job 7): not read; the collectives ran without it"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
}
