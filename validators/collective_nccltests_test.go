package validators

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/probe"
	"github.com/fabricform/fabricform/probe/collective"
	"github.com/fabricform/fabricform/probe/mpi"
)

// orchestra is wires whose first host has an mpirun, which asks for a daemon on each other host and prints a table.
type orchestra struct {
	*wires
	has     map[string]probe.LaunchHas
	asks    []probe.LaunchAsk
	ended   func(collective.TestRun) probe.LaunchEnded
	refuses string // what the daemon's host says
	daemon  probe.LaunchEnded
	lost    error // of the first host, in the middle of a launch

	lock    sync.Mutex
	runs    []string
	specs   []probe.LaunchSpec
	daemons []string
	told    []probe.LaunchTold
	left    map[string]chan probe.LaunchAsk // of a launch
	heard   map[string]chan struct{}        // an answer
}

func newOrchestra() *orchestra {
	has := probe.LaunchHas{MPI: mpi.Release{Kind: mpi.OpenMPI, Version: "4.1.4"}, GPUs: 2}
	o := &orchestra{wires: newWires(), has: map[string]probe.LaunchHas{"a": has, "b": has}, left: map[string]chan probe.LaunchAsk{}, heard: map[string]chan struct{}{}}
	for _, host := range []string{"a", "b"} {
		o.snaps[host].GPUs = []facts.GPU{{}, {}}
	}
	on(o.fake, probe.InspectLaunch, o.inspect)
	on(o.fake, probe.Launch, o.launch)
	on(o.fake, probe.AwaitShell, o.awaitShell)
	on(o.fake, probe.AnswerShell, o.answerShell)
	on(o.fake, probe.RunDaemon, o.runDaemon)
	on(o.fake, probe.StopCollective, func(context.Context, string, string) (struct{}, error) { return struct{}{}, nil })
	on(o.fake, probe.SendTCP, func(context.Context, string, probe.TCPSendSpec) (probe.TCPResult, error) { // reaches whom it should
		return probe.TCPResult{}, nil
	})
	o.asks = []probe.LaunchAsk{{Number: 1, Host: "192.168.88.2", Words: []string{"orted"}}}
	o.ended = func(r collective.TestRun) probe.LaunchEnded { return probe.LaunchEnded{Out: []byte(printed(r, 4, 0))} }
	return o
}

// printed is a table of n ranks that take a second for each GB.
func printed(r collective.TestRun, n, wrong int) string {
	var out strings.Builder
	fmt.Fprintln(&out, "# nccl-tests version 2.17.8 nccl-headers=22809 nccl-library=22809")
	for i := range n {
		fmt.Fprintf(&out, "#  Rank %2d Group  0 Pid 1 on h device  0 [0000:02:00] NVIDIA H200\n", i)
	}
	fmt.Fprintln(&out, "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong")
	for bytes := r.Min; bytes <= r.Max; bytes *= int64(r.Factor) {
		t := float64(bytes) / 1e3
		fmt.Fprintf(&out, "%d 1 float sum -1 %g 1 1.5 %d %g 1 1.5 N/A\n", bytes, t, wrong, t)
	}
	fmt.Fprintf(&out, "# Out of bounds values : %d OK\n", wrong)
	return out.String()
}

func (o *orchestra) inspect(_ context.Context, host string, l probe.LaunchLook) (probe.LaunchHas, error) {
	h := o.has[host]
	h.GPUs = min(h.GPUs, l.GPUs)
	return h, nil
}

// asking is a launch's channel of questions, whoever comes first.
func (o *orchestra) asking(id string) (chan probe.LaunchAsk, chan struct{}) {
	o.lock.Lock()
	defer o.lock.Unlock()
	if o.left[id] == nil {
		o.left[id], o.heard[id] = make(chan probe.LaunchAsk), make(chan struct{}, 10)
	}
	return o.left[id], o.heard[id]
}

func (o *orchestra) launch(_ context.Context, host string, s probe.LaunchSpec) (probe.LaunchEnded, error) {
	asks, heard := o.asking(s.ID)
	o.lock.Lock()
	o.runs = append(o.runs, fmt.Sprintf("%s %s %d-%d n%d r%d", host, s.Run.Program, s.Run.Min, s.Run.Max, s.Run.Iterations, s.Run.Root))
	o.specs = append(o.specs, s)
	o.lock.Unlock()
	for _, a := range o.asks {
		asks <- a
		<-heard
	}
	close(asks)
	for _, h := range []string{"a", "b"} {
		o.move(h, "eth0", 1e6, 100e9)
	}
	return o.ended(s.Run), o.lost
}

