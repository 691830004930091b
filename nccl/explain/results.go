package explain

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/fabricform/fabricform/nccl/env"
)

// testRun is what nccl-tests and rccl-tests print of themselves (src/common.cu).
type testRun struct {
	checked bool            // the table has a column of wrong values
	wrong   int             // line of the first row that has some
	size    string          // of that row, in bytes
	failed  string          // the total of wrong values, if there are some
	missed  int             // line of an average below NCCL_TESTS_MIN_BW
	begun   string          // the line with the options of a run that has no table yet
	twice   int             // line of the same one again, or of a second result
	ended   bool            // the latest line is one of a result
	row     string          // size and kind of the latest row
	rows    int             // how many of different sizes came before it
	ranks   map[string]bool // in the list of ranks that the latest lines belong to
	doubled bool            // such a list has a rank twice
	idle    int             // line of an average of 0
	best    float64         // the highest bus bandwidth of this table's rows of fallsFrom bytes and more, in GB/s
	fallen  int             // line of the first row that has less than a part of it
	falls   string          // both rates
	hosts   map[string]bool // of the ranks
	fastest float64         // the highest bus bandwidth of rows of slowFrom bytes and more, in GB/s
	fastAt  int             // its line
}

const (
	fallsFrom = 1 << 20 // From this size on, in bytes, rates only rise on a healthy path.
	fallsTo   = 4       // A rate below this part of an earlier one shows that something stops the data.

	slowFrom = 32 << 20 // From this size on, in bytes, a rate is that of the path.
	slowTo   = 3.2      // What a link of 25 Gb/s carries at most, in GB/s: NICs for RDMA mostly have more.
)

// rate compares the bus bandwidth of a row with that of smaller sizes. NCCL's change of protocols costs less than that.
func (t *testRun) rate(number int, size, busbw string) {
	bytes, err1 := strconv.Atoi(size)
	rate, err2 := strconv.ParseFloat(busbw, 64)
	if err1 != nil || err2 != nil || bytes < fallsFrom {
		return
	}
	if bytes >= slowFrom && rate > t.fastest {
		t.fastest, t.fastAt = rate, number
	}
	if rate < t.best/fallsTo && t.fallen == 0 {
		t.fallen, t.falls = number, fmt.Sprintf("%s GB/s at %s bytes, after %.2f GB/s at a smaller size", busbw, size, t.best)
	}
	t.best = max(t.best, rate)
}

// line reads a line of a test. It reports whether the line is one.
func (t *testRun) line(number int, line string, fields []string) bool {
	ended := t.ended
	t.ended = strings.HasPrefix(line, "# Avg bus bandwidth") || ended && strings.HasPrefix(line, "# Out of bounds")
	if at := tester.re().FindStringSubmatch(line); at != nil && len(t.ranks) < maxHosts {
		if t.ranks[at[1]] && t.twice == 0 {
			t.twice, t.doubled = number, true
		}
		if t.ranks == nil {
			t.ranks = map[string]bool{}
		}
		if t.hosts == nil {
			t.hosts = map[string]bool{}
		}
		if len(t.hosts) < 2 {
			t.hosts[at[2]] = true
		}
		t.ranks[at[1]] = true
		return true
	}
	t.ranks = nil
	switch {
	case strings.HasPrefix(line, "# Avg bus bandwidth"):
		if ended && t.twice == 0 {
			t.twice = number
		}
		if _, result, _ := strings.Cut(line, ":"); strings.TrimSpace(result) == "0" {
			t.idle = number
		}
		if strings.HasSuffix(strings.TrimSpace(line), "FAILED") {
			t.missed = number
		}
	case strings.HasPrefix(line, "# Out of bounds"):
		if len(fields) == 8 && fields[7] == "FAILED" && t.wrong == 0 {
			t.wrong, t.failed = number, fields[6]
		}
	case strings.HasPrefix(line, "# nThread "):
		if t.begun == line && t.twice == 0 {
			t.twice = number
		}
		t.begun = line
	case strings.HasPrefix(line, "#") && strings.Contains(line, "size") && strings.Contains(line, "busbw"):
		t.checked, t.begun, t.row, t.rows, t.best = strings.HasSuffix(strings.TrimSpace(line), "#wrong"), "", "", 0, 0
	case len(fields) == 13 && digits(fields[0]) && digits(fields[1]) && (t.checked || !digits(fields[2])):
		t.rate(number, fields[0], fields[7])
		row := strings.Join(fields[:5], " ")
		if t.twice == 0 && (ended || row == t.row && t.rows > 1) {
			t.twice = number
		}
		if row != t.row {
			t.row = row
			t.rows++
		}
		some := func(field string) bool { return digits(field) && strings.Trim(field, "0") != "" }
		if !digits(fields[2]) && t.size == "" && (some(fields[8]) || some(fields[12])) {
			t.wrong, t.size = number, fields[0]
		}
	case len(fields) == 12 && digits(fields[0]) && digits(fields[1]) && !digits(fields[2]): // before nccl-tests 2.9, without the root
		t.rate(number, fields[0], fields[6])
	default:
		return false
	}
	return true
}

