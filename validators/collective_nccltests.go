package validators

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fabricform/fabricform/probe"
	"github.com/fabricform/fabricform/probe/collective"
	"github.com/fabricform/fabricform/probe/mpi"
)

// The parameters of nccl-tests. Small sizes run first: their times show which large ones fit into sizeBudget.
const (
	testIterations = 20
	smallMax       = 16 << 20
	largeMin       = 128 << 20
	largeFactor    = 4
	largeMax       = 512 << 20
	labMin         = 64
	labMax         = 1 << 20
	smallFactor    = 128
	labIterations  = 5
	valueBytes     = 8 * valueCount // as many values as torch's ranks check
)

// lookForPrograms asks every host for nccl-tests and MPI. It returns results only if the job cannot run.
func (j *job) lookForPrograms(ctx context.Context) []Result {
	has, errs := make([]probe.LaunchHas, len(j.hosts)), make([]error, len(j.hosts))
	j.gpus = make([]int, len(j.hosts))
	j.each(func(i int, host string) {
		if j.gpus[i] = j.hosts[i].GPUs; j.gpus[i] > 0 { // without GPUs, the programs are not needed
			has[i], errs[i] = probe.InspectLaunch.Call(ctx, j.fleet, host, j.programs())
		}
	})
	var problem, without, releases []string
	for i, h := range j.hosts {
		switch {
		case errs[i] != nil:
			problem = append(problem, "host "+h.Name+": "+errs[i].Error())
		case h.GPUs == 0:
			without = append(without, h.Name)
		case has[i].Problem != "":
			cure := "build nccl-tests with MPI=1 there and install Open MPI or MPICH, or set their paths with validate.nccl.nccl_tests and validate.nccl.mpirun"
			if j.loginMesh == nil {
				cure = "build nccl-tests with MPI=1 there, or set their path with validate.nccl.nccl_tests"
			}
			problem = append(problem, fmt.Sprintf("host %s: %s; %s", h.Name, has[i].Problem, cure))
		default:
			releases = append(releases, has[i].MPI.String())
		}
	}
	if out := j.reportLacking(without, len(without) < len(j.hosts), problem); out != nil {
		return out
	}
	j.mpi = has[0].MPI
	slices.Sort(releases)
	if releases = slices.Compact(releases); len(releases) > 1 {
		return j.unmeasured("the hosts have different MPI releases ("+strings.Join(releases, ", ")+
			"), whose daemons cannot talk to each other", "install the same release everywhere")
	}
	if j.mpi.Kind == mpi.Slurm {
		return j.allocation(has)
	}
	return j.canLogIn(ctx)
}

// allocation takes the nodes of the job of Slurm in which the helpers run. Slurm starts the same number of ranks on each. It returns
// results if they are in different jobs, over which no srun can start ranks.
func (j *job) allocation(has []probe.LaunchHas) []Result {
	for i, h := range has {
		if h.Job != has[0].Job {
			return j.unmeasured(fmt.Sprintf("hosts %s and %s are in different jobs of Slurm (%s and %s): they became free at different times, or their partitions differ",
				j.hosts[0].Name, j.hosts[i].Name, has[0].Job, h.Job), "repeat the check, or give them one partition and reservation")
		}
		j.nodes = append(j.nodes, h.Node)
	}
	fewest := slices.Min(j.gpus)
	for i := range j.gpus {
		j.gpus[i] = fewest
	}
	return nil
}

// ncclTests runs NVIDIA's nccl-tests programs one after another.
func (j *job) ncclTests(ctx context.Context) (a account, err error) {
	deadline := time.Now().Add(collectiveLimit)
	tables := map[string][]collective.Table{}
	logs := map[string]*strings.Builder{}
	run := func(op string, r collective.TestRun) (t collective.Table, ended bool) {
		var l launched
		l, err = j.launch(ctx, r, time.Until(deadline))
		a.held = append(a.held, l.held...)
		if err != nil {
			return t, false
		}
		for _, log := range l.logs {
			if logs[log.host] == nil {
				logs[log.host] = new(strings.Builder)
			}
			logs[log.host].WriteString(log.text)
		}
		t = collective.ParseTable(l.Out)
		if why := l.why(j, t); why != "" {
			a.failed = r.Program + ": " + why
			return t, false
		}
		tables[op] = append(tables[op], t)
		return t, true
	}
	a.software = j.runTests(run, &a)
	for _, h := range j.hosts {
		if text := logs[h.Name]; text != nil {
			a.logs = append(a.logs, log{h.Name, "the ranks", text.String(), a.failed == ""})
		}
	}
	for _, op := range operations {
		a.values = append(a.values, j.tableValues(op, tables[op]))
	}
	return a, err
}

