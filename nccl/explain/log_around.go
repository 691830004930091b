package explain

import (
	"slices"
	"strconv"
	"strings"
)

// told is what prose, settings and programs around the log say of the job.
type told struct {
	shortShm      int    // line of prose about a /dev/shm that is too small
	bareShm       int    // line of a docker run that leaves /dev/shm as it is
	containers    int    // line of prose about ranks in several containers
	jaxPrograms   int    // programs in the text that call jax.distributed.initialize
	jaxCollective int    // those of them that compute over all devices
	jaxDone       bool   // the last of them does
	pinning       int    // line of a traceback that is in the DataLoader's thread
	fileAt        int    // line by which the ranks meet by a file
	loopAt        int    // line by which the ranks meet at localhost
	disableAt     int    // line of prose that names NCCL_IB_DISABLE, or that sets it
	mpiAt         int    // line of an option of Open MPI for its own interfaces
	mpiOver       string // and what it names
	preparing     int    // line of a bar of a program that prepares data, and has not ended
	loadedAt      int    // line by which a rank has its weights
	dataAt        int    // line of prose about data that are loaded or prepared
	epochAt       int    // line of prose that tells when: at the end of an epoch, or at an evaluation
	stuck         int    // line of prose that tells of a hang
	unkillable    bool   // and says that the processes cannot be killed
}

// devices is what lines around NCCL's show of hosts, drivers and devices.
type devices struct {
	peermemAt   int    // line of lsmod that shows the module nvidia_peermem
	asksPeermem bool   // the previous line asks lsmod for a module of GPUDirect RDMA
	noPeermemAt int    // line of such a command that shows none
	pkeyAt      int    // line of a test of RDMA with another partition key than the first
	noGUID      int    // line that shows a node GUID of zeros
	fe80Path    int    // line in which UCX sends to a link-local GID
	routedGID   bool   // a connection used a GID of an IPv4 address
	ucxTLS      string // value of UCX_TLS without a transport of RDMA
	provider    bool   // a plugin has selected a provider of libfabric
	thinAt      int    // line of NCCL's topology with a PCI link of one lane and 2.5 GT/s
	joinedAt    int    // line by which NCCL joins hosts by NVLink
	testing     bool   // perftest or ibv_rc_pingpong has begun, and printed no result yet
	testGID     gidOf  // the latest GID that perftest prints and cannot work
	gpuBuffer   int    // line by which perftest puts its buffer into a GPU
	unlocked    int    // line that shows that memlock is unlimited
	driver      cudaOf // what the GPU's driver supports
	software    cudaOf // what NCCL or the program was built with
	wsl         bool   // it speaks of Windows' subsystem for Linux
	spark       bool   // the text speaks of a DGX Spark
	kernel7     bool   // and of Linux 7.0
}