func (o *orchestra) awaitShell(_ context.Context, _, id string) (probe.LaunchAsk, error) {
	asks, _ := o.asking(id)
	a, more := <-asks
	return probe.LaunchAsk{Over: !more, Number: a.Number, Host: a.Host, Words: a.Words}, nil
}

func (o *orchestra) answerShell(_ context.Context, _ string, t probe.LaunchTold) (none struct{}, err error) {
	_, heard := o.asking(t.ID)
	o.lock.Lock()
	o.told = append(o.told, t)
	o.lock.Unlock()
	heard <- struct{}{}
	return none, nil
}

func (o *orchestra) runDaemon(_ context.Context, host string, s probe.DaemonSpec) (probe.LaunchEnded, error) {
	o.lock.Lock()
	defer o.lock.Unlock()
	settings, err := json.Marshal(s.RankSettings)
	o.daemons = append(o.daemons, fmt.Sprintf("%s %s %s", host, s.Words, settings))
	if o.refuses != "" {
		err = errors.New(o.refuses)
	}
	e := o.daemon
	e.Log = []byte(host + ":1:1 [0] NCCL INFO x\n")
	return e, err
}

// play judges a fabric whose links ask for nccl-tests.
func (o *orchestra) play(t *testing.T, change func(*fabric.Fabric)) string {
	t.Helper()
	f := two()
	for _, l := range f.Links {
		l.Validate.NCCL = fabric.NCCLCheck{Enabled: true, Run: "nccl-tests", NCCLTests: "/opt/nccl-tests/build", MPIRun: "/opt/ompi/bin/mpirun"}
	}
	if change != nil {
		change(f)
	}
	return spoken(settle(t, f, o, Options{Only: []Check{CheckNCCL}}))
}

