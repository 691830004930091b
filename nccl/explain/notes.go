package explain

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/fabricform/fabricform/nccl/env"
)

// prose reads what notes say around their commands: names without a value, claims, and counters of priorities.
func (s *script) prose(text string, kind Kind) {
	previous := ""
	number, prio, all, hostfile := 0, 0, strings.Contains(text, "rx_prio0_") /* of all priorities */, strings.Contains(text, "hostfile")
	services := sync.OnceValue(func() bool { return startsJobs.re().MatchString(text) })
	for line := range strings.Lines(text) {
		number++
		if p, ok := strings.CutPrefix(strings.TrimSpace(line), "rx_prio"); ok && !all && prio == 0 && len(p) > 2 && '1' <= p[0] && p[0] <= '7' && p[1] == '_' {
			prio = int(p[0] - '0')
			s.priority(number, prio)
		}
		s.limits(number, line, services)
		s.ofLogins(number, line, services)
		s.mounted(number, line)
		if kind == Notes || kind == Commands || kind == Log {
			if said().setsDirect.MatchString(line) {
				s.cured(number, previous+line)
			}
			s.cured(number, line)
			s.portsTold(number, line)
			s.mtuTold(number, line)
			s.namesTold(number, line)
			if hostfile {
				s.slotsTold(number, line)
			}
		}
		if kind == Notes {
			s.claims(number, line)
		}
		switch text := strings.Trim(line, ":`. \t\r\n"); {
		case text == "" || text == "bash" || text == "shell" || text == "sh": // a fence
		case previous != "" && said().leads.MatchString(text):
			previous += text + " "
		default:
			previous = text + " "
		}
	}
	if kind == Notes || kind == Python {
		s.oneElement(text)
	}
	if kind == Notes || kind == Python || kind == Commands || kind == Log {
		s.ranks(text)
		s.spawned(text)
		s.oneOf(text)
		s.sameGPU(text)
		s.noGPU(text)
		s.partOfRanks(text)
		s.eachFirst(text)
		s.bridgeTold(text)
		s.oneHostTold(text, kind)
		s.sharedTold(text)
		s.zeroTold(text)
		s.lostCopy(text)
	}
}

var (
	// bothFirst is a sentence by which several processes have rank 0.
	bothFirst = pattern{text: `(?i)\b(?:both|each|all|every)\b.{0,40}\brank 0\b`}
	// bridging is a sentence about Docker's bridge networks.
	bridging = pattern{text: `(?i)\bbridge["'”\x60]* *(?:network|mode|driver)|(?:network|mode|driver)[^.]{0,30}\bbridge\b`}
)

// eachFirst reports tests of which each process takes itself for the first and only one.
func (s *script) eachFirst(text string) {
	if at := bothFirst.re().FindStringIndex(text); at != nil && strings.Contains(text, "_perf") && strings.Contains(text, "mpirun") {
		s.say(1+strings.Count(text[:at[0]], "\n"), env.Warning, "Each process runs a test of its own", "The text says that several processes have rank 0.", "The processes do not know each other: the test was built without MPI=1, or with another MPI than that of mpirun. Each host tests its own GPUs alone.", "Build it with make MPI=1 MPI_HOME=…, and start it with mpirun of the same MPI, or with srun --mpi=pmix (srun --mpi=list shows what there is).")
	}
}

// zeroRate is a sentence about a test that measured nothing.
var zeroRate = pattern{text: `(?i)\bbus ?(?:bandwidth|bw)\b *(?:is|=|of|equals|:)+ *(?:0(?:\.0+)?|zero)(?:[^.\d]|$)`}

// zeroTold reports such a sentence, if the test's own lines are not there.
func (s *script) zeroTold(text string) {
	if at := zeroRate.re().FindStringIndex(text); at != nil && !strings.Contains(text, "# Avg bus bandwidth") && !slices.ContainsFunc(s.out, func(f Finding) bool { return f.Severity == env.Error }) {
		s.say(1+strings.Count(text[:at[0]], "\n"), env.Warning, "The test has one rank", "The text tells of a bus bandwidth of 0: with one rank, nothing goes over a network or between GPUs.", "If several processes were started, the test was built without MPI=1, or with another MPI than that of mpirun, and each runs alone.", "Build it with make MPI=1 MPI_HOME=…, and start it with mpirun of the same MPI, or with srun --mpi=pmix. On one host use all GPUs with -g.")
	}
}

