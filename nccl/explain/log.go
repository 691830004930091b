package explain

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/fabricform/fabricform/nccl/env"
)

// hostLog is what a log shows about one host.
type hostLog struct {
	line     int             // its first line
	devices  map[string]bool // RDMA devices that NCCL uses
	oob      string          // netdev for bootstrap
	local    string          // the first netdev of them that other hosts do not reach
	localAt  int             // its line
	localIP  string          // its address
	network  string          // IB, Socket or a plugin
	at       int             // line of network
	gdr      int             // number of network channels with GPUDirect RDMA
	channels int             // line of the first IB channel without GPUDirect RDMA
	disabled int             // line that reports GPUDirect RDMA as disabled for a device
	fe80     string          // an interface for bootstrap that has a link-local address alone
	fe80At   int             // its line
	aside    string          // an interface for sockets, but not for bootstrap, that has a link-local address alone
	asideAt  int             // its line
	address  netip.Addr      // of the interface for bootstrap
	several  bool            // that interface has several addresses: hosts with equal names
	noIB     int             // line that says that there is no RDMA device
	mixed    int             // line that lists InfiniBand and RoCE ports
	direct   bool            // a NIC supports GPUDirect RDMA
	remote   bool            // it has a channel to another host
	roce     bool            // some of the devices are RoCE ports
	complete bool            // a communicator with several ranks is complete
	plugin   string          // for the network, of a library
	internal int             // line that says that there is none
}

// logged is the state while a log is read. It understands the lines of NCCL 2.2 to 2.30.7 (INFO and WARN in
// src/init.cc, src/bootstrap.cc, src/transport/net_ib, src/transport/net.cc and src/transport/net_socket.cc).
type logged struct {
	*reading
	hosts    map[string]*hostLog
	order    []string
	versions map[string]int // line
	settings []setting
	traces   []int       // lines of NCCL's own trace of an error
	traced   foreignLine // the first of them that has come to the program
	prefixed bool        // a line begins as those of NCCL's log

	reports      map[reportOf]*report
	inOrder      []*report
	foreign      []foreignLine // of other programs, with a known form
	unknownLines []string      // lines of errors that no form fits, and their number
	strangers    int
	firstStrange int
	dialled      map[string]int // IPv4 addresses to which ranks connect, and the first line
	blamed       int            // line of an interface that explains connections which fail; 0: none
	retried      foreignLine    // the latest connection that NCCL wants to try again
	completed    *report        // the latest one of a completion, and its line
	completedAt  int
	previous     string              // the previous line
	lastError    bool                // the next line is PyTorch's copy of NCCL's last warning
	blank        bool                // the previous line is blank
	spaced       bool                // the paste has a blank line after each line
	crashed      bool                // a line shows that this is the output of a program, not a script
	nodes        int                 // the largest number of nodes of a communicator; 0: unknown
	asked        int                 // the largest number of nodes that a launcher is told; 0: unknown
	members      map[string]*members // commId -> its ranks
	waits        map[string]string   // rank -> operation in which PyTorch's watchdog stopped it
	starts       map[int]int         // rank -> how many processes of Lightning have it
	startsOf     int                 // number of all of them
	startsAt     int                 // line of the last
	pkeyAt       int                 // line of a test of RDMA with another partition key than the first
	peermemAt    int                 // line of lsmod that shows the module nvidia_peermem
	spark        bool                // the text speaks of a DGX Spark
	kernel7      bool                // and of Linux 7.0
	driver       cudaOf              // what the GPU's driver supports
	software     cudaOf              // what NCCL or the program was built with
	testers      map[string]int      // hosts in the list of ranks of nccl-tests, and their ranks
	tested       int                 // line of the result of nccl-tests
	testGID      gidOf               // the latest GID that perftest prints and cannot work
	gpuBuffer    int                 // line by which perftest puts its buffer into a GPU
	testing      bool                // perftest or ibv_rc_pingpong has begun, and printed no result yet
	fatal        *report             // a hint after which NCCL's trace comes to the program
	direct       int                 // the first line of a channel by which a GPU writes into another one's memory
	ready        bool                // a communicator with several ranks is complete, and none was destroyed
	entered      foreignLine         // the latest line of a barrier to which not all have come
	together     bool                // all of them have met
	sizes        map[string]string   // rank -> elements of that operation
	progress     map[string]progress // process group -> how far its ranks came
	rooted       bool                // the next exit code is that of the process whose failure torchrun noticed first
	ownFault     bool                // that process ended by itself
	killed       bool                // or by SIGKILL
	stopped      map[string]bool     // PIDs of Ray's workers that PyTorch's watchdog ended
	died         map[string]bool     // PIDs of workers that Ray reports as dead
}

