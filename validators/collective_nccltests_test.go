package validators

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/nccl/launch"
	"github.com/fabricform/fabricform/probe"
	"github.com/fabricform/fabricform/probe/collective"
	"github.com/fabricform/fabricform/probe/mpi"
)

// orchestra is wires whose hosts have a login mesh, and the first an mpirun that prints a table.
type orchestra struct {
	*wires
	has    map[string]probe.LaunchHas
	ended  func(collective.TestRun) probe.LaunchEnded
	left   []int // of host b's ranks
	lost   error // of the first host, in the middle of a launch
	gone   error // of host b, at the same time
	unable probe.LoginResult

	lock  sync.Mutex
	runs  []string
	specs []probe.LaunchSpec
	peers []probe.LoginPeer        // that the first host was last asked to log in to
	tends map[string]chan struct{} // by host and ID; closed by a stop
	stops []string
}

func newOrchestra() *orchestra {
	has := probe.LaunchHas{MPI: mpi.Release{Kind: mpi.OpenMPI, Version: "4.1.4"}}
	o := &orchestra{wires: newWires(), has: map[string]probe.LaunchHas{"a": has, "b": has}, unable: probe.LoginResult{State: probe.LoginWorks}, tends: map[string]chan struct{}{}}
	for i, host := range []string{"a", "b"} {
		o.snaps[host].GPUs = []facts.GPU{{}, {}}
		o.snaps[host].Management.Dialled = netip.AddrFrom4([4]byte{10, 9, 0, byte(i + 1)})
	}
	on(o.fake, probe.InspectLaunch, func(_ context.Context, host string, _ probe.TestPrograms) (probe.LaunchHas, error) {
		return o.has[host], nil
	})
	on(o.fake, probe.TryLogins, func(_ context.Context, _ string, s probe.LoginSpec) (out []probe.LoginResult, err error) {
		o.peers = s.Peers
		return slices.Repeat([]probe.LoginResult{o.unable}, len(s.Peers)), nil
	})
	on(o.fake, probe.TendRanks, o.tend)
	on(o.fake, probe.AwaitTended, func(context.Context, string, string) (struct{}, error) { return struct{}{}, nil })
	on(o.fake, probe.Launch, o.launch)
	on(o.fake, probe.StopCollective, o.stop)
	on(o.fake, probe.SendTCP, func(context.Context, string, probe.TCPSendSpec) (probe.TCPResult, error) { // reaches whom it should
		return probe.TCPResult{}, nil
	})
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

// of returns the channel of a host's part, whoever comes first.
func (o *orchestra) of(host, id string) chan struct{} {
	o.lock.Lock()
	defer o.lock.Unlock()
	if o.tends[host+id] == nil {
		o.tends[host+id] = make(chan struct{})
	}
	return o.tends[host+id]
}

func (o *orchestra) tend(_ context.Context, host string, s probe.RanksSpec) (probe.RanksEnded, error) {
	if host == "b" && o.gone != nil {
		return probe.RanksEnded{}, o.gone
	}
	<-o.of(host, s.ID)
	e := probe.RanksEnded{Log: []byte(host + ":1:1 [0] NCCL INFO x\n")}
	if host == "b" {
		e.Alive = o.left
	}
	return e, nil
}

func (o *orchestra) launch(_ context.Context, host string, s probe.LaunchSpec) (probe.LaunchEnded, error) {
	o.lock.Lock()
	o.runs = append(o.runs, fmt.Sprintf("%s %s %d-%d n%d r%d", host, s.Run.Program, s.Run.Min, s.Run.Max, s.Run.Iterations, s.Run.Root))
	o.specs = append(o.specs, s)
	o.lock.Unlock()
	for _, h := range []string{"a", "b"} {
		o.move(h, "eth0", 1e6, 100e9)
	}
	if o.gone != nil {
		<-o.of(host, s.ID) // it hangs until somebody stops it
	}
	return o.ended(s.Run), o.lost
}

func (o *orchestra) stop(_ context.Context, host, id string) (none struct{}, err error) {
	part := o.of(host, id)
	o.lock.Lock()
	defer o.lock.Unlock()
	select {
	case <-part:
	default:
		close(part)
	}
	o.stops = append(o.stops, host)
	return none, nil
}

// twoInAMesh is two hosts that a user may log in to from each other.
func twoInAMesh() *fabric.Fabric {
	f := two()
	f.LoginMeshes = []*fabric.LoginMesh{{Name: "train", User: "ann", Hosts: []fabric.HostRef{"a", "b"}}}
	return f
}

// play judges a fabric whose links ask for nccl-tests.
func (o *orchestra) play(t *testing.T, change func(*fabric.Fabric)) string {
	t.Helper()
	f := twoInAMesh()
	for _, l := range f.Links {
		l.Validate.NCCL = fabric.NCCLCheck{Enabled: true, Run: "nccl-tests", NCCLTests: "/opt/nccl-tests/build", MPIRun: "/opt/ompi/bin/mpirun"}
	}
	if change != nil {
		change(f)
	}
	return spoken(measure(t, f, o, Options{Only: []Check{CheckNCCL}}))
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
		"a rank is held":  {func(o *orchestra) { o.left = []int{34, 12} }, nil, []string{"pass a+b all_reduce collective_data", "warn b processes: processes 2 = 0 () processes of nccl-tests still alive 30s after SIGKILL: 12 34;"}},
		"many are held": {func(o *orchestra) {
			for pid := range 5000 {
				o.left = append(o.left, pid+1)
			}
		}, nil, []string{"warn b processes: processes 5000 = 0 () processes of nccl-tests still alive 30s after SIGKILL: 1 2 3 4 5 6 7 8 9 10 and 4990 more;"}},
		"a host has too many GPUs": {func(o *orchestra) { o.snaps["b"].GPUs = make([]facts.GPU, 257) }, nil, []string{"fail a+b job: unmeasured", "host b reports 257 GPUs: at most 256 are possible"}},
		"a rank is held where the first host is lost": {func(o *orchestra) { o.left, o.lost = []int{12}, errors.New("it does not answer any more") }, nil,
			[]string{"fail a+b job: unmeasured", "host a: it does not answer any more", "warn b processes: processes 1 = 0"}},
		"another host is lost": {func(o *orchestra) { o.gone = errors.New("its connection broke") }, nil, []string{"fail a+b job: unmeasured", "host b: its connection broke"}},
		"no login": {func(o *orchestra) {
			o.unable = probe.LoginResult{State: probe.LoginHostUnknown, Said: "Host key verification failed."}
		}, nil,
			[]string{"fail a+b job: unmeasured", `a cannot log in to b as ann: the host key of b is not in the known_hosts of the mesh ("Host key verification failed.")`}},
		"no key":  {func(o *orchestra) { o.unable.State = probe.LoginKeyMissing }, nil, []string{"fail a+b job: unmeasured", "a cannot log in to b as ann: ~/.ssh/fabricform_train of ann is missing on a"}},
		"no mesh": {nil, func(f *fabric.Fabric) { f.LoginMeshes[0].Hosts = []fabric.HostRef{"a", "c"} }, []string{"skip a+b job:", "no_logins", "nccl-tests needs login_mesh or slurm", "render nccl -format slurm"}},
		"libraries": {says("=   BAD TERMINATION\n", probe.LaunchEnded{Exit: 127, Err: []byte("noise\nx: error while loading shared libraries: libnccl.so.2: cannot open shared object file\n")}), nil,
			[]string{"all_reduce_perf: x: error while loading shared libraries: libnccl.so.2: cannot open"}},
		"too many ranks": {says("=   BAD TERMINATION\n", probe.LaunchEnded{Exit: 1, Err: []byte("Invalid number of GPUs: 2 requested but only 1 were found.\n")}), nil, []string{"all_reduce_perf: Invalid number of GPUs: 2 requested but only 1 were found."}},
		"no program": {func(o *orchestra) {
			o.has["b"] = probe.LaunchHas{Problem: "/opt/nccl-tests/build/sendrecv_perf does not exist"}
		}, nil,
			[]string{"fail a+b job: unmeasured", "host b: /opt/nccl-tests/build/sendrecv_perf does not exist; build nccl-tests with MPI=1 there"}},
		"two MPIs": {func(o *orchestra) {
			o.has["b"] = probe.LaunchHas{MPI: mpi.Release{Kind: mpi.MPICH, Version: "4.0.2"}}
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

// bySlurm makes both hosts nodes of Slurm, whose helpers run in these jobs.
func (o *orchestra) bySlurm(jobs ...string) func(*fabric.Fabric) {
	for i, host := range []string{"a", "b"} {
		o.has[host] = probe.LaunchHas{MPI: mpi.Release{Kind: mpi.Slurm, Version: "22.05.8"}, Job: jobs[i], Node: "node" + host}
	}
	return func(f *fabric.Fabric) {
		f.LoginMeshes = nil
		for _, h := range f.Hosts {
			h.Slurm = &fabric.Slurm{}
		}
	}
}

func TestSlurmStartsTheRanksOfNCCLTests(t *testing.T) {
	o := newOrchestra()
	o.snaps["b"].GPUs = append(o.snaps["b"].GPUs, facts.GPU{}) // a third one, which Slurm starts no rank for
	if got := o.play(t, o.bySlurm("7", "7")); !strings.Contains(got, "pass a+b ranks: ranks 4 (4 ranks, nccl-tests 2.17.8, NCCL 2.28.9, Slurm 22.05.8, sockets eth0)") || strings.Contains(got, "fail") {
		t.Error(got)
	}
	s := o.specs[0]
	if !slices.Equal(s.Nodes, []string{"nodea", "nodeb"}) || s.PerNode != 2 || s.TestPrograms != (probe.TestPrograms{Folder: "/opt/nccl-tests/build", Slurm: true}) {
		t.Errorf("%+v", s)
	}
	if text := string(s.Script); !strings.Contains(text, "-format slurm") || !strings.Contains(text, "exec srun ") {
		t.Errorf("it is not what render prints:\n%s", text)
	}
	if len(o.peers) > 0 {
		t.Error("it tried logins")
	}

	o = newOrchestra()
	if got := o.play(t, o.bySlurm("7", "8")); !strings.Contains(got, "hosts a and b are in different jobs of Slurm (7 and 8)") || len(o.runs) > 0 {
		t.Error(got)
	}
	o = newOrchestra()
	o.ended = func(collective.TestRun) probe.LaunchEnded {
		return probe.LaunchEnded{Exit: 1, Err: []byte("srun: cluster configuration lacks support for cpu binding\nsrun: error: b: task 3: Killed\n")}
	}
	if got := o.play(t, o.bySlurm("7", "7")); !strings.Contains(got, "all_reduce_perf: srun: error: b: task 3: Killed") {
		t.Error(got)
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
	spec := o.specs[0]
	if p := spec.TestPrograms; p != (probe.TestPrograms{User: "ann", Folder: "/opt/nccl-tests/build", MPIRun: "/opt/ompi/bin/mpirun"}) {
		t.Errorf("%+v", p)
	}
	// It is what users get.
	f := twoInAMesh()
	f.NCCL.Write, f.Validate.NCCL.MPIRun = &no, spec.MPIRun
	files, err := launch.Render("mpirun", launch.New(f, o.snaps))
	if err != nil {
		t.Fatal(err)
	}
	users := files[0].Text
	if string(spec.Script) != string(users) || !strings.Contains(string(users), "192.168.88.2 slots=2") {
		t.Errorf("%s\n%s", users, spec.Script)
	}
	// What was tried is what the script logs in to, whatever another host says of its network.
	for _, says := range []string{"", "10.9.0.2/24", "10.0.0.0/8"} {
		o, shared := newOrchestra(), netip.MustParsePrefix("10.9.0.1/24")
		want := "192.168.88.2"
		if says != "" {
			for name, own := range map[string]netip.Prefix{"a": shared, "b": netip.MustParsePrefix(says)} {
				o.snaps[name].Addrs = append(o.snaps[name].Addrs, host.Addr{Index: 2, Prefix: own})
				o.snaps[name].Management.Server = own.Addr()
			}
			want = "10.9.0.2"
		}
		if o.play(t, nil); len(o.peers) != 1 || o.peers[0].Name != want || fmt.Sprint(o.peers[0].Addrs) != "["+want+"]" ||
			!strings.Contains(string(o.specs[0].Script), "\n"+want+" slots=2\n") {
			t.Errorf("%q: %+v\n%s", says, o.peers, o.specs[0].Script)
		}
	}
	o = newOrchestra()
	for h := range o.has {
		o.has[h] = probe.LaunchHas{MPI: mpi.Release{Kind: mpi.MPICH, Version: "4.0.2"}}
	}
	if o.play(t, nil); !strings.Contains(string(o.specs[0].Script), "-f /dev/fd/3 -n 4 ") {
		t.Errorf("%s", o.specs[0].Script)
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