func (t *testRun) judge(r *reading) {
	if t.wrong > 0 {
		wrong := fmt.Sprintf("At %s bytes, the column #wrong is not 0.", t.size)
		if t.size == "" {
			wrong = fmt.Sprintf("The test found %s wrong values (Out of bounds values).", shorten(t.failed))
		}
		r.say(t.wrong, env.Error, "Results are wrong", wrong, "A collective changes data on the way: a GPU, a link between GPUs, GPUDirect, or a fault of NCCL or of a driver.", "Trust no result of these hosts. NCCL_P2P_DISABLE=1, NCCL_NET_GDR_LEVEL=LOC, NCCL_IB_DISABLE=1 and NCCL_PROTO=Simple, one at a time, show which path it is; then test GPUs and hosts one by one. IOMMU and ACS, and old firmware or drivers, are frequent reasons.")
	}
	if t.missed > 0 {
		r.say(t.missed, env.Error, "Slower than required", "The average bus bandwidth is below 90 % of NCCL_TESTS_MIN_BW.", "The path between the ranks is slower than whoever set that value expects.", "Run again with NCCL_DEBUG=INFO: its log shows the network, the devices and whether GPUDirect is used. Compare the rates of single pairs of hosts.")
	}
	if t.fallen > 0 && t.twice == 0 {
		r.say(t.fallen, env.Warning, "The rate falls at large sizes", "The bus bandwidth is "+t.falls+".", "On a healthy path the rate rises with the size. Between hosts, RoCE without flow control loses packets under load: NICs and switches need PFC or pause frames (or ECN) on the class of NCCL's packets. On one host, memory or the GPUs are in use by something else, or they throttle.",
			"Between hosts look at the counters of drops and retransmissions (ethtool -S, out_of_sequence, packet_seq_err), at PFC on both ends and the switches (mlnx_qos -i NIC), and at NCCL_IB_TC. On one host see nvidia-smi for other processes, clocks and temperatures.")
	}
	if t.fastest > 0 && t.fastest <= slowTo && len(t.hosts) > 1 && t.twice == 0 {
		r.say(t.fastAt, env.Note, "As slow as a link of at most 25 Gb/s", fmt.Sprintf("The ranks are on several hosts, and the bus bandwidth is at most %.2f GB/s, which is %.1f Gb/s.", t.fastest, t.fastest*8), "With faster NICs, NCCL uses another interface, or sockets instead of RDMA.", "Run again with NCCL_DEBUG=INFO: the lines NET/IB and Using network show which it uses. Compare with the speed of the NICs (ethtool NETDEV).")
	}
	switch {
	case t.twice > 0:
		bad, wrong := env.Warning, "The test's heading, rows or result come twice, without another command between."
		if t.doubled {
			bad, wrong = env.Error, "A rank is twice in the list of ranks."
		}
		if t.idle > 0 {
			bad = env.Error
		}
		r.say(t.twice, bad, "Each process runs a test of its own", wrong, "The processes do not know each other: the test was built without MPI=1, or with another MPI than that of mpirun. Each host tests its own GPUs alone.", "Build it with make MPI=1 MPI_HOME=…, and start it with mpirun of the same MPI, or with srun --mpi=pmix (srun --mpi=list shows what there is).")
	case t.idle > 0:
		r.say(t.idle, env.Warning, "The test has one rank", "The average bus bandwidth is exactly 0: with one rank, nothing goes over a network or between GPUs.", "The result says nothing of the network. If several processes were started, the test was built without MPI=1, and each runs alone.", "Use all GPUs of the host with -g, or build with make MPI=1 MPI_HOME=… and start with mpirun of the same MPI.")
	}
}