// members are the ranks of a communicator that a log shows, and how many it has.
type members struct {
	size  int
	ranks map[int]bool
}

// cudaOf is a version of CUDA, as major*100+minor, and the line that names it.
type cudaOf struct{ version, line int }

// gidOf is a GID that perftest prints, and its line. It is all zeros, or link-local.
type gidOf struct {
	line int
	zero bool
}

// maxHosts limits the memory for a log.
const maxHosts = 1 << 16

func newLogged(r *reading) *logged {
	return &logged{reading: r, hosts: map[string]*hostLog{}, versions: map[string]int{}, reports: map[reportOf]*report{}, waits: map[string]string{}, sizes: map[string]string{}, progress: map[string]progress{}, dialled: map[string]int{}, members: map[string]*members{}, testers: map[string]int{}, stopped: map[string]bool{}, died: map[string]bool{}}
}

// connects is an address to which NCCL connects: "Connect to 10.0.0.2<4321> failed", "connect to 10.0.0.2 returned".
var connects = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[Cc]onnect to (\d+\.\d+\.\d+\.\d+)<`) })

// line reads a line of a log. It returns the line's class; other: neither NCCL nor PyTorch's copy of its last error has written it.
func (l *logged) line(number int, line string) class {
	if strings.Contains(line, "onnect to ") && len(l.dialled) < maxFindings {
		if at := connects().FindStringSubmatch(line); at != nil && l.dialled[at[1]] == 0 {
			l.dialled[at[1]] = number
		}
	}
	line = withNCCL(line)
	l.background(number, line)
	l.workers(line)
	if strings.Contains(line, "WorkNCCL(") && !watched().MatchString(line) { // somebody has wrapped it
		waits(l, l.previous+line)
	}
	l.previous = line[:min(len(line), maxText)]
	if strings.Contains(line, "ast enqueued ") {
		l.steps(number, line)
	}
	l.firstFailure(line)
	_, v, version := strings.Cut(line, "NCCL version ")
	if version {
		version = l.ncclVersion(number, v)
	}
	if before, message, found := strings.Cut(line, "NCCL INFO "); found {
		l.prefixed = true
		l.tries(number, message)
		known := l.info(number, l.host(number, before), message)
		switch known = l.read(number, message, infoLine()) || known; {
		case known:
		case traces(message):
			l.traces = append(l.traces, number)
			if l.traced.of == nil && (strings.HasPrefix(message, "group.cc:") || strings.HasPrefix(message, "misc/group.cc:") || strings.HasPrefix(message, "enqueue.cc:")) {
				l.traced = foreignLine{number, message, codeOf(message)}
			}
		case troubled(message) && !usual(message):
			return unknown
		}
		return logLine
	}
	if before, message, found := strings.Cut(line, "NCCL WARN "); found {
		if strings.HasPrefix(message, "Failed to open libibverbs.so") { // –2.10.3
			l.host(number, before).noIB = number
			return logLine
		}
		where := strings.TrimSpace(before[strings.LastIndexByte(before, ']')+1:]) // "transport/nvls.cc:285"
		return l.warn(number, where, message)
	}
	if message := lastWarning(line); l.read(number, message, anyLine()) {
		return logLine
	}
	trimmed := strings.TrimSpace(line)
	blank := l.blank
	l.blank = trimmed == ""
	switch {
	case trimmed == "":
		l.lastError = l.lastError && l.spaced // else PyTorch has no warning to copy
	case l.lastError:
		l.lastError = false
		return l.warn(number, "", launched().ReplaceAllString(trimmed, ""))
	case listed().MatchString(trimmed): // somebody has wrapped the line of NET/Socket
		return l.also(number, trimmed)
	case strings.HasPrefix(trimmed, "NET/") && l.info(number, l.host(number, ""), strings.Replace(trimmed, "NET/IB: ", "NET/IB : ", 1)): // somebody has cut the beginning
		return logLine
	case strings.HasSuffix(trimmed, "Last error:"):
		l.lastError, l.spaced = true, blank
		l.other(number, line, trimmed) // it may all be in one line
		return logLine
	default:
		version = l.other(number, line, trimmed) || version
	}
	if version {
		return logLine
	}
	return other
}

// listed is one of NCCL's interfaces, in a line of its own: "[1]br-05ab815fa14e:172.19.0.1<0>".
var listed = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\[\d+\][\w.-]+:[0-9a-fA-F.:]+(%[\w.-]+)?<\d+>$`) })