// runTests runs all tests until one fails, and returns the releases of the software.
func (j *job) runTests(run func(op string, r collective.TestRun) (collective.Table, bool), a *account) (software []string) {
	small := collective.TestRun{Program: collective.AllReducePerf, Min: 8, Max: smallMax, Factor: smallFactor, Iterations: testIterations}
	if j.options.Lab {
		small.Min, small.Max, small.Iterations = labMin, labMax, labIterations
	}
	t, ended := run("all_reduce", small)
	if !ended {
		return nil
	}
	a.sweep = t.Sweep("all_reduce", small.Iterations)
	software = []string{"nccl-tests", j.mpi.String()}
	if t.Release != "" {
		software = []string{"nccl-tests " + t.Release, "NCCL " + release(t.NCCL), j.mpi.String()}
	}
	if !j.options.Lab {
		var large collective.TestRun
		if large, a.beyond = j.large(a.sweep); large.Max > 0 {
			if t, ended = run("all_reduce", large); !ended {
				return software
			}
			a.sweep = append(a.sweep, t.Sweep("all_reduce", large.Iterations)...)
		}
	}
	for _, root := range []int{0, j.world() - 1} {
		if _, ended = run("broadcast", collective.TestRun{Program: collective.BroadcastPerf, Min: valueBytes, Max: valueBytes, Factor: 2,
			Iterations: 1, Root: root}); !ended {
			return software
		}
	}
	run("send_recv", collective.TestRun{Program: collective.SendRecvPerf, Min: valueBytes, Max: valueBytes, Factor: 2, Iterations: 1})
	return software
}

// large returns the run of the large sizes that fit into sizeBudget, estimated from the time of the largest
// small size. beyond is the first size that does not fit.
func (j *job) large(sweep []collective.Sweep) (r collective.TestRun, beyond *collective.Sweep) {
	if len(sweep) == 0 {
		return r, nil
	}
	last := sweep[len(sweep)-1]
	each := func(bytes int64) float64 { // seconds
		return last.Seconds / float64(last.Iterations) * float64(bytes) / float64(last.Bytes)
	}
	r = collective.TestRun{Program: collective.AllReducePerf, Min: largeMin, Factor: largeFactor}
	for bytes := int64(largeMin); bytes <= largeMax; bytes *= largeFactor {
		if each(bytes) > sizeBudget.Seconds() {
			return r, &collective.Sweep{Op: "all_reduce", Bytes: bytes, Seconds: each(bytes)}
		}
		// Each iteration runs twice: out of place and in place.
		r.Max, r.Iterations = bytes, max(1, min(testIterations, int(sizeBudget.Seconds()/2/each(bytes))))
	}
	return r, nil
}

// tableValues judges the values that nccl-tests checked. Its programs do not report the rank of a wrong value.
func (j *job) tableValues(op string, tables []collective.Table) Result {
	res := j.result(CollectiveData)
	res.Object, res.Setup = op, &Setup{Ranks: j.world()}
	sizes := 0
	for _, t := range tables {
		wrong, at, checked := t.Wrong()
		sizes += len(t.Rows)
		switch {
		case wrong > 0 || t.OutOfBounds != nil && *t.OutOfBounds > 0:
			res.Values = []Measurement{{Name: MetricValuesWrong, Value: float64(wrong), MessageBytes: at, Threshold: exactly(0)}}
			return res.fails("nccl-tests found wrong values: data is corrupted on the way",
				"check memory, PCIe and GPUDirect; set run = \"torch\" to learn the rank and the index")
		case !checked:
			return res.unmeasured("nccl-tests did not check the values", "")
		}
	}
	if sizes == 0 {
		return res.unmeasured("nccl-tests reported no results", "")
	}
	res.Values = []Measurement{{Name: MetricValuesWrong, Threshold: exactly(0)}, {Name: MetricSizes, Value: float64(sizes)}}
	return res
}

// release formats NCCL's version number: 22809 is 2.28.9 (NCCL_VERSION in its nccl.h).
func release(number string) string {
	n, err := strconv.Atoi(number)
	switch {
	case err != nil:
		return number
	case n < 10000:
		return fmt.Sprintf("%d.%d.%d", n/1000, n%1000/100, n%100)
	}
	return fmt.Sprintf("%d.%d.%d", n/10000, n%10000/100, n%100)
}