func TestNCCLTestsAreJudged(t *testing.T) {
	says := func(out string, e probe.LaunchEnded) func(*orchestra) {
		return func(o *orchestra) {
			o.ended = func(r collective.TestRun) probe.LaunchEnded {
				e := e
				e.Out = []byte(out)
				if out == "" {
					e.Out = []byte(printed(r, 4, 0))
				}
				return e
			}
		}
	}
	ends := func(daemon probe.LaunchEnded) func(*orchestra) {
		return func(o *orchestra) {
			o.daemon = daemon
			o.ended = func(collective.TestRun) probe.LaunchEnded { return probe.LaunchEnded{Exit: -1, Stopped: true} }
		}
	}
	for name, c := range map[string]struct {
		orchestra func(*orchestra)
		fabric    func(*fabric.Fabric)
		want      []string
	}{
		"sound": {nil, nil, []string{"pass a+b ranks: ranks 4 (4 ranks, nccl-tests 2.17.8, NCCL 2.28.9, Open MPI 4.1.4, sockets eth0)", "pass a+b all_reduce collective_data: values_wrong 0 = 0, sizes 6 (4 ranks",
			"pass a+b broadcast collective_data: values_wrong 0 = 0, sizes 2", "pass a+b send_recv collective_data: values_wrong 0 = 0, sizes 1", "bus_bandwidth 1.5 at 536870912 B no_min_busbw"}},
		"too slow": {nil, demands(1.6), []string{"fail a+b all_reduce bus_bandwidth: ", "≥ 1.6"}},
		"wrong values": {func(o *orchestra) {
			o.ended = func(r collective.TestRun) probe.LaunchEnded {
				return probe.LaunchEnded{Out: []byte(printed(r, 4, 7)), Exit: 1}
			}
		}, nil, []string{"fail a+b all_reduce collective_data: values_wrong 28 at 8 B = 0", "fail a+b send_recv collective_data: values_wrong"}},
		"not of MPI":  {says(printed(collective.TestRun{Min: 8, Max: 8, Factor: 2}, 1, 0)+printed(collective.TestRun{Min: 8, Max: 8, Factor: 2}, 1, 0), probe.LaunchEnded{}), nil, []string{"fail a+b job: unmeasured", "build nccl-tests with MPI=1"}},
		"a rank less": {says(printed(collective.TestRun{Min: 8, Max: 8, Factor: 2}, 3, 0), probe.LaunchEnded{}), nil, []string{"fail a+b job: unmeasured", "only 3 of 4 ranks reported"}},
		"a rank dies": {says("", probe.LaunchEnded{Exit: 137, Err: []byte("---\nmpirun noticed that process rank 3 with PID 9 on node 192.168.88.2 exited on signal 9 (Killed), not on 192.168.88.21.\n")}), nil,
			[]string{"fail a+b job: unmeasured", "process rank 3 with PID 9 on node b exited on signal 9 (Killed), not on 192.168.88.21."}},
		"no GPU's kernel": {says("h: Test CUDA failure common.cu:1 'invalid device function'\n", probe.LaunchEnded{Exit: 2, Err: []byte("noise")}), nil, []string{"fail a+b job: unmeasured", "all_reduce_perf: h: Test CUDA failure common.cu:1 'invalid device function'"}},
		"hangs":           {says("", probe.LaunchEnded{TimedOut: true}), nil, []string{"all_reduce_perf: timed out after 9m0s"}},
		"silent":          {says("\n", probe.LaunchEnded{Exit: 1}), nil, []string{"mpirun exited with status 1 and gave no reason"}},
		"refused": {func(o *orchestra) {
			o.refuses = "orted is not beside mpirun"
			says("", probe.LaunchEnded{Exit: 1})(o)
		}, nil, []string{"fail a+b job: unmeasured", "host b: orted is not beside mpirun"}},
		"a daemon fails":   {ends(probe.LaunchEnded{Exit: 1, Err: []byte("cannot listen;")}), nil, []string{"fail a+b job: unmeasured", "host b: mpirun's daemon exited with status 1: cannot listen;"}},
		"a silent daemon":  {ends(probe.LaunchEnded{Exit: 3}), nil, []string{"host b: mpirun's daemon exited with status 3;"}},
		"a daemon is shot": {ends(probe.LaunchEnded{Exit: -1, Signal: "killed"}), nil, []string{"host b: mpirun's daemon was ended by a signal (killed);"}},
		"a daemon hangs":   {ends(probe.LaunchEnded{Exit: -1, TimedOut: true}), nil, []string{"host b: mpirun's daemon timed out;"}},
		"a rank is held":   {func(o *orchestra) { o.daemon.Left = []int{12, 34} }, nil, []string{"pass a+b all_reduce collective_data", "warn b processes: processes 2 = 0 () mpirun processes still alive 30s after SIGKILL: 12 34;"}},
		"a rank is held where the first host is lost": {func(o *orchestra) { o.daemon.Left, o.lost = []int{12}, errors.New("it does not answer any more") }, nil,
			[]string{"fail a+b job: unmeasured", "host a: it does not answer any more", "warn b processes: processes 1 = 0"}},
		"libraries": {says("=   BAD TERMINATION\n", probe.LaunchEnded{Exit: 127, Err: []byte("noise\nx: error while loading shared libraries: libnccl.so.2: cannot open shared object file\n")}), nil,
			[]string{"all_reduce_perf: x: error while loading shared libraries: libnccl.so.2: cannot open"}},
		"too many ranks": {says("=   BAD TERMINATION\n", probe.LaunchEnded{Exit: 1, Err: []byte("Invalid number of GPUs: 2 requested but only 1 were found.\n")}), nil, []string{"all_reduce_perf: Invalid number of GPUs: 2 requested but only 1 were found."}},
		"no program": {func(o *orchestra) {
			o.has["b"] = probe.LaunchHas{GPUs: 2, Problem: "/opt/nccl-tests/build/sendrecv_perf does not exist"}
		}, nil,
			[]string{"fail a+b job: unmeasured", "host b: /opt/nccl-tests/build/sendrecv_perf does not exist; build nccl-tests with MPI=1 there"}},
		"two MPIs": {func(o *orchestra) {
			o.has["b"] = probe.LaunchHas{GPUs: 2, MPI: mpi.Release{Kind: mpi.MPICH, Version: "4.0.2"}}
		}, nil, []string{"fail a+b job: unmeasured", "different MPI releases (MPICH 4.0.2, Open MPI 4.1.4)"}},
		"no GPUs": {func(o *orchestra) { o.snaps["a"].GPUs, o.snaps["b"].GPUs = nil, nil }, nil, []string{"skip a+b job:  () no_gpuno host has a GPU that CUDA can use"}},
	} {
		o := newOrchestra()
		if c.orchestra != nil {
			c.orchestra(o)
		}
		got := o.play(t, c.fabric)
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q is not in\n%s", name, want, got)
			}
		}
		if name == "sound" && strings.Contains(got, "fail") {
			t.Errorf("%s:\n%s", name, got)
		}
	}
}