// also reads one more interface of the latest host.
func (l *logged) also(number int, field string) class {
	if len(l.order) == 0 {
		return other
	}
	name, address, _ := strings.Cut(field[strings.Index(field, "]")+1:], ":")
	l.meets(number, l.hosts[l.order[len(l.order)-1]], name, address)
	return logLine
}

// launched is what PyTorch, mpirun, srun, Ray and vLLM write before each line of a rank.
var launched = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:(?:\[(?:rank)?\d+\]:?|\[\d+,\d+\]<std\w{3,4}>:|\d+:|\([\w ]{1,60}pid=\d+[^()]{0,80}\)|(?:ERROR|WARNING|INFO) \d\d-\d\d [\d:]{8} (?:\[[\w./]+\.py:\d+\]|[\w./]+\.py:\d+\])) *)+`)
})

// lastWarning returns NCCL's last warning as XLA quotes it: "… failed: internal error. Last NCCL warning(error) log entry (may be unrelated)
// 'TEXT'.; current tracing scope …". It returns "" if there is none.
func lastWarning(line string) string {
	_, quoted, found := strings.Cut(line, "Last NCCL warning(error) log entry (may be unrelated) '")
	end := strings.LastIndexByte(quoted, '\'')
	if !found || end <= 0 {
		return ""
	}
	return " " + warnMark + quoted[:end]
}

// withNCCL returns a line of NCCL before 2.4 ("host:1:2 [0] INFO …", "file.h:3 WARN …"), or one that somebody has cut, as later versions
// write it.
func withNCCL(line string) string {
	for _, level := range []string{"INFO ", "WARN "} {
		before, message, found := strings.Cut(line, level)
		if !found || strings.HasSuffix(before, "NCCL ") {
			continue
		}
		fields := strings.Fields(before)
		ours := before == "" && (strings.HasPrefix(message, "NET") || strings.HasPrefix(message, "Bootstrap"))
		if n := len(fields); n > 0 {
			file, number, colon := strings.Cut(fields[n-1], ":")
			ours = colon && digits(number) && (strings.HasSuffix(file, ".h") || strings.HasSuffix(file, ".cc") || strings.HasSuffix(file, ".cu"))
		}
		if n := len(fields); n > 1 && !ours {
			id := strings.Split(fields[n-2], ":")
			ours = strings.HasPrefix(fields[n-1], "[") && len(id) == 3 && digits(id[1]) && digits(id[2])
		}
		if ours {
			return before + "NCCL " + level + message
		}
	}
	return line
}

// tries notes a connection that NCCL wants to try again, as its last warning about it would be, and forgets it when ranks are connected.
func (l *logged) tries(number int, message string) {
	attempt, _, again := strings.Cut(message, ", retrying")
	if l.direct == 0 && strings.Contains(message, " via P2P/") {
		l.direct = number
	}
	l.ready = (l.ready || strings.Contains(message, "Init COMPLETE") && field(message, "nranks") != "1") && !strings.Contains(message, "Destroy COMPLETE")
	switch {
	case again && (strings.Contains(attempt, "onnect to") || strings.Contains(attempt, "connect returned") || strings.Contains(attempt, "ibv_modify_qp failed")):
		l.retried = foreignLine{number, " " + warnMark + attempt + ", exceeded error retry count", nil}
	case strings.Contains(message, "Init COMPLETE"), strings.Contains(message, "Connected all "):
		l.retried = foreignLine{}
	}
}

// warn reads a WARN line. where is the file of NCCL's source, which PyTorch's copy lacks.
func (l *logged) warn(number int, where, message string) class {
	if message != "" && !l.read(number, where+" "+warnMark+message, anyLine()) {
		l.strange(number, message)
		return unknown
	}
	return logLine
}

// warnMark separates the file of a warning from its text.
const warnMark = "NCCL WARN "

// maxWrapped is how many lines after its beginning a line may go on that somebody has wrapped.
const maxWrapped = 4

// rest reads the rest of a completion's line, which has both GIDs.
func (l *logged) rest(line string) {
	if l.completed.of.more == nil {
		return
	}
	if summary, _, _ := l.completed.of.more(l, line); summary != "" {
		l.completed.summary, l.completed.message = summary, line
	}
}

// foreignLine is a line whose meaning counts only beside others: of another program, or of a trace.
type foreignLine struct {
	number int
	text   string
	of     *meaning
}

// other notes a line of another program. Whether it reports an error or is prose, or a command that prints one, the rest of the
// file decides.
func (l *logged) other(number int, line, trimmed string) (known bool) {
	if strings.Contains(line, "emoteGid") && l.completed != nil && number-l.completedAt <= maxWrapped {
		l.rest(line)
	}
	if l.begins(number, line) {
		return false
	}
	l.tests(number, trimmed)
	output := anyOf(line, crashes)
	if strings.HasPrefix(trimmed, "# ") && output { // the title of a thread, or a comment: the rest of the file decides
		if m := anyLine().meant(inWords(line)); m != nil && len(l.foreign) < maxHosts {
			l.foreign = append(l.foreign, foreignLine{number, line, m})
		}
		return false
	}
	l.crashed = l.crashed || output
	switch {
	case strings.HasPrefix(trimmed, "#"), strings.HasPrefix(trimmed, "//"), isFrame(trimmed), anyOf(line, printers):
	case len(l.foreign) < maxHosts:
		m := anyLine().meant(inWords(line))
		switch {
		case m == nil:
		case output, slices.Contains(frameworkMeanings, m):
			l.record(number, line, m)
			return true
		default:
			l.foreign = append(l.foreign, foreignLine{number, line, m})
			l.crashed = l.crashed || slices.Contains(ownMeanings, m)
		}
	}
	return false
}

// workerPID is the process in lines of Ray: "(RayWorker pid=7) …" before each line of a worker, and "Worker PID: 7" of a dead one.
var workerPID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?:\bpid=|Worker PID: )(\d+)`) })