// copied is a tensor with numbers on a GPU, its copy to a GPU, and the zeros that Python shows of it.
var copied = pattern{text: `tensor\(\[[^\]\n]*[1-9][^\]\n]*\][^\n]*cuda[^\n]*\n(?:[^\n]*\n){0,4}[^\n]*\.(?:to|cuda)\([^\n]*\n(?:[^\n]*\n){0,2}?[^\n]{0,12}tensor\(\[ *0\.(?:, *0\.)* *\], device='cuda:\d+'`}

// lostCopy reports a copy between GPUs that arrives as zeros.
func (s *script) lostCopy(text string) {
	if at := copied.re().FindStringIndex(text); at != nil {
		s.say(1+strings.Count(text[:at[0]], "\n"), env.Error, "A copy between GPUs loses data", "A tensor with numbers is copied to another GPU, where it has zeros alone.", "Direct access between these GPUs does not work, although the driver claims it: the IOMMU or PCI access control (ACS) redirects it. NCCL then hangs, or computes with wrong data.",
			"Set the IOMMU to passthrough or off (iommu=pt, amd_iommu=off or intel_iommu=off on the kernel's command line) and ACS off in the firmware, and update the driver. Until then NCCL_P2P_DISABLE=1 for NCCL; PyTorch's own copies stay wrong. p2pBandwidthLatencyTest of CUDA's samples shows which pairs fail.")
	}
}

// littleShared is a sentence by which shared memory is too small, or was enlarged.
var littleShared = pattern{text: `(?i)(?:/dev/shm|shared memory|\bshm\b)[^.\n]{0,60}\b(?:is|was|are|being) (?:too|very) (?:small|low|little)|\b(?:increase|enlarge|raise|increasing|enlarging|raising|larger|bigger|insufficient|not enough)\b[^.\n]{0,30}(?:/dev/shm|shm[-_]size|shared memory)`}

// sharedTold reports prose by which /dev/shm is too small, if nothing else was found.
func (s *script) sharedTold(text string) {
	at := littleShared.re().FindStringIndex(text)
	if at == nil || len(s.helped) > 0 || !hanging().withRanks.MatchString(text) && !strings.Contains(text, "vLLM") || slices.ContainsFunc(s.out, func(f Finding) bool { return f.Severity != env.Note }) {
		return
	}
	s.say(1+strings.Count(text[:at[0]], "\n"), env.Warning, "/dev/shm is too small", "The text tells of shared memory.", "Docker gives a container 64 MiB, Kubernetes too. NCCL needs more for the GPUs of one host, and ends with a system error, or the program hangs or ends with a bus error.", "docker: --shm-size=8g or --ipc=host; Kubernetes: an emptyDir with medium: Memory at /dev/shm.")
}

// ofOneMachine is a sentence about several containers on one host.
var ofOneMachine = pattern{text: `(?i)\b(?:two|[2-9]|1[0-6]|both|several|multiple|different|separate|between|all|these)\b[^.\n]{0,20}\b(?:dockers?|containers?|pods?)\b[^.\n]{0,25}\b(?:in|on|of) (?:the |a )?(?:one|same|single) (?:physical )?(?:host|machine|node|server|box)\b`}

// oneHostTold reports prose by which the ranks of one host are in several containers, beside a log that shows TCP between them.
func (s *script) oneHostTold(text string, kind Kind) {
	if at := ofOneMachine.re().FindStringIndex(text); at != nil && kind == Log && (s.tcp || s.overIB) {
		s.say(1+strings.Count(text[:at[0]], "\n"), env.Warning, "Containers of one host", "The text tells of several containers on one host, and the log shows the network that NCCL uses.",
			"NCCL takes containers with names of their own for different hosts (getHostHash in src/misc/utils.cc: host name and boot ID), and sends over the network what could go over NVLink or shared memory.",
			"Run all ranks of a host in one container. Otherwise give the containers one NCCL_HOSTID, all GPUs of the host (chosen by CUDA_VISIBLE_DEVICES inside), and --ipc=host --pid=host.")
	}
}

