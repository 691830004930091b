package probe

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// The benchmarks print ratios of measurements that were made in turns, because seconds on a noisy
// machine say little. They assert no time.

// bench skips where no benchmark was asked for, or where the tool that it stands beside is missing.
func bench(t *testing.T, tool string) {
	t.Helper()
	if os.Getenv("FABRICFORM_BENCH") == "" {
		t.Skip("a benchmark: run `make bench`")
	}
	if _, err := exec.LookPath(tool); err != nil {
		t.Skipf("left out: %s is not installed", tool)
	}
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}

// TestBenchPing stands beside iputils' ping: 500 packets, one every 2 ms, over one veth cable.
func TestBenchPing(t *testing.T) {
	bench(t, "ping")
	a, b := newNamespace(t), newNamespace(t)
	cable(t, a, b, 1, 1500)
	s := spec("c0", "10.0.0.1", "10.0.0.2", 56, false)
	s.Count, s.Interval = 500, 2*time.Millisecond
	a.ping(t, s) // the first packet finds the neighbour
	var avg, deviation, cpu []float64
	for range 3 {
		before := usage(t, syscall.RUSAGE_SELF)
		ours := a.ping(t, s)
		oursCPU := usage(t, syscall.RUSAGE_SELF) - before
		before = usage(t, syscall.RUSAGE_CHILDREN)
		theirs := iputils(t, a)
		theirsCPU := usage(t, syscall.RUSAGE_CHILDREN) - before
		avg = append(avg, ours.Avg.Seconds()*1e3/theirs[1])
		deviation = append(deviation, ours.StdDev.Seconds()*1e3/theirs[3])
		cpu = append(cpu, oursCPU.Seconds()/theirsCPU.Seconds())
	}
	t.Logf("figure: ping / iputils' ping, medians of 3: average %.2f (≤ 1), deviation %.2f, CPU %.3f (≤ 0.125)", median(avg), median(deviation), median(cpu))
}

var iputilsSays = regexp.MustCompile(`= ([\d.]+)/([\d.]+)/([\d.]+)/([\d.]+) ms`)

// iputils pings as TestBenchPing does and answers min, avg, max and deviation in ms.
func iputils(t *testing.T, r *namespace) (out []float64) {
	t.Helper()
	r.do(func() {
		text, err := exec.Command("ping", "-q", "-c", "500", "-i", "0.002", "-I", "c0", "10.0.0.2").Output()
		must(t, err)
		for _, s := range iputilsSays.FindStringSubmatch(string(text))[1:] {
			v, err := strconv.ParseFloat(s, 64)
			must(t, err)
			out = append(out, v)
		}
	})
	return out
}

func usage(t *testing.T, who int) time.Duration {
	t.Helper()
	var u syscall.Rusage
	must(t, syscall.Getrusage(who, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestBenchTCP stands beside iperf3 over one veth cable, with cubic at both: it is what every kernel
// has, and the algorithm matters more than anything else here.
func TestBenchTCP(t *testing.T) {
	bench(t, "iperf3")
	a, b := newNamespace(t), newNamespace(t)
	cable(t, a, b, 1, 1500)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var server *exec.Cmd
	b.do(func() {
		server = exec.CommandContext(ctx, "iperf3", "-s", "-B", "10.0.0.2")
		must(t, server.Start())
	})
	defer func() { cancel(); _ = server.Wait() }()
	const d = time.Second
	for _, streams := range []int{1, 4} {
		transfer(t, a, b, streams, time.Second/2, "cubic", false)
		var copied, discarded []float64
		for range 5 {
			theirs := iperf3(t, a, streams, d)
			_, ours := transfer(t, a, b, streams, d, "cubic", false)
			_, dropped := transfer(t, a, b, streams, d, "cubic", true)
			copied, discarded = append(copied, ours.Gbps/theirs), append(discarded, dropped.Gbps/theirs)
		}
		t.Logf("figure: TCP / iperf3, %d streams, medians of 5: %.2f (≥ %s); with what arrives discarded in the kernel, which is another mode: %.2f",
			streams, median(copied), map[int]string{1: "0.95", 4: "1.1"}[streams], median(discarded))
	}
}

// iperf3 answers with the receiver's Gb/s.
func iperf3(t *testing.T, r *namespace, streams int, d time.Duration) float64 {
	t.Helper()
	var says struct {
		End struct {
			Sum struct {
				BitsPerSecond float64 `json:"bits_per_second"`
			} `json:"sum_received"`
		} `json:"end"`
	}
	r.do(func() {
		text, err := exec.Command("iperf3", "-c", "10.0.0.2", "-B", "10.0.0.1", "-C", "cubic", "-P", strconv.Itoa(streams), "-t", strconv.Itoa(int(d.Seconds())), "-J").Output()
		must(t, err)
		must(t, json.Unmarshal(text, &says))
	})
	return says.End.Sum.BitsPerSecond / 1e9
}