// workers notes workers of Ray that died, and those that PyTorch's watchdog ended.
func (l *logged) workers(line string) {
	into := l.stopped
	switch {
	case strings.Contains(line, "Worker PID: "):
		into = l.died
		_, line, _ = strings.Cut(line, "Worker IP address")
	case !strings.Contains(line, "pid=") || !strings.Contains(line, "Watchdog caught") && !strings.Contains(line, "taking the entire process down"):
		return
	}
	if at := workerPID().FindStringSubmatch(line); at != nil && len(into) < maxHosts {
		into[at[1]] = true
	}
}

// firstFailure notes how the process ended whose failure torchrun noticed first: it ends the others itself, at last by SIGKILL.
func (l *logged) firstFailure(line string) {
	l.rooted = l.rooted || strings.Contains(line, "Root Cause (first observed failure)")
	if _, code, found := strings.Cut(line, "exitcode  : "); found && l.rooted {
		l.rooted = false
		is := strings.HasPrefix(code, "-9 ")
		l.killed, l.ownFault = l.killed || is, l.ownFault || !is
	}
}

// endedByTorchrun reports whether torchrun killed processes because another one had failed.
func (l *logged) endedByTorchrun() bool { return l.ownFault && !l.killed }

// byWatchdog reports whether PyTorch's watchdog ended each worker whose death Ray reports.
func (l *logged) byWatchdog() bool {
	for pid := range l.died {
		if !l.stopped[pid] {
			return false
		}
	}
	return len(l.died) > 0
}

var (
	// driverCUDA is the CUDA that a driver supports, as NCCL's log and nvidia-smi print it.
	driverCUDA = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`cudaDriverVersion (\d\d)0(\d)0|\bCUDA Version: *(\d\d)\.(\d)`)
	})
	// builtCUDA is the CUDA that software was built with, as NCCL, nvcc and PyTorch's collect_env print it.
	builtCUDA = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`NCCL version \d[\d.]*\+cuda(\d\d)\.(\d)|compilation tools, release (\d\d)\.(\d)|CUDA Toolkit: *(\d\d)\.(\d)|CUDA used to build PyTorch: *(\d\d)\.(\d)`)
	})
)

// driverBranch is the driver's version, as PyTorch's collect_env prints it.
var driverBranch = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`Nvidia driver version: (\d{3})\.`) })

// branches are the CUDA that each branch of the driver supports (CUDA Toolkit's release notes, table of toolkit and driver versions).
var branches = map[string]int{"450": 1100, "455": 1101, "460": 1102, "465": 1103, "470": 1104, "495": 1105, "510": 1106, "515": 1107, "520": 1108, "525": 1200, "530": 1201, "535": 1202, "545": 1203, "550": 1204,
	"555": 1205, "560": 1206, "565": 1207, "570": 1208, "575": 1209, "580": 1300}