// ends are how processes ended.
type ends struct {
	rooted     bool              // the next exit code is that of the process whose failure torchrun noticed first
	firstEnded map[string]string // its host, rank and exitcode
	ownFault   bool              // that process ended by itself
	killed     bool              // or by SIGKILL
	ignored    int               // latest line by which Python ignores an exception
	stopped    map[string]bool   // PIDs of Ray's workers that PyTorch's watchdog ended
	died       map[string]bool   // PIDs of workers that Ray reports as dead
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
	if l.source {
		return false
	}
	if strings.Contains(line, "Exception ignored in") { // of a destructor, after the program has failed
		l.ignored = number
	}
	if l.ignored > 0 && number-l.ignored <= maxIgnored && raised.re().MatchString(launched.re().ReplaceAllString(trimmed, "")) {
		l.ignored = 0
		l.mark(number, traceLine)
		return false
	}
	output := anyOf(line, crashes)
	if title := strings.TrimLeft(trimmed, "#"); strings.HasPrefix(title, " ") && title != trimmed && (output || number == 1) { // the title of a thread, or a comment: the rest of the file decides
		if m := anyLine().meant(inWords(line)); m != nil && len(l.foreign) < maxHosts {
			l.foreign = append(l.foreign, foreignLine{number, line, m})
		}
		return false
	}
	l.crashed = l.crashed || output
	switch {
	case strings.HasPrefix(trimmed, "#"), strings.HasPrefix(trimmed, "//"), isFrame(trimmed), isCode(trimmed), detail.re().MatchString(line), anyOf(line, printers):
	case len(l.foreign) < maxHosts:
		m := anyLine().meant(inWords(line))
		switch {
		case m == nil, m.role == harmless && m.hides(line):
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

// maxIgnored limits the lines between Python's words that it ignores an exception and that exception.
const maxIgnored = 12

// workerPID is the process in lines of Ray: "(RayWorker pid=7) …" before each line of a worker, and "Worker PID: 7" of a dead one.
var workerPID = pattern{text: `(?:\bpid=|Worker PID: )(\d+)`}

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
	if at := workerPID.re().FindStringSubmatch(line); at != nil && len(into) < maxHosts {
		into[at[1]] = true
	}
}

// endOfRank is a line of torchrun's report on a process that failed (torch/distributed/elastic/multiprocessing/errors/__init__.py).
var endOfRank = pattern{text: `\b(host|rank|exitcode) +: ([\w.-]+)`}

// firstFailure notes how the process ended whose failure torchrun noticed first: it ends the others itself, at last by SIGKILL.
func (l *logged) firstFailure(line string) {
	if strings.Contains(line, "Root Cause (first observed failure)") {
		l.rooted, l.firstEnded = true, map[string]string{}
	}
	if !l.rooted {
		return
	}
	if at := endOfRank.re().FindStringSubmatch(line); at != nil {
		l.firstEnded[at[1]] = at[2]
	}
	if code, found := l.firstEnded["exitcode"]; found {
		l.rooted = false
		is := code == "-9"
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
	driverCUDA = pattern{text: `cudaDriverVersion (\d\d)0(\d)0|\bCUDA Version: *(\d\d)\.(\d)`}
	// builtCUDA is the CUDA that software was built with, as NCCL, nvcc and PyTorch's collect_env print it.
	builtCUDA = pattern{text: `NCCL version \d[\d.]*\+cuda(\d\d)\.(\d)|compilation tools, release (\d\d)\.(\d)|CUDA Toolkit: *(\d\d)\.(\d)|CUDA used to build PyTorch: *(\d\d)\.(\d)`}
)

// driverBranch is the driver's version, as PyTorch's collect_env prints it.
var driverBranch = pattern{text: `Nvidia driver version: (\d{3})\.`}

// branches are the CUDA that each branch of the driver supports (CUDA Toolkit's release notes, table of toolkit and driver versions).
var branches = map[string]int{"450": 1100, "455": 1101, "460": 1102, "465": 1103, "470": 1104, "495": 1105, "510": 1106, "515": 1107, "520": 1108, "525": 1200, "530": 1201, "535": 1202, "545": 1203, "550": 1204,
	"555": 1205, "560": 1206, "565": 1207, "570": 1208, "575": 1209, "580": 1300}

// prepares is the bar of a program that prepares data, as datasets, axolotl and Ultralytics draw it: "Map (num_proc=8):  41%|".
var prepares = pattern{text: `(?i)\b(?:(?:pre-?)?process|tokeniz|map\b|filter|scanning|caching|packing|group)[^|%]*? *\b(\d+)%\|`}

// preparesData is prose about data that a rank loads or prepares before the first step.
var preparesData = pattern{text: `(?i)\b(?:tokeniz(?:e|es|ing|ation)|pre-?process(?:es|ing)?)\b|\bdatasets?\b.{0,30}\b(?:load|process|cach|prepar)(?:s|es|ing|ed)?\b|\b(?:load|process|cach|prepar)(?:s|es|e|ing)? (?:of )?(?:the |a |my |our |large |huge |big )*(?:datasets?|data)\b|数据集.{0,4}(?:加载|处理)|(?:加载|处理).{0,4}数据|预处理`}

// nnodes is the number of hosts that a launcher is told.
var nnodes = pattern{text: `--nnodes[= ](?:\d+:)?(\d+)\b`}

// ofSkyPilot is what SkyPilot writes before a line of a task with several hosts; with one host it is "(task, pid=7)".
var ofSkyPilot = pattern{text: `^\((?:head|worker\d+), rank=\d+, pid=`}

// largeRank is the beginning of a line of SGLang or PyTorch by a rank that no host with eight GPUs has.
var largeRank = pattern{text: `^\[(?:rank|[\d: .-]{10,30} (?:DP\d+ )?TP)(?:[89]|[1-9]\d+)\b`}

// blames is what PyTorch's watchdog says of the rank that saw a timeout first.
var blames = pattern{text: `due to a collective timeout from +rank (\d+)`}

// secondHost is a heading of what is for the second of several hosts, or the call by which a trainer of another host joins a server of vLLM.
var secondHost = pattern{text: `(?i)^\W{0,4}(?:node|host|machine|server|worker)[ _-]?[12]\b\W{1,4}\d+\.\d+\.\d+\.\d+|^INFO: +(?:1[013-9]|[2-9])\d*\.[\d.]+:\d+ - "POST /init_communicator`}

// byFile is a file by which the ranks of PyTorch meet.
var byFile = pattern{text: `init_method\W{1,4}file://`}

// meetsHere is the address at which a program lets its ranks meet, where it is that of each host alone.
var meetsHere = pattern{text: `(?i)\binit[ _]method\W{1,3}tcp://(?:localhost|127\.0\.0\.1):\d`}

// disablesIB is a line by which RDMA should not be used.
var disablesIB = pattern{text: `NCCL_IB_DISABLE(?:[= :"']+(?:set by environment to )?1\b|\W{1,3} *(?:is|was|gets) (?:ignored|not)| does not| doesn't| has no effect| set by environment to 1)`}

// mpiOver is an option of Open MPI that names the interfaces which MPI itself uses.
var mpiOver = pattern{text: `--?mca +(?:btl|oob)_tcp_if_include +([\w./,:-]+)`}

// hostsOf is the list of hosts of mpirun.
var hostsOf = pattern{text: `mpirun .*?-(?:H|host|-host) +([\w.:,-]+,[\w.:-]+)`}

var (
	// ofOneHost is what launchers and vLLM say where a job has one host; ofMore are options and settings with which it may have more.
	ofOneHost = pattern{text: `\bDetected 1 nodes in the distributed environment|\bdistributed_init_method=tcp://(?:127\.0\.0\.1|localhost):|\bnnodes=1,|\bmpirun\b.* -(?:n|np) \d+ |\b(?:torchrun|torch\.distributed\.(?:launch|run))\b.* --nproc[_-]per[_-]node`}
	ofMore    = pattern{text: `\bsrun\b|-hosts?\b|-H\b|hostfile|machinefile|--nnodes|--rdzv|[_-]rank\b|\$[\w{(]`}
)

// unlocked is a line that shows that memlock is unlimited. A command that sets it shows nothing: it may fail, or be of
// another host. A program that runs only after it does.
var unlocked = pattern{text: `(?i:max locked memory)\s+(?:\(k\w+, -l\) )?unlimited|ulimit -l\W*(?:is|was|says|shows|gives|returns|=|:|->).{0,20}unlimited|\bulimit -l unlimited *&&|\bmemlock=-1`}

// noLimit takes back that memlock is the reason, if a line shows that it is unlimited.
func (l *logged) noLimit() {
	for _, r := range l.inOrder {
		if l.unlocked > 0 && r.summary == "memlock is limited" {
			r.summary, r.unlocked = "Memory cannot be pinned", l.unlocked
		}
	}
}

// background takes facts from any line: the versions of CUDA, and what is known of the machine.
func (l *logged) background(number int, line string) {
	line = line[:min(len(line), maxText)]
	if strings.Contains(line, "cudaDriverVersion") || strings.Contains(line, "CUDA") || strings.Contains(line, "+cuda") || strings.Contains(line, "compilation tools") {
		l.driver.note(number, driverCUDA.re().FindStringSubmatch(line))
		l.software.note(number, builtCUDA.re().FindStringSubmatch(line))
	}
	if strings.Contains(line, "--nnodes") {
		if at := nnodes.re().FindStringSubmatch(line); at != nil {
			n, _ := strconv.Atoi(at[1])
			l.asked = max(l.asked, n)
		}
	}
	if strings.Contains(line, "%|") {
		if bars := prepares.re().FindAllStringSubmatch(line, -1); len(bars) > 0 {
			l.preparing = number
			if bars[len(bars)-1][1] == "100" {
				l.preparing = 0
			}
		}
	}
	if l.joinedAt == 0 && (strings.Contains(line, " MNNVL 1") || strings.Contains(line, "MNNVL busId")) && !strings.Contains(line, "cliqueSize 1 ") {
		l.joinedAt = number
	}
	if at := largeRank.re().FindStringSubmatch(line); at != nil {
		l.asked = max(l.asked, 2)
	}
	if at := blames.re().FindStringSubmatch(line); at != nil && l.sawFirst == "" {
		l.sawFirst = at[1]
	}
	if secondHost.re().MatchString(line) {
		l.asked = max(l.asked, 2)
	}
	if l.fileAt == 0 && byFile.re().MatchString(line) {
		l.fileAt = number
	}
	if l.loopAt == 0 && meetsHere.re().MatchString(line) {
		l.loopAt = number
	}
	if l.disableAt == 0 && disablesIB.re().MatchString(line) {
		l.disableAt = number
	}
	if at := mpiOver.re().FindStringSubmatch(line); at != nil && l.mpiAt == 0 {
		l.mpiAt, l.mpiOver = number, at[1]
	}
	if strings.HasPrefix(line, "(head, rank=") || strings.HasPrefix(line, "(worker1, rank=") { // SkyPilot's, for several hosts
		l.asked = max(l.asked, 2)
	}
	if at := hostsOf.re().FindStringSubmatch(line); at != nil {
		l.asked = max(l.asked, strings.Count(at[1], ",")+1)
	}
	if ofSkyPilot.re().MatchString(line) {
		l.asked = max(l.asked, 2)
	}
	if ofOneHost.re().MatchString(line) && !ofMore.re().MatchString(line) {
		l.asked = max(l.asked, 1)
	}
	if _, index, found := strings.Cut(line, "--pkey_index"); found && l.pkeyAt == 0 && !strings.HasPrefix(strings.TrimLeft(index, " ="), "0") {
		l.pkeyAt = number
	}
	if fields := strings.Fields(line); len(fields) > 2 && fields[0] == "nvidia_peermem" && digits(fields[1]) && l.peermemAt == 0 {
		l.peermemAt = number
	}
	if l.thinAt == 0 && (strings.Contains(line, "+ PCI[0.2] - PCI/") || strings.Contains(line, "+ PCI[0.2] - GPU/")) { // width * speed / 80 (graph/topo.cc)
		l.thinAt = number
	}
	if anyOf(line, []string{"Load weight end", "checkpoint shards: 100%", "Loading weights took"}) {
		l.loadedAt = number
	}
	if l.dataAt == 0 && !isFrame(strings.TrimSpace(line)) && !strings.Contains(line, "[rank") && preparesData.re().MatchString(line) {
		l.dataAt = number
	}
	if l.epochAt == 0 && epochEnds.re().MatchString(line) {
		l.epochAt = number
	}
	if asks := peermemAsked.re().MatchString(line); l.asksPeermem && !strings.Contains(line, "peer") || asks && l.asksPeermem {
		l.noPeermemAt, l.asksPeermem = number-1, asks
	} else {
		l.asksPeermem = asks
	}
	if at := driverBranch.re().FindStringSubmatch(line); at != nil && l.driver.version == 0 {
		l.driver = cudaOf{branches[at[1]], number}
	}
	if l.shortShm == 0 && strings.Contains(line, "/dev/shm") && tooSmall.re().MatchString(line) {
		l.shortShm = number
	}
	if l.noGUID == 0 && noGUID.re().MatchString(line) {
		l.noGUID = number
	}
	if strings.Contains(line, "jax.distributed.initialize(") && strings.Contains(line, "process_id=") {
		l.jaxPrograms, l.jaxDone = l.jaxPrograms+1, false
	}
	if l.jaxPrograms > 0 && !l.jaxDone && jaxCollective.re().MatchString(line) {
		l.jaxDone, l.jaxCollective = true, l.jaxCollective+1
	}
	if l.pinning == 0 && (strings.Contains(line, "in _pin_memory_loop") || strings.Contains(line, "in rebuild_storage_fd")) {
		l.pinning = number
	}
	if at := ucxTLS.re().FindStringSubmatch(line); at != nil && !anyOf(at[1], []string{"rc", "dc", "ud", "ib", "all", "^", "$"}) {
		l.ucxTLS = at[1]
	}
	if l.fe80Path == 0 && strings.Contains(line, " sgix ") && strings.Contains(line, " dgid fe80:") { // UCX, ib_mlx5_log.c
		l.fe80Path = number
	}
	if l.bareShm == 0 && bareDocker.re().MatchString(line) && !anyOf(line, []string{"--shm-size", "--ipc", "/dev/shm"}) {
		l.bareShm = number
	}
	if l.containers == 0 && inContainers.re().MatchString(line) {
		l.containers = number
	}
	l.wsl = l.wsl || strings.Contains(line, "WSL") || strings.Contains(line, "microsoft-standard") || strings.Contains(line, "wsl2")
	l.spark = l.spark || strings.Contains(line, "GB10") || strings.Contains(line, "DGX Spark") || strings.Contains(line, "rocep1s0f") || strings.Contains(line, "roceP2p1s0f")
	l.amd = l.amd || anyOf(line, []string{"RCCL", "rccl", "ROCm version", "AMD Instinct", "AMD Radeon", "/opt/rocm", "HSA_", "HIP_VISIBLE_DEVICES", "amdgpu", "ROCM", "(rocm)", "MI250X", "MI300X", "MI325X", "MI355X"})
	if l.unlocked == 0 && (unlocked.re().MatchString(line) || strings.Contains(l.previous, "ulimit -l") && strings.TrimSpace(line) == "unlimited") {
		l.unlocked = number
	}
	l.routedGID = l.routedGID || strings.Contains(line, "ocalGid ::ffff:")
	l.provider = l.provider || strings.Contains(line, "NET/OFI Selected ")
	l.spark = l.spark || strings.Contains(l.previous, "CmaTotal:        0 kB") && strings.HasPrefix(line, "CmaFree: ") && !strings.HasSuffix(line, "  0 kB")
	l.kernel7 = l.kernel7 || strings.Contains(line, "7.0.0-") || strings.Contains(line, "CmaTotal:        0 kB")
}

// tooSmall is prose, or a row of df, about a /dev/shm that is full or has Docker's default size.
var tooSmall = pattern{text: `(?i)\b(?:out of|full|fills?(?: up)?|exhausts?|not enough|too small|insufficient)\b.{0,20}/dev/shm|/dev/shm.{0,20}\b(?:(?:is|gets|was) (?:full|too small)|fills? up|has no space)|^shm +64M .*/dev/shm|100% +/dev/shm`}

// noGUID is a node GUID of zeros, as ibstat, ibv_devinfo and people write it.
var noGUID = pattern{text: `(?i)\bnode[ _]guid\b.{0,8}\b0(?:000:0000:0000:0000|x0{16})\b`}

// inContainers is prose about ranks in several containers.
var inContainers = pattern{text: `(?i)\b(?:two|2|both|different|separate|several|multiple) (?:\w+ )?containers\b|\b(?:two|2|both|different|separate|several|multiple) docker\b`}

// epochEnds is a sentence by which a job stops at the end of an epoch, or at an evaluation.
var epochEnds = pattern{text: `(?i)\b(?:at|after|near|before) (?:the )?(?:very )?(?:end|last (?:step|batch|iteration)) of (?:the |each |every |an? |one |first |1st |training )*epoch|\b(?:last|final) (?:step|batch|iteration|checkpoint)\b.{0,20}\bepoch\b|\b(?:due to|because|when|once|as) (?:the |an? )?epoch (?:has |is |was )?(?:finish\w*|end\w*|done|complete\w*)\b|\bafter (?:the |an? |one |each |every |first |1 )+epochs?\b|\b(?:during|after|before|while|in the|at) (?:the )?(?:eval(?:uation|uating)?|validation|validating)\b|\b(?:unequal|uneven|unbalanced|different)(?: numbers? of)? (?:data|datasets?|batch(?:es)?|samples?|steps)\b`}

// peermemAsked is a command that asks whether a module for GPUDirect RDMA is loaded, at a prompt: without one, it may be advice.
var peermemAsked = pattern{text: `[#$] *(?:sudo )?lsmod *\| *grep .{0,10}(?:peer_?mem)`}

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

// progressed is a row of results of nccl-tests, or a line of a training's progress.
var progressed = pattern{text: `^ *\d+ +\d+ +\w+ .* \d+\.\d+ +\d+\.\d+|\b\d+\.\d+ ?(?:it/s|s/it)\b|\bloss[: =]+\d`}

// tester is a line of the list of ranks that nccl-tests prints: "#  Rank  0 Group  0 Pid 4766 on GENOA-06 device  0 [0x21] NVIDIA …".
var tester = pattern{text: `^# +Rank +(\d+) +(?:Group +\d+ +)?Pid +\d+ on +(\S+) device +\d`}

// tests reads what nccl-tests, perftest, Mooncake and the examples of libibverbs (ibv_rc_pingpong) print of themselves.
func (l *logged) tests(number int, line string) {
	gid, found := strings.CutPrefix(line, "GID: ")
	if strings.Contains(line, " address: ") && strings.Contains(line, " PSN ") {
		_, gid, found = strings.Cut(line, ", GID ")
		l.testing = true
	}
	if _, listed, of := strings.Cut(line, "GID: (GID_Index "); of { // Mooncake's rdma_context.cpp: bytes in hexadecimal
		if _, gid, _ = strings.Cut(listed, ") "); strings.HasPrefix(gid, "fe:80:") {
			l.testGID = gidOf{number, false}
		}
		return
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
	if strings.Contains(line, "allocated GPU buffer") || strings.Contains(line, "--use_cuda") || strings.Contains(line, "--use_rocm") {
		l.gpuBuffer = number
	}
	if fields := strings.Fields(line); l.testing && len(fields) > 3 && digits(fields[0]) && (digits(fields[1]) || fields[1] == "bytes") { // a result
		l.testing = false
	}
	if strings.HasPrefix(line, "#") && strings.Contains(line, " size ") && strings.Contains(line, "busbw") {
		l.table = number
	}
	l.moved = l.moved || strings.HasPrefix(line, "# Avg bus bandwidth") || progressed.re().MatchString(line)
	if at := tester.re().FindStringSubmatch(line); at != nil && len(l.testers) < maxHosts {
		l.testers[at[2]]++
	}
}

var (
	// crashes are parts of lines that only the output of a program has.
	crashes = []string{"Traceback (most recent call last)", "terminate called after throwing", "ProcessGroupNCCL", "ProcessGroupGloo.cpp", "Gloo connectFullMesh failed", "DistBackendError", "DistNetworkError", "DistStoreError", "Test NCCL failure", "Test CUDA failure", "Root Cause (first observed failure)", "[c10d]", "mpirun noticed that", "prterun noticed that", "mpirun was unable to", "prterun was unable to", "srun: error:", "slurmstepd: error:", "NVRM: Xid", "ncclSystemError:", "ncclInternalError:", "ncclInvalidUsage:", "ncclUnhandledCudaError:", "ncclRemoteError:", "RuntimeError: ", "Bus error (core dumped)"}
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
	if trimmed == "" || strings.HasPrefix(trimmed, "Exception raised from checkTimeout at") || strings.HasPrefix(trimmed, "Exception raised from ncclCommWatchdog at") { // the only line of a timeout, if the others were left out
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

// statement is a line of a Python program: a statement, or a call that is all of the line.
var statement = pattern{text: `^(?:(?:async )?def \w+\(|class \w+\b.*:|import [\w., ]+$|from [\w.]+ import |(?:el)?if .*:|else:|try:|finally:|except\b.*:|(?:async )?(?:for|with) .*:|while .*:|[a-z_][\w.]*\((?:[^()]|\([^()]*\))*\)$)`}

// isCode reports whether a line is of a program's text, which names errors and calls that nothing has reported.
func isCode(trimmed string) bool { return statement.re().MatchString(trimmed) }

// detail is what UCX and libfabric print below the level of a warning (ucs/debug/log.c; prov/util/src/util_log.c): of what they try, much fails as it should.
var detail = pattern{text: `UCX  (?:INFO|DEBUG|TRACE|REQ|DATA|ASYNC|FUNC|POLL) |^libfabric:.*<(?:info|debug|trace)> `}

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

// jaxCollective is a computation of JAX over the devices of all processes.
var jaxCollective = pattern{text: `\b(?:psum|pmean|pmap|pjit|shard_map|all_gather|multihost_utils\.\w+)\(`}

// bareDocker is a whole docker run with GPUs and an image.
var bareDocker = pattern{text: `\bdocker run .*--(?:gpus|runtime)\b.* \S*\w[\w.-]*[:/][\w.-]+`}

// ucxTLS is a setting of UCX's transports.
var ucxTLS = pattern{text: `\bUCX_TLS=["']?([^\s"']+)`}