func TestWhatNCCLTestsAreAsked(t *testing.T) {
	no := false
	o := newOrchestra()
	o.play(t, func(f *fabric.Fabric) { f.NCCL.Write = &no })
	// A pass of 512 MiB takes half a second of the eight that a size may take.
	want := "a all_reduce_perf 8-16777216 n20 r0; a all_reduce_perf 134217728-536870912 n7 r0; a broadcast_perf 8388616-8388616 n1 r0; a broadcast_perf 8388616-8388616 n1 r3; a sendrecv_perf 8388616-8388616 n1 r0"
	if got := strings.Join(o.runs, "; "); got != want {
		t.Errorf("\n%s\n%s", got, want)
	}
	if l := o.specs[0].Launch; l.Check() != nil || strings.Join(l.Args(), " ") != "-host localhost:2,192.168.88.2:2 -np 4 --bind-to none --leave-session-attached" || o.specs[0].MPIRun != "/opt/ompi/bin/mpirun" || o.specs[0].Env["NCCL_SOCKET_IFNAME"] != "=eth0" {
		t.Errorf("%+v", o.specs[0])
	}
	if want := `b [orted] {"netdev":"eth0","env":{"NCCL_CROSS_NIC":"0","NCCL_IB_DISABLE":"1","NCCL_SOCKET_IFNAME":"=eth0"}}`; len(o.daemons) != 5 || o.daemons[0] != want {
		t.Errorf("%s, want %s", o.daemons, want)
	}
}

// A first host that asks for more than its daemons is refused.
func TestOnlyHostsOfTheJobGetADaemon(t *testing.T) {
	o := newOrchestra()
	on(o.fake, probe.InspectLaunch, o.inspect)
	on(o.fake, probe.Launch, o.launch)
	on(o.fake, probe.AwaitShell, o.awaitShell)
	on(o.fake, probe.AnswerShell, o.answerShell)
	on(o.fake, probe.RunDaemon, o.runDaemon)
	on(o.fake, probe.StopCollective, func(context.Context, string, string) (struct{}, error) { return struct{}{}, nil })
	on(o.fake, probe.SendTCP, func(context.Context, string, probe.TCPSendSpec) (probe.TCPResult, error) { // reaches whom it should
		return probe.TCPResult{}, nil
	})
	o.asks = []probe.LaunchAsk{{Number: 1, Host: "192.168.88.2", Words: []string{"orted"}}, {Number: 2, Host: "192.168.88.2", Words: []string{"orted", "again"}}, {Number: 3, Host: "10.0.0.9"}, {Number: 4, Host: "192.168.88.1"}, {Number: 5, Host: "b"}}
	o.play(t, nil)
	refused := slices.DeleteFunc(slices.Clone(o.told), func(t probe.LaunchTold) bool { return t.Exit == 0 })
	if len(o.daemons) != len(o.runs) || len(refused) != 4*len(o.runs) || !strings.Contains(refused[0].Text, "not a host of this job") {
		t.Errorf("%s %+v", o.daemons, refused)
	}
}

func TestSizesThatTakeTooLongAreLeftOut(t *testing.T) {
	j := &job{}
	for seconds, want := range map[float64]string{0.001: "536870912 20 <nil>", 0.1: "536870912 1 <nil>", 0.5: "134217728 1 536870912 16", 2: "0 0 134217728 16"} {
		r, beyond := j.large([]collective.Sweep{{Bytes: 16 << 20, Iterations: 10, Seconds: 10 * seconds}})
		got := fmt.Sprintf("%d %d %v", r.Max, r.Iterations, beyond)
		if beyond != nil {
			got = fmt.Sprintf("%d %d %d %g", r.Max, r.Iterations, beyond.Bytes, beyond.Seconds)
		}
		if got != want {
			t.Errorf("%g s: %s, want %s", seconds, got, want)
		}
	}
}