// nnodes is the number of hosts that a launcher is told.
var nnodes = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`--nnodes[= ](?:\d+:)?(\d+)\b`) })

// hostsOf is the list of hosts of mpirun.
var hostsOf = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`mpirun .*?-(?:H|host|-host) ([\w.:,-]+,[\w.:-]+)`) })

// background takes facts from any line: the versions of CUDA, and what is known of the machine.
func (l *logged) background(number int, line string) {
	line = line[:min(len(line), maxText)]
	if strings.Contains(line, "cudaDriverVersion") || strings.Contains(line, "CUDA") || strings.Contains(line, "+cuda") || strings.Contains(line, "compilation tools") {
		l.driver.note(number, driverCUDA().FindStringSubmatch(line))
		l.software.note(number, builtCUDA().FindStringSubmatch(line))
	}
	if strings.Contains(line, "--nnodes") {
		if at := nnodes().FindStringSubmatch(line); at != nil {
			n, _ := strconv.Atoi(at[1])
			l.asked = max(l.asked, n)
		}
	}
	if at := hostsOf().FindStringSubmatch(line); at != nil {
		l.asked = max(l.asked, strings.Count(at[1], ",")+1)
	}
	if _, index, found := strings.Cut(line, "--pkey_index"); found && l.pkeyAt == 0 && !strings.HasPrefix(strings.TrimLeft(index, " ="), "0") {
		l.pkeyAt = number
	}
	if fields := strings.Fields(line); len(fields) > 2 && fields[0] == "nvidia_peermem" && digits(fields[1]) && l.peermemAt == 0 {
		l.peermemAt = number
	}
	if at := driverBranch().FindStringSubmatch(line); at != nil && l.driver.version == 0 {
		l.driver = cudaOf{branches[at[1]], number}
	}
	l.spark = l.spark || strings.Contains(line, "GB10") || strings.Contains(line, "DGX Spark") || strings.Contains(line, "rocep1s0f") || strings.Contains(line, "roceP2p1s0f")
	l.amd = l.amd || anyOf(line, []string{"RCCL", "rccl", "ROCm version", "AMD Instinct", "AMD Radeon", "/opt/rocm", "HSA_", "HIP_VISIBLE_DEVICES", "amdgpu", "MI250X", "MI300X", "MI325X", "MI355X"})
	l.kernel7 = l.kernel7 || strings.Contains(line, "7.0.0-") || strings.Contains(line, "CmaTotal:        0 kB")
}

// note takes the version that an expression has found; the first counts.
func (c *cudaOf) note(number int, found []string) {
	for i := 1; i+1 < len(found) && c.version == 0; i += 2 {
		major, err := strconv.Atoi(found[i])
		minor, err2 := strconv.Atoi(found[i+1])
		if err == nil && err2 == nil {
			*c = cudaOf{major*100 + minor, number}
		}
	}
}

// tester is a line of the list of ranks that nccl-tests prints: "#  Rank  0 Group  0 Pid 4766 on GENOA-06 device  0 [0x21] NVIDIA …".
var tester = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^# +Rank +(\d+) +(?:Group +\d+ +)?Pid +\d+ on +(\S+) device +\d`)
})

// tests reads what nccl-tests, perftest and the examples of libibverbs (ibv_rc_pingpong) print of themselves.
func (l *logged) tests(number int, line string) {
	gid, found := strings.CutPrefix(line, "GID: ")
	if strings.Contains(line, " address: ") && strings.Contains(line, " PSN ") {
		_, gid, found = strings.Cut(line, ", GID ")
		l.testing = true
	}
	if found {
		switch gid = strings.TrimRight(gid, " \t"); {
		case strings.Count(gid, ":") == 15 && strings.Trim(gid, "0:") == "", gid == "::":
			l.testGID = gidOf{number, true}
		case strings.HasPrefix(gid, "254:128:"), strings.HasPrefix(gid, "fe80:"):
			l.testGID = gidOf{number, false}
		}
		return
	}
	if strings.HasPrefix(line, "# Avg bus bandwidth") {
		l.tested = number
	}
	if strings.Contains(line, "allocated GPU buffer") {
		l.gpuBuffer = number
	}
	if fields := strings.Fields(line); l.testing && len(fields) > 3 && digits(fields[0]) && (digits(fields[1]) || fields[1] == "bytes") { // a result
		l.testing = false
	}
	if at := tester().FindStringSubmatch(line); at != nil && len(l.testers) < maxHosts {
		l.testers[at[2]]++
	}
}