// bridgeTold reports prose by which containers of several hosts are in bridge networks.
func (s *script) bridgeTold(text string) {
	at := bridging.re().FindStringIndex(text)
	if at == nil || !strings.Contains(strings.ToLower(text), "docker") || !hanging().withHosts.MatchString(text) && !strings.Contains(text, "same host") {
		return
	}
	s.say(1+strings.Count(text[:at[0]], "\n"), env.Warning, "The container has a network of its own", "The text speaks of a bridge network of Docker, and of several hosts.", "Ranks announce the addresses of their containers, which other hosts do not reach; forwarded ports do not help, because NCCL and Gloo choose their own, and NCCL has no variable for another address.", "Run the containers with --network=host, or join them by a network that spans hosts: overlay (swarm), macvlan or ipvlan, or a routed subnet for each host.")
}

var (
	// firstGPU is a place where a program takes GPU 0.
	firstGPU = pattern{text: `device_ids *= *\[0\]|\.to\(["']cuda:0["']\)|torch\.device\(["']cuda:0["']\)|set_device\(0\)`}
	// ownGPU is what a program says that gives each process a GPU of its own, or that has ranks at all.
	ownGPU = pattern{text: `(?i)local_?rank|CUDA_VISIBLE_DEVICES|% *(?:torch\.cuda\.device_count|n?gpus)|set_device\([^0)]`}
)

var (
	// groupOfNCCL is a call that makes PyTorch's process group for NCCL.
	groupOfNCCL = pattern{text: `init_process_group\([^)]*["']nccl["']`}
	// chosenGPU is what gives a process its GPU, for PyTorch itself, too.
	chosenGPU = pattern{text: `set_device\(|device_id *=|CUDA_VISIBLE_DEVICES|cuda\.device\(|device_ids *=`}
)

// ofOneRank is a group of one process that is to meet at the address of a host.
var ofOneRank = pattern{text: `init_process_group\([^)]*tcp://([\d.]+):\d+[^)]*\bworld_size *= *1\b`}

// noGPU reports a program of several processes that does not choose a GPU for PyTorch itself. Objects, barriers and what DDP sends first go
// by the current GPU (torch/distributed/distributed_c10d.py).
func (s *script) noGPU(text string) {
	if at := ofOneRank.re().FindStringSubmatchIndex(text); at != nil && !strings.HasPrefix(text[at[2]:], "127.") {
		s.say(1+strings.Count(text[:at[0]], "\n"), env.Warning, "A group of one process", fmt.Sprintf("world_size=1, with the address %s of a host.", shorten(text[at[2]:at[3]])), "The group has this process alone: it waits for nobody, and one on another host is in a group of its own, or cannot listen at an address that is not its own.", "Give all processes the same world_size (their number), and each its own rank.")
		return
	}
	if at := groupOfNCCL.re().FindStringIndex(text); at != nil && strings.Contains(text, "import torch") && strings.Contains(text, "rank") && !chosenGPU.re().MatchString(text) {
		s.say(1+strings.Count(text[:at[0]], "\n"), env.Warning, "The processes do not choose a GPU", "The program makes a process group for NCCL, and nothing in it sets the current GPU.", "Barriers, objects and what DDP sends first go by the current GPU, which is 0 in every process: with several processes on a host NCCL hangs, or finds two ranks on one GPU.", "Call torch.cuda.set_device(LOCAL_RANK) before init_process_group, or give it device_id, and DDP device_ids=[LOCAL_RANK].")
	}
}

