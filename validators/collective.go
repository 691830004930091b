package validators

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/nccl/env"
	"github.com/fabricform/fabricform/nccl/launch"
	"github.com/fabricform/fabricform/parallel"
	"github.com/fabricform/fabricform/probe"
	"github.com/fabricform/fabricform/probe/collective"
	"github.com/fabricform/fabricform/probe/mpi"
)

// The items and metrics of the check when it runs collectives.
const (
	Job            Item = "job" // one run of collectives as a whole
	Ranks          Item = "ranks"
	CollectiveData Item = "collective_data"
	BusBandwidth   Item = "bus_bandwidth"
	RankLog        Item = "log"
	Leftovers      Item = "processes"

	MetricRanks        Metric = "ranks"
	MetricValuesWrong  Metric = "values_wrong"
	MetricSizes        Metric = "sizes" // of messages
	MetricBusBandwidth Metric = "bus_bandwidth"
	MetricPassTime     Metric = "pass_time" // estimated for one pass of the first size that was left out
	MetricProcesses    Metric = "processes"
)

// The parameters of a job, and its time limits.
const (
	valueCount      = 1<<20 + 1 // odd, so that the ends of buffers are tested, too
	meetingLimit    = time.Minute
	operationLimit  = 2 * time.Minute
	sizeBudget      = 8 * time.Second
	collectiveLimit = 9 * time.Minute
	untilStopped    = 10 * time.Second // for other hosts to report their own failure before they are stopped
)

// sweepSizes are the sizes of the sweep in bytes. Small ones show latency, large ones bandwidth.
var sweepSizes = []int64{8, 64 << 10, 1 << 20, 16 << 20, 128 << 20, 512 << 20}

// labSizes are the sizes in a lab, whose links are slow.
var labSizes = []int64{8, 64 << 10, 1 << 20}

// job is one run of collectives on a set of hosts. Hosts that training paths connect, directly or through
// other hosts, are in the same job.
type job struct {
	*run
	check fabric.NCCLCheck
	hosts []launch.Host
	gpus  []int // per host; each GPU runs one rank
	has   []probe.CollectiveHas
	mpi   mpi.Release
	// loginMesh has all the hosts; nil unless it is needed.
	loginMesh *fabric.LoginMesh
	nodes     []string // of Slurm, which starts the ranks; nil: over SSH
	// omitted says why a path between the hosts is not as declared; "" if all are.
	omitted string
	without []string // hosts that would take part, and could not be reached
}

// collectives runs the jobs that the files declare.
func (r *run) collectives(ctx context.Context) (out []Result) {
	for _, j := range r.jobs() {
		out = append(out, j.prove(ctx)...)
		for _, host := range j.without {
			why := "it has no path to the others without hosts that could not be reached"
			if r.snapshots[host] == nil {
				why = "host " + host + " could not be reached: " + r.options.Unreachable[host]
			}
			res := j.result(Job)
			res.Hosts = []string{host}
			out = append(out, res.skips(HostUnreachable, why+"; the collectives ran without it"))
		}
	}
	return out
}

// jobs groups the hosts of training paths that declare a run into jobs. Hosts that were not reached are left out of a job if at least two
// others remain: on a cluster, jobs hold some of the hosts at any time.
func (r *run) jobs() (out []*job) {
	var asked []fabric.Path
	for _, p := range r.fabric.Paths() {
		c := p.Validate.NCCL
		if p.Role != "training" || !c.Enabled || c.Run == "" || c.Run == "none" || r.options.excluded(p.Endpoints[0].Host) || r.options.excluded(p.Endpoints[1].Host) {
			continue
		}
		asked = append(asked, p)
	}
	parts := r.joined(asked, func(host string) bool { return r.snapshots[host] != nil })
	for _, whole := range r.joined(asked, func(string) bool { return true }) {
		taking, first := map[string]bool{}, len(out)
		for _, part := range parts {
			if slices.Contains(whole.names(), part.hosts[0].Name) {
				out = append(out, part)
				for _, h := range part.hosts {
					taking[h.Name] = true
				}
			}
		}
		if len(out) == first {
			out = append(out, whole) // which says what it lacks
			continue
		}
		out[first].without = slices.DeleteFunc(whole.names(), func(h string) bool { return taking[h] })
	}
	return out
}