var (
	// crashes are parts of lines that only the output of a program has.
	crashes = []string{"Traceback (most recent call last)", "terminate called after throwing", "ProcessGroupNCCL", "DistBackendError", "DistNetworkError", "DistStoreError", "Test NCCL failure", "Test CUDA failure", "Root Cause (first observed failure)", "[c10d]", "mpirun noticed that", "prterun noticed that", "mpirun was unable to", "prterun was unable to", "srun: error:", "slurmstepd: error:", "NVRM: Xid", "ncclSystemError:", "ncclInternalError:", "ncclInvalidUsage:", "ncclUnhandledCudaError:", "ncclRemoteError:", "RuntimeError: ", "Bus error (core dumped)"}
	// frames are the beginnings of lines of a stack.
	frames = []string{"frame #", "C++ CapturedTraceback:", `File "`, "Exception raised from ", "raise ", "return ", "self."}
	// printers are parts of commands that print a text.
	printers = []string{"echo ", "print(", "printf ", "logger.info(", "logger.warn", "logger.error(", "logger.exception(", "logging.info(", "logging.warn", "logging.error(", "grep "}
	// erring are words of lines that report an error.
	erring = []string{"Error:", "ERROR:", "ERROR ", "error:", "Exception:", "FATAL", "fatal:", "Fatal", " failed:", "panic:", "]:[E", "[E "}
)

// isFrame reports whether a line belongs to a stack. vLLM writes its log's prefix before each: "ERROR 04-16 01:01:44
// [worker.py:620]   File …".
func isFrame(trimmed string) bool {
	if rank, rest, found := strings.Cut(trimmed, "]: "); found && strings.HasPrefix(rank, "[rank") { // of PyTorch
		trimmed = strings.TrimSpace(rest)
	}
	if trimmed == "" {
		return false
	}
	if _, rest, found := strings.Cut(trimmed, ".py:"); found {
		if number, text, found := strings.Cut(rest, "]"); found && digits(number) {
			if strings.HasPrefix(text, "   ") {
				return true
			}
			trimmed = strings.TrimSpace(text)
		}
	}
	if number, _, found := strings.Cut(strings.TrimPrefix(trimmed, "#"), " "); found && trimmed[0] == '#' && digits(number) { // of gdb, and "#4 std::…" of PyTorch
		return true
	}
	return slices.ContainsFunc(frames, func(f string) bool { return strings.HasPrefix(trimmed, f) })
}

func anyOf(line string, words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(line, w) })
}

// output reads the lines of other programs, if the file is what programs have printed.
func (l *logged) output() {
	if l.crashed || l.seen[logLine]+l.seen[unknown] > 0 {
		for _, f := range l.foreign {
			l.record(f.number, f.text, f.of)
			l.mark(f.number, logLine)
		}
	}
}

// host returns the host of a line. A line begins with "host:pid:tid [gpu]", often after a timestamp or a
// launcher's rank.
func (l *logged) host(number int, before string) *hostLog {
	name := ""
	for field := range strings.FieldsSeq(before) {
		parts := strings.Split(field, ":")
		if len(parts) == 3 && digits(parts[1]) && digits(parts[2]) {
			name = parts[0][strings.LastIndexAny(parts[0], "]>")+1:] // [1,0]<stdout>:host is mpirun's
		} else if len(parts) == 4 && digits(parts[2]) && digits(parts[3]) {
			name = parts[1]
		}
	}
	h := l.hosts[name]
	if h == nil {
		h = &hostLog{line: number, devices: map[string]bool{}}
		if len(l.hosts) < maxHosts {
			l.hosts[name] = h
			l.order = append(l.order, name)
		}
	}
	return h
}

func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// ncclVersion notes a version. It reports whether the text begins with one.
func (l *logged) ncclVersion(number int, text string) bool {
	text, _, _ = strings.Cut(text, " ")
	v, err := env.ParseVersion(text)
	if err != nil {
		return false
	}
	if l.version = v; l.versions[v.String()] == 0 {
		l.versions[v.String()] = number
	}
	return true
}