var (
	// ofSomeRanks is a condition that holds on a part of the ranks.
	ofSomeRanks = pattern{text: `^\s*if (?:\w+\.)*(?:(?:local_|global_)?rank|get_rank\(\)) *(==|!=) *\d+ *:|^\s*if (not )?(?:\w+\.)*is_(?:main|local_main)_process(?:\(\))? *:`}
	// ofAllRanks is a call that returns when all ranks have made it.
	ofAllRanks = pattern{text: `\b(?:dist|distributed|accelerator)\.(barrier|all_reduce|all_gather\w*|broadcast\w*|reduce|reduce_scatter\w*|gather\w*|scatter\w*|wait_for_everyone|save_state)\(`}
)

// partOfRanks reports a collective in a branch that only a part of the ranks takes. A barrier in both branches is none.
func (s *script) partOfRanks(text string) {
	number, inside, not := 0, -1, false // inside: the indentation of the condition
	at, calls := 0, ""
	var branches [2]bool
	for line := range strings.Lines(text) {
		number++
		indent := len(line) - len(strings.TrimLeft(line, " \t"))
		if strings.TrimSpace(line) == "" {
			continue
		}
		if indent <= inside {
			inside = -1
		}
		if found := ofSomeRanks.re().FindStringSubmatch(line); found != nil {
			inside, not = indent, found[1] == "!=" || found[2] != ""
		} else if call := ofAllRanks.re().FindStringSubmatch(line); call != nil && inside >= 0 {
			if branches[map[bool]int{true: 1}[not]] = true; at == 0 {
				at, calls = number, call[1]
			}
		}
	}
	if at > 0 && branches[0] != branches[1] {
		s.say(at, env.Warning, "Not all ranks call a collective", calls+" stands in a branch that a part of the ranks takes.", "The ranks in it wait for the others, which never come, or meet them in another collective.", "Call it on all ranks, outside of the condition.")
	}
}

// sameGPU reports a program of several processes that takes the same GPU in each.
func (s *script) sameGPU(text string) {
	at := firstGPU.re().FindStringIndex(text)
	if at == nil || !strings.Contains(text, "init_process_group(") || ownGPU.re().MatchString(text) {
		return
	}
	s.say(1+strings.Count(text[:at[0]], "\n"), env.Warning, "All processes may use GPU 0", "The program has a process group, and names GPU 0 in each process.", "With several processes on a host, NCCL refuses it (Duplicate GPU detected), or the GPU's memory does not suffice.", "Take the GPU from LOCAL_RANK, which torchrun sets: torch.cuda.set_device(int(os.environ[\"LOCAL_RANK\"])).")
}

var (
	// group is a call that makes PyTorch's process group, with its arguments.
	group = pattern{text: `init_process_group\(([^()]{1,400}(?:\([^()]{0,100}\)[^()]{0,200}){0,4})\)`}
	// noScheme is an init_method of a host and a port alone.
	noScheme = pattern{text: `init_method\s*=\s*["']([\w.-]+:\d+)["']`}
	// countsGPUs is a rank that is the number of GPUs.
	countsGPUs = pattern{text: `\brank\s*=\s*torch\.cuda\.device_count\(\)`}
	// rankOf and sizeOf are numbers in it.
	rankOf = pattern{text: `\brank\s*=\s*(\d{1,6})\b`}
	sizeOf = pattern{text: `\bworld_size\s*=\s*(\d{1,6})\b`}
)