// joined returns a job for each set of at least two of the hosts that these paths connect, directly or through other hosts; all members
// of a network are connected.
func (r *run) joined(paths []fabric.Path, takes func(host string) bool) (out []*job) {
	root := map[string]string{} // union-find: a host without an entry is the root of its group
	find := func(h string) string {
		for root[h] != "" {
			h = root[h]
		}
		return h
	}
	member := map[string]string{} // a host, by network
	ends := func(p fabric.Path) (out []string) {
		for _, e := range p.Endpoints {
			if takes(e.Host) {
				out = append(out, e.Host)
			}
		}
		return out
	}
	for _, p := range paths {
		group := ends(p)
		if p.Network != nil && len(group) > 0 {
			if m := member[p.Network.Name]; m != "" {
				group = append(group, m)
			}
			member[p.Network.Name] = group[0]
		}
		for _, h := range group {
			if a, b := find(group[0]), find(h); a != b {
				root[b] = a
			}
		}
	}
	for _, h := range r.fabric.Hosts {
		if root[h.Name] != "" {
			continue
		}
		j := &job{run: r}
		for _, p := range paths {
			if e := ends(p); len(e) > 0 && find(e[0]) == h.Name {
				j.wants(p.Validate.NCCL)
				if len(e) == len(p.Endpoints) {
					j.omitted = cmp.Or(j.omitted, r.options.omits(p))
				}
			}
		}
		for _, o := range r.fabric.Hosts {
			if j.check.Run != "" && takes(o.Name) && find(o.Name) == h.Name {
				j.hosts = append(j.hosts, launch.Host{Name: o.Name})
			}
		}
		if len(j.hosts) > 1 {
			out = append(out, j)
		}
	}
	return out
}

// wants merges a path's check into the job's: the highest threshold wins, and the last path sets the rest.
func (j *job) wants(c fabric.NCCLCheck) {
	if least := j.check.MinBusbwGBs; least != nil && (c.MinBusbwGBs == nil || *c.MinBusbwGBs < *least) {
		c.MinBusbwGBs = least
	}
	j.check = c
}

// result returns a passing result about the job and its hosts.
func (j *job) result(item Item) Result {
	return Result{Check: CheckNCCL, Item: item, Subject: Subject{Kind: SubjectHosts}, Hosts: j.names(), Verdict: Pass}
}

func (j *job) skip(why SkipReason, cause string) []Result {
	return []Result{j.result(Job).skips(why, cause)}
}

func (j *job) unmeasured(cause, cure string) []Result {
	return []Result{j.result(Job).unmeasured(cause, cure)}
}

// prove checks whether the job can run, then runs it and judges the ranks' reports.
func (j *job) prove(ctx context.Context) []Result {
	if j.check.Run == "nccl-tests" && !j.scheduled() {
		if j.loginMesh = j.fabric.Mesh(j.names()...); j.loginMesh == nil {
			return j.skip(NoLogins, "nccl-tests needs login_mesh or slurm: declare a login_mesh with all hosts of this job, "+
				"reach all of them by Slurm, start nccl-tests by Slurm yourself with `render nccl -format slurm`, or set `run = \"torch\"`")
		}
	}
	owners := launch.AddressOwners(j.fabric, j.snapshots)
	for i, h := range j.hosts {
		snap := j.snapshots[h.Name]
		if snap == nil {
			return j.skip(HostUnreachable, "host "+h.Name+" could not be reached: "+j.options.Unreachable[h.Name])
		}
		j.hosts[i] = launch.NewHost(j.fabric, j.run.hosts[h.Name], snap, owners)
		if p := j.hosts[i].Problems; len(p) > 0 {
			return j.skip(BadSettings, "the settings of host "+h.Name+" cannot work: "+p[0].Text)
		}
	}
	j.hosts = launch.Of(j.fabric, j.hosts).Hosts // with the addresses for logins
	if j.omitted != "" {
		return j.skip(NotApplied, j.omitted)
	}
	j.options.progress(fmt.Sprintf("nccl: looking for GPUs and %s on %s", j.check.Run, some(j.names())))
	look, run := j.look, j.torch
	if j.check.Run == "nccl-tests" {
		look, run = j.lookForPrograms, j.ncclTests
	}
	if out := look(ctx); out != nil {
		return out
	}
	j.options.progress("nccl: checking that ranks can reach each other")
	if why := j.meets(ctx); why != "" {
		return j.unmeasured(why, "")
	}
	j.options.progress(fmt.Sprintf("nccl: all-reduce, broadcast, send and receive on %d ranks", j.world()))
	return j.measure(ctx, run)
}