// info reads the message of an INFO line. It reports whether a rule knows the message.
func (l *logged) info(number int, h *hostLog, m string) (known bool) {
	h.setUp(number, m)
	switch {
	case strings.HasPrefix(m, "Using network "):
		h.network, _, _ = strings.Cut(strings.TrimPrefix(m, "Using network "), " ")
		h.at = number
	case strings.HasPrefix(m, "NET/IB : No device found") /* all */, strings.HasPrefix(m, "Failed to open libibverbs.so") /* 2.11.4–2.29.7 */, m == "Count not open libibverbs.so.1" /* 2.30.3– */ :
		h.noIB = number
	case strings.HasPrefix(m, "NET/IB : Using"):
		l.usingIB(number, h, m)
	case strings.HasPrefix(m, "NET/Socket : Using"), strings.HasPrefix(m, "Bootstrap : Using"), strings.HasPrefix(m, "Bootstrap: Using"), strings.HasPrefix(m, "NET : Using interface ") /* –2.3 */ :
		_, rest, _ := strings.Cut(m, "Using ")
		for field := range strings.FieldsSeq(strings.TrimPrefix(rest, "interface ")) {
			name, address, _ := strings.Cut(field[strings.Index(field, "]")+1:], ":")
			if name != "" && name[0] != '[' && address != "" { // otherwise the line is truncated
				l.meets(number, h, name, address)
			}
		}
	case strings.HasPrefix(m, "Could not get speed from /sys/class/net/"):
		name, _, _ := strings.Cut(strings.TrimPrefix(m, "Could not get speed from /sys/class/net/"), "/")
		if h.local == "" && isLocal(name) {
			h.local, h.localAt = name, number
		}
	case strings.Contains(m, "GPU Direct RDMA Disabled for ") && !strings.HasPrefix(m, "NET/Socket"): // sockets never have it
		h.disabled = number
	case strings.Contains(m, "GPU Direct RDMA Enabled for ") || strings.Contains(m, "GPU Direct RDMA (") && strings.Contains(m, ") enabled for HCA"):
		h.direct = true
	case strings.Contains(m, " via NET/"):
		l.channel(number, h, m)
	case strings.HasPrefix(m, "comm ") && strings.Contains(m, " nNodes "):
		n, _ := strconv.Atoi(field(m, "nNodes"))
		l.nodes = max(l.nodes, n)
	case strings.Contains(m, " nranks ") && (strings.Contains(m, " commId ") /* 2.18.1– */ || strings.HasSuffix(strings.TrimSpace(m), "Init COMPLETE")):
		l.joins(field(m, "commId"), field(m, "rank"), field(m, "nranks"))
	case strings.Contains(m, " set by environment to "):
		name, value, _ := strings.Cut(m, " set by environment to ")
		l.noteSetting(number, name, strings.TrimSuffix(value, "."))
	case strings.HasPrefix(m, "NCCL_") && strings.Contains(m, " set to "):
		name, value, _ := strings.Cut(m, " set to ")
		l.noteSetting(number, name, value)
	case strings.HasPrefix(m, "Invalid value "):
		l.say(number, env.Error, "Invalid value for NCCL", shorten(m), "NCCL uses its default.", "Write a whole number.")
	case strings.HasPrefix(m, "NET/IB") && strings.Contains(m, " GID ") && strings.Contains(m, " mtu "):
		l.connection(number, m)
	default:
		return false
	}
	return true
}

// setUp notes the plugin for the network, and that a communicator is complete.
func (h *hostLog) setUp(number int, m string) {
	switch {
	case strings.HasPrefix(m, "comm ") && strings.HasSuffix(m, "Init COMPLETE") && field(m, "nranks") != "1":
		h.complete = true
	case strings.HasPrefix(m, "Plugin Path : ") /* HPC-X */, strings.HasPrefix(m, "P2P plugin ") /* HPC-X */, strings.Contains(m, "Loaded net plugin ") /* 2.9– */ :
		h.plugin = strings.TrimSpace(m[strings.LastIndexAny(m[:len(m)-1], " ")+1:])
	case strings.Contains(m, "sing internal network plugin"), strings.Contains(m, "No plugin found (libnccl-net.so)"):
		h.internal = number
	}
}

// joins notes a rank of a communicator.
func (l *logged) joins(id, rank, size string) {
	r, err1 := strconv.Atoi(rank)
	n, err2 := strconv.Atoi(size)
	if err1 != nil || err2 != nil || len(l.members) >= maxHosts {
		return
	}
	if id == "" {
		id = size // communicators of equal size are not told apart
	}
	c := l.members[id]
	if c == nil {
		c = &members{size: n, ranks: map[int]bool{}}
		l.members[id] = c
	}
	if len(c.ranks) < min(c.size, maxHosts) {
		c.ranks[r] = true
	}
}