// ranks reports a rank that a program has as a number: one that is too large, and one that all processes have.
func (s *script) ranks(text string) {
	calls := group.re().FindAllStringSubmatchIndex(text, maxFindings)
	for _, at := range calls {
		arguments := text[at[2]:at[3]]
		line := 1 + strings.Count(text[:at[0]], "\n")
		if method := noScheme.re().FindStringSubmatch(arguments); method != nil {
			s.say(line, env.Error, "The rendezvous method is not known", fmt.Sprintf("init_method is %s, without a scheme.", shorten(method[1])), "PyTorch has no handler for it, and the program stops.", "Write tcp://HOST:PORT, or env:// with MASTER_ADDR and MASTER_PORT.")
		}
		if countsGPUs.re().MatchString(arguments) {
			s.say(line, env.Error, "The rank is the number of GPUs", "init_process_group gets torch.cuda.device_count() as rank.", "It is the same number in every process, and most often none of the ranks 0 to world_size-1: no process is rank 0, and all wait.", "Take rank and world_size from the environment (RANK, WORLD_SIZE), and start the program with torchrun; device_count() is for the number of processes of a host.")
		}
		rank, size := rankOf.re().FindStringSubmatch(arguments), sizeOf.re().FindStringSubmatch(arguments)
		if rank == nil || size == nil {
			continue
		}
		r, _ := strconv.Atoi(rank[1])
		n, _ := strconv.Atoi(size[1])
		switch {
		case r >= n:
			s.say(line, env.Error, "The rank is too large", fmt.Sprintf("init_process_group gets rank %d of %d processes.", r, n), "Ranks count from 0: this process waits for a store of rank 0 that nobody makes, or is refused.", "Give the number of all processes as world_size, and ranks from 0 on.")
		case n > 1 && len(calls) == 1:
			s.say(line, env.Warning, "The rank is written into the program", fmt.Sprintf("init_process_group gets rank %d of %d processes, as numbers.", r, n), "Each process of this program takes itself for that rank: the others never come, unless they run another program.", "Take both from the environment (RANK, WORLD_SIZE), and start the program with torchrun; or pass the rank that mp.spawn gives.")
		}
	}
}

// priority reports counters of a priority that no command asks for.
func (s *script) priority(line, prio int) {
	if _, ok := find(s.sets, "NCCL_IB_TC"); ok {
		return
	}
	for _, p := range s.perftest {
		if p.class {
			return
		}
	}
	s.say(line, env.Warning, "Priority that nothing asks for", fmt.Sprintf("The counters of priority %d are shown, but neither --tclass of perftest nor NCCL_IB_TC sets a traffic class.", prio),
		"Unless the NIC forces one class on all traffic, packets have priority 0, so that neither PFC nor these counters apply to them.",
		fmt.Sprintf("Set both. Under DSCP trust and the default map, %d is priority %d.", prio<<5, prio))
}

// claims reads a line of prose.
func (s *script) claims(number int, line string) {
	names := strings.Contains(line, "mlx5_") && (strings.Contains(line, "rocep") || strings.Contains(line, "roceP"))
	if names && strings.Contains(line, "NCCL_IB_HCA") {
		s.add(number, env.Finding{Severity: env.Warning, Name: "NCCL_IB_HCA", Summary: "Names differ between hosts", Wrong: "The same device is mlx5_0 on one host and rocep39s0f0 on another, as udev's rules name it.", Costs: "One value for all hosts selects nothing on some, and a driver stack can change the names.", Instead: derive})
	}
	last := strings.LastIndex(line, "NCCL_SOCKET_IFNAME")
	after, _, _ := strings.Cut(strings.TrimPrefix(line[max(last, 0):], "NCCL_SOCKET_IFNAME"), "NCCL_")
	if last >= 0 && !strings.HasPrefix(after, "=") && (strings.Contains(after, "IB设备") || strings.Contains(after, "IB device") || strings.Contains(after, "RDMA device")) {
		s.add(number, env.Finding{Severity: env.Warning, Name: "NCCL_SOCKET_IFNAME", Summary: "Names an interface, not an RDMA device", Wrong: "The text calls its value a device of InfiniBand.", Costs: "With a name such as mlx5_0, NCCL finds no interface and does not start.", Instead: "Name a network interface, such as eth0."})
	}
	if strings.Contains(line, "NCCL_NTHREADS") && !strings.Contains(line, "NCCL_NTHREADS=") {
		s.add(number, env.Finding{Severity: env.Note, Name: "NCCL_NTHREADS", Summary: "Not a network setting", Wrong: "NCCL_NTHREADS is the size of CUDA blocks.", Costs: "It does not affect the network.", Instead: "Remove it."})
	}
	lower := strings.ToLower(line)
	slow := strings.Contains(line, "延时") || strings.Contains(line, "延迟") || strings.Contains(lower, "latency")
	if slow && inMilliseconds.re().MatchString(line) && (strings.Contains(line, "RoCE") || strings.Contains(line, "RDMA")) {
		s.say(number, env.Note, "Latency in milliseconds", "Between hosts of one room, a message takes 1 to 3 µs over RoCE and 20 to 40 µs over TCP.", "Milliseconds mean something else: start-up, a long distance, or lost packets.", "Measure with ib_send_lat, or with `fabricform verify`.")
	}
	if strings.Contains(line, "--ulimit memlock") && !strings.Contains(line, "docker run") {
		s.say(number, env.Note, "memlock of the container alone", "--ulimit memlock sets the limit of a container.", "Jobs outside it keep their own limit: limits.conf for logins, LimitMEMLOCK for services such as slurmd.", "Check with ulimit -l in the job itself.")
	}
}