// scheduled reports whether all hosts are reached by Slurm, which starts the ranks of nccl-tests then.
func (j *job) scheduled() bool {
	return !j.options.Lab && !slices.ContainsFunc(j.hosts, func(h launch.Host) bool { return j.fabric.Host(h.Name).Slurm == nil })
}

func (j *job) names() (out []string) {
	for _, h := range j.hosts {
		out = append(out, h.Name)
	}
	return out
}

// world returns the number of ranks: one for each GPU.
func (j *job) world() (n int) {
	for _, gpus := range j.gpus {
		n += gpus
	}
	return n
}

// each calls do for all hosts in parallel.
func (j *job) each(do func(i int, host string)) {
	parallel.Each(0, j.hosts, func(i int, h launch.Host) { do(i, h.Name) })
}

// look asks every host for its GPUs, torch and NCCL. It returns results only if the job cannot run.
func (j *job) look(ctx context.Context) []Result {
	j.has, j.gpus = make([]probe.CollectiveHas, len(j.hosts)), make([]int, len(j.hosts))
	errs := make([]error, len(j.hosts))
	j.each(func(i int, host string) {
		j.has[i], errs[i] = probe.InspectCollective.Call(ctx, j.fleet, host, probe.CollectiveLook{Python: j.check.Python})
	})
	var problem, versions, without []string
	gpuThere := false
	for i, h := range j.hosts {
		gpus := len(j.snapshots[h.Name].GPUs)
		gpuThere = gpuThere || gpus > 0 || j.has[i].Look.GPUs > 0
		switch has := j.has[i]; {
		case errs[i] != nil:
			problem = append(problem, "host "+h.Name+": "+errs[i].Error())
		case has.Look.GPUs == 0 && gpus == 0:
			without = append(without, h.Name)
		case has.Problem != "":
			problem = append(problem, fmt.Sprintf("host %s: %s; install torch there, or name another Python with validate.nccl.python",
				h.Name, has.Problem))
		case has.Look.GPUs == 0:
			problem = append(problem,
				fmt.Sprintf("host %s: the driver lists GPUs (%d), but torch %s cannot use them: "+
					"torch was built without CUDA, or is too new for the driver", h.Name, gpus, has.Look.Torch))
		default:
			j.gpus[i] = has.Look.GPUs
			versions = append(versions, has.Look.NCCL)
		}
	}
	if out := j.reportLacking(without, gpuThere, problem); out != nil {
		return out
	}
	slices.Sort(versions)
	if versions = slices.Compact(versions); len(versions) > 1 {
		return j.unmeasured("torch uses different NCCL versions on the hosts ("+strings.Join(versions, ", ")+
			"), which cannot talk to each other", "install the same version everywhere")
	}
	return nil
}

// reportLacking returns results if the job cannot run, because hosts have no GPU or another problem.
func (j *job) reportLacking(without []string, gpuThere bool, problem []string) []Result {
	switch {
	case len(without) == len(j.hosts):
		return j.skip(NoGPU, "no host has a GPU that CUDA can use")
	case gpuThere:
		for _, name := range without {
			problem = append(problem, "host "+name+" has no GPU that CUDA can use, but other hosts do: check its driver with `nvidia-smi`")
		}
	}
	if problem != nil {
		return j.unmeasured(strings.Join(problem, "; "), "")
	}
	return nil
}