// oneHost reports whether the log shows all ranks of its communicators, and all of them on one host. NCCL's own number of nodes
// can be larger: NCCL_HOSTID divides a host.
func (l *logged) oneHost() bool {
	if len(l.order) != 1 || l.order[0] == "" || l.hosts[l.order[0]].several || l.hosts[l.order[0]].remote {
		return false
	}
	found := false
	for _, c := range l.members {
		if len(c.ranks) < c.size {
			return false
		}
		found = found || c.size > 1
	}
	return found
}

func (l *logged) noteSetting(number int, name, value string) {
	if strings.HasPrefix(name, "NCCL_") && !strings.ContainsAny(name, " \t") && len(l.settings) < maxFindings {
		if s, ok := find(l.settings, name); !ok || s.value != value {
			l.settings = append(l.settings, setting{line: number, name: name, value: value, where: "log"})
		}
	}
}

// manyDevices is more RDMA devices than the NICs of a host make.
const manyDevices = 20

// usingIB parses " NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>".
func (l *logged) usingIB(number int, h *hostLog, m string) {
	list, oob, _ := strings.Cut(m, "; OOB ")
	h.roce = h.roce || strings.Contains(list, "/RoCE")
	for field := range strings.FieldsSeq(list) {
		bracket := strings.Index(field, "]")
		if strings.HasPrefix(field, "[") && strings.Contains(field+"/", "/IB/") && h.roce && h.mixed == 0 {
			h.mixed = number
		}
		colon := strings.Index(field, ":")
		if strings.HasPrefix(field, "[") && bracket > 0 && colon > bracket && len(h.devices) < 64 {
			h.devices[field[bracket+1:colon]] = true
		}
	}
	if n := len(h.devices); n > manyDevices {
		l.say(number, env.Warning, "Many devices", fmt.Sprintf("NCCL uses %d RDMA devices of one host.", n), "So many are mostly virtual functions of containers or virtual machines, without an address here: connections over them fail or hang.", "Set NCCL_IB_HCA to = followed by the devices of this job's NICs (ibdev2netdev shows which belong to its interfaces).")
	}
	if name, address, _ := strings.Cut(oob, ":"); name != "" {
		l.meets(number, h, name, address)
	}
}

// meets notes an interface for bootstrap or sockets, with its address as ncclSocketToString prints it: "10.0.0.1<0>". The first is
// bootstrap's.
func (l *logged) meets(number int, h *hostLog, name, address string) {
	address, _, _ = strings.Cut(address, "<")
	address, _, _ = strings.Cut(address, "%")
	a, _ := netip.ParseAddr(strings.Trim(address, "[]"))
	if h.oob == "" {
		h.oob, h.address = name, a.Unmap()
	}
	h.several = h.several || name == h.oob && a.Unmap() != h.address
	if h.fe80 == "" && h.oob == name && a.Is6() && a.IsLinkLocalUnicast() {
		h.fe80, h.fe80At = name, number
	}
	if h.aside == "" && h.oob != name && a.Is6() && a.IsLinkLocalUnicast() {
		h.aside, h.asideAt = name, number
	}
	if h.local == "" && isLocal(name) {
		h.local, h.localAt, h.localIP = name, number, a.Unmap().String()
	}
}

// isLocal reports whether an interface is one of this machine alone by its name: a container's own may be called veth0, but the
// host's end of it has a long random name.
func isLocal(name string) bool {
	for _, p := range []string{"docker", "virbr", "br-", "cni", "flannel", "cali", "lxc", "podman", "kube-", "nodelocaldns", "pod-id-link"} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return name == "lo" || strings.HasPrefix(name, "veth") && len(name) > len("veth123")
}

// channel parses "Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA".
func (l *logged) channel(number int, h *hostLog, m string) {
	_, path, _ := strings.Cut(m, " via NET/")
	h.remote = true
	switch {
	case strings.Contains(path, "GDRDMA"):
		h.gdr++
	case strings.HasPrefix(path, "IB"):
		if h.channels == 0 {
			h.channels = number
		}
	case strings.HasPrefix(path, "Socket") && h.network == "":
		h.network, h.at = "Socket", number
	}
}