var (
	limitsConf = pattern{text: `^\s*\S+\s+(?:soft|hard|-)\s+memlock\s+\S+\s*$`}
	ulimits    = pattern{text: `^max locked memory\s+\(kbytes, -l\)\s+(\d+)\s*$`}
)

// startsJobs is what a text has about services that start jobs.
var startsJobs = pattern{text: `(?i)slurm|systemd|docker|kube|\bpods?\b`}

// ofLogins reports prose that sets variables in /etc/environment, where jobs do not start by a login.
func (s *script) ofLogins(number int, line string, services func() bool) {
	if strings.Contains(line, "/etc/environment") && (strings.Contains(line, "NCCL_") || strings.Contains(line, "export")) && !anyOf(line, printers) && services() {
		s.say(number, env.Warning, "/etc/environment is for logins alone", "PAM reads the file when somebody logs in (pam_env).", "Containers, pods, and services such as slurmd start programs without a login: what stands there does not reach them.", "Set the variables in the job itself: -x NAME=VALUE of mpirun, env: of the pod, -e of docker, or /etc/nccl.conf on each host or in the image.")
	}
}

// limits reads a line of limits.conf, and the locked memory in the table of ulimit -a.
func (s *script) limits(number int, line string, services func() bool) {
	if at := ulimits.re().FindStringSubmatch(line); at != nil && len(at[1]) < 7 {
		s.say(number, env.Warning, "memlock is limited", fmt.Sprintf("ulimit shows %s KiB.", at[1]), "RDMA cannot register memory: Couldn't allocate MR, or Cannot allocate memory.", memlock)
	}
	if !limitsConf.re().MatchString(line) {
		return
	}
	bad := env.Note
	if services() {
		bad = env.Warning
	}
	s.say(number, bad, "limits.conf is for logins alone", "PAM applies it to login sessions.", "Services of systemd do not read it, and neither do the jobs and containers that they start: slurmd, dockerd, kubelet.", "Set LimitMEMLOCK=infinity for the service (systemctl edit slurmd), restart it, and check ulimit -l in a job. Docker: --ulimit memlock=-1:-1.")
}

// inMilliseconds matches an amount of milliseconds, in digits or vaguely (几: some).
var inMilliseconds = pattern{text: `(\d|几|十| )ms\b`}

var (
	assignsOne = pattern{text: `(\w+)\s*=\s*torch\.(?:tensor\(\s*\[[^,\]]*\]|(?:ones|zeros|rand)\(\s*1)\s*[,)]`}
	reduces    = pattern{text: `all_reduce\(\s*(\w+)`}
)

// oneElement reports a test that reduces one number.
func (s *script) oneElement(text string) {
	at, number := map[string]int{}, 0
	for line := range strings.Lines(text) {
		number++
		if m := assignsOne.re().FindStringSubmatch(line); m != nil && len(at) < maxFindings {
			at[m[1]] = number
		}
		if m := reduces.re().FindStringSubmatch(line); m != nil && at[m[1]] > 0 {
			s.say(number, env.Note, "One number proves little", fmt.Sprintf("The tensor of line %d has one element.", at[m[1]]), "Such a test shows that ranks meet. A rail without a cable, a fallback to sockets and lost packets under load pass it.", "Reduce 256 MiB or more, check the sum and take the time, as `fabricform verify` does.")
			return
		}
	}
}