// meets checks that the ranks can connect to each other, and returns why they cannot. It opens a TCP port on
// each host's socket interface, as NCCL will. The previous host connects to the port, as in NCCL's ring, and
// all hosts connect to the first one's, because ranks meet there.
func (j *job) meets(ctx context.Context) string {
	for _, h := range j.hosts {
		if !h.SocketAddr.IsValid() {
			return fmt.Sprintf("host %s has no address on NCCL's socket interface (%q) that is its own: "+
				"set nccl.socket_ifname to an interface that reaches all hosts", h.Name, h.Socket)
		}
	}
	n := len(j.hosts)
	for i := range n {
		to := []int{(i + 1) % n}
		if i > 0 && to[0] != 0 {
			to = append(to, 0)
		}
		for _, k := range to {
			if why := j.reaches(ctx, j.hosts[i], j.hosts[k]); why != "" {
				return why
			}
		}
	}
	return ""
}

func (j *job) reaches(ctx context.Context, from, to launch.Host) string {
	const little = 50 * time.Millisecond
	token := rand.Text()
	listen, err := probe.ListenTCP.Call(ctx, j.fleet, to.Name,
		probe.TCPListenSpec{Netdev: to.Socket, Address: to.SocketAddr, Token: token, Streams: 1, Duration: little})
	if err != nil {
		return fmt.Sprintf("host %s: %s; run %s to see whether the host has this address", to.Name, err, j.options.Invocation.Hint("plan"))
	}
	// NCCL does not bind its sending socket to a device or an address (ncclSocketConnect in its
	// src/misc/socket.cc). A check that did so would pass between subnets that share a cable.
	_, err = probe.SendTCP.Call(ctx, j.fleet, from.Name, probe.TCPSendSpec{Target: netip.AddrPortFrom(to.SocketAddr, listen.Port),
		Token: token, Streams: 1, Duration: little})
	if err != nil {
		return fmt.Sprintf("%s (%s on %s) cannot connect to TCP port %d of %s (%s on %s), as NCCL's ranks must: "+
			"put both ends into one subnet or add a route, and allow the hosts' ports in their firewalls (%s)",
			from.Name, from.SocketAddr, from.Socket, listen.Port, to.Name, to.SocketAddr, to.Socket, err)
	}
	if _, err = probe.CollectTCP.Call(ctx, j.fleet, to.Name, listen.ID); err != nil {
		return fmt.Sprintf("host %s: %s", to.Name, err)
	}
	return ""
}

// spec returns the request to one host.
func (j *job) spec(id string, i, first int) probe.CollectiveSpec {
	s := probe.CollectiveSpec{ID: id, Python: j.check.Python, First: first, Ranks: j.gpus[i],
		Limit: collectiveLimit, Env: j.settings(j.hosts[i]),
		Job: collective.Job{World: j.world(), Master: netip.AddrPortFrom(j.hosts[0].SocketAddr, j.has[0].Port),
			Count: valueCount, Sizes: sweepSizes,
			MeetSeconds: int(meetingLimit / time.Second), Seconds: int(operationLimit / time.Second), BudgetSeconds: sizeBudget.Seconds()}}
	if j.options.Lab {
		s.Job.Sizes = labSizes
	}
	return s
}

// settings returns the environment of a host's ranks. NCCL reads its own configuration file. If fabricform
// does not write one, the environment has the settings.
func (j *job) settings(h launch.Host) map[string]string {
	out := map[string]string{}
	switch {
	case h.File == "" || j.options.Lab: // a lab is often validated before anything is applied to it
		for _, v := range h.Env {
			if strings.HasPrefix(v.Name, "NCCL_") {
				out[v.Name] = j.fabric.Secrets.Value(v.Value)
			}
		}
	case h.File != fabric.NCCLConf:
		out["NCCL_CONF_FILE"] = h.File
	}
	return out
}

// rails returns the ports that NCCL may use on a host: those that are up and that its device list selects.
func (j *job) rails(h launch.Host) (out []facts.RDMADevice) {
	if !usesRDMA(h) {
		return nil
	}
	v, _ := h.Env.Get("NCCL_IB_HCA")
	list := env.ParseList(v)
	for _, d := range j.snapshots[h.Name].RDMA {
		if d.State == "ACTIVE" && list.Selects(d.Name, d.Port) {
			out = append(out, d)
		}
	}
	return out
}

// usesRDMA says whether NCCL is to use RDMA on a host.
func usesRDMA(h launch.Host) bool {
	v, _ := h.Env.Get("NCCL_IB_DISABLE")
	return h.RDMA && env.ParseNumber(v).Value == 0
}
