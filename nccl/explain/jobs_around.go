package explain

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/fabricform/fabricform/nccl/env"
)

// firstHostAlone reports a batch script for several hosts or tasks that starts its ranks without srun: Slurm runs the script on the first
// host alone, and once.
func (s *script) firstHostAlone(text string, kind Kind) {
	var code strings.Builder // without comments, but with their lines
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			line = "\n"
		}
		code.WriteString(line)
	}
	at := alone.re().FindStringIndex(code.String())
	if kind != Slurm || at == nil || ownLauncher.re().MatchString(lookup.re().ReplaceAllString(code.String(), "")) {
		return
	}
	line := 1 + strings.Count(code.String()[:at[0]], "\n")
	if s.job.nodes < 2 {
		if tasks := max(s.job.all, s.job.tasks); tasks > 1 && s.job.gpus > 1 && strings.HasSuffix(code.String()[:at[1]], ".py") {
			s.say(line, env.Warning, "One process instead of the tasks", fmt.Sprintf("Slurm has %d tasks for this job, but only srun starts them: the script starts one process.", tasks), "A program that reads SLURM_NTASKS, such as one of Lightning, waits for the others, or uses one GPU. It is right for a program that starts its ranks itself (mp.spawn).", "Write srun in front of the program, or ask for one task and start torchrun.")
		}
		return
	}
	s.say(line, env.Error, "Only the first host starts ranks", fmt.Sprintf("The job has %d hosts, and Slurm runs the script itself on the first of them alone. No srun starts the program on the others.", s.job.nodes), "Ranks wait for others that never start, until the timeout.", "Write srun in front of the program, with the tasks per host that it needs: one for torchrun, otherwise one for each GPU.")
}

// singleQuoted returns a function that reports whether a shell that reads the text is within single quotes at an index. It is called with
// growing indexes.
func singleQuoted(text string) func(int) bool {
	i, quote := 0, byte(0)
	return func(until int) bool {
		for ; i < until; i++ {
			switch c := text[i]; {
			case c == '\\' && quote != '\'':
				i++
			case c == quote:
				quote = 0
			case quote != 0:
			case c == '\'' || c == '"':
				quote = c
			case c == '#' && (i == 0 || text[i-1] == ' ' || text[i-1] == '\n'):
				for i+1 < len(text) && text[i+1] != '\n' {
					i++
				}
			}
		}
		return quote == '\''
	}
}

// meeting reports ranks that meet at an address which each host understands as itself.
func (s *script) meeting() {
	for _, w := range s.job.meeting {
		host := w.text
		if h, _, err := net.SplitHostPort(w.text); err == nil {
			host = h
		}
		if strings.ContainsAny(w.text, "@/") && !strings.ContainsAny(w.text, "$<{[") {
			s.say(w.line, env.Error, "Not the name of a host", fmt.Sprintf("%s is where ranks are to meet.", shorten(w.text)), "It is more than a name: the ranks cannot resolve it.", "Write the host's name or address alone, without a user and without a scheme such as tcp://.")
			continue
		}
		if a, err := netip.ParseAddr(host); s.job.nodes < 2 || host != "localhost" && (err != nil || !a.IsLoopback() && !a.IsUnspecified()) {
			continue
		}
		bad, unless := env.Error, ""
		if s.job.first || w.dynamic {
			bad = env.Warning
		}
		if w.dynamic {
			unless = ", unless MASTER_ADDR is set before the script starts"
		}
		s.say(w.line, bad, "Ranks meet at localhost", fmt.Sprintf("%s is each host itself, and the job has %d hosts%s.", shorten(w.text), s.job.nodes, unless), "It is right only on the host of rank 0: the ranks of all others wait for themselves until the timeout.", "Give the name or the address of the host with rank 0, the same on all hosts. In Slurm: scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1.")
	}
}

// reaching reports interfaces and container networks that other hosts do not reach.
func (s *script) reaching(kind Kind) {
	for _, v := range s.sets {
		if (v.name == "GLOO_SOCKET_IFNAME" || v.name == "TP_SOCKET_IFNAME") && !v.dynamic && (env.LooksLikeAddress(v.value) || strings.HasPrefix(v.value, "^") || strings.HasPrefix(v.value, "=")) {
			s.add(v.line, env.Finding{Severity: env.Error, Name: v.name, Summary: "Not the name of an interface", Wrong: fmt.Sprintf("%s = %q.", v.name, shorten(v.value)), Costs: "PyTorch takes the text as the name of an interface, and stops: Unable to find address. ^ and = are for NCCL alone.", Instead: "Write whole names (ip -br addr), separated by commas."})
		}
		if v.name == "UCX_NET_DEVICES" && !v.dynamic && slices.ContainsFunc(strings.Split(v.value, ","), func(d string) bool { return env.LooksLikeDevice(d) && !strings.Contains(d, ":") }) {
			s.add(v.line, env.Finding{Severity: env.Warning, Name: v.name, Summary: "RDMA device without its port", Wrong: fmt.Sprintf("%s = %q.", v.name, shorten(v.value)), Costs: "UCX knows an RDMA device by its name and port: it warns that the device is not available, and uses others or none.", Instead: "Add the port, as in mlx5_0:1 (ucx_info -d)."})
		}
		if v.dynamic || v.name != "NCCL_SOCKET_IFNAME" && v.name != "GLOO_SOCKET_IFNAME" || s.job.nodes == 1 || s.job.nodes == 0 && kind == Log {
			continue
		}
		list := env.ParseList(v.value)
		if list.Exclude || len(list.Entries) == 0 || slices.ContainsFunc(list.Entries, func(e env.Entry) bool { return !isLocal(e.Name) }) {
			continue
		}
		bad := env.Warning
		if s.job.nodes > 1 {
			bad = env.Error
		}
		s.add(v.line, env.Finding{Severity: bad, Name: v.name, Summary: "Interface of this host alone", Wrong: fmt.Sprintf("%s is local to each host.", shorten(v.value)), Costs: "Ranks of several hosts cannot connect over it. On one host it is right.", Instead: "With several hosts name an interface that reaches all of them, with = in front."})
	}
	for _, c := range s.runs {
		all := strings.Join(c.texts(), " ")
		if strings.Contains(all, "ray start") && s.job.nodes < 2 && !strings.Contains(all, "--net") {
			s.say(c.line(), env.Warning, "The container has a network of its own", "docker run starts Ray without --network=host.", "Hosts cannot join: Ray announces an address of Docker's bridge, which other hosts do not reach; -p opens only single ports, and Ray and NCCL choose their own.", "Add --network=host.")
		}
		if s.job.nodes > 1 && !strings.Contains(all, "--net") {
			s.say(c.line(), env.Error, "The container has a network of its own", fmt.Sprintf("The job has %d hosts, and docker run has no --network=host.", s.job.nodes), "Ranks announce addresses of Docker's bridge, which other hosts do not reach; -p opens only single ports, and NCCL chooses its own.", "Add --network=host.")
		}
	}
}

// small reports whether a size is at most 64 MiB, which is the default of /dev/shm in a container.
func small(number, unit string) bool {
	n, err := strconv.ParseFloat(number, 64)
	shift, known := map[string]int{"": 0, "b": 0, "k": 10, "m": 20, "g": 30}[strings.ToLower(unit)]
	return err == nil && known && n > 0 && n*float64(int(1)<<shift) <= 64<<20
}

// sharing checks that containers with several GPUs have more shared memory than the 64 MiB that they get by default.
func (s *script) sharing(text string, kind Kind) {
	const costs = "NCCL and PyTorch's DataLoader share memory there between processes: they end with an error, or with a bus error, when it is full."
	for _, c := range s.runs {
		all := strings.Join(c.texts(), " ")
		one := strings.Contains(all, "device=") && !strings.Contains(all, ",")
		if strings.Contains(all, "--gpus") && !one && !strings.Contains(all, "--gpus 1 ") && !strings.Contains(all, "--gpus=1 ") && !strings.Contains(all, "--shm-size") && !strings.Contains(all, "--ipc") && !strings.Contains(all, "/dev/shm") {
			s.say(c.line(), env.Warning, "Little shared memory", "Without --shm-size or --ipc=host, the container has 64 MiB in /dev/shm.", costs, "Add --shm-size=8g or --ipc=host.")
		}
	}
	number := 0
	for line := range strings.Lines(text) {
		number++
		if at := shm.re().FindStringSubmatch(beforeComment(line)); at != nil && small(at[1], at[2]) {
			s.say(number, env.Warning, "Little shared memory", fmt.Sprintf("%s gives the container no more than Docker's own 64 MiB in /dev/shm.", strings.TrimSpace(at[0])), costs, "Give it at least 1g for each GPU, or share the host's (--ipc=host, ipc: host).")
		}
	}
	if strings.Contains(text, "/dev/shm") {
		return
	}
	switch {
	case kind == Compose && (strings.Contains(text, "driver: nvidia") || strings.Contains(text, "runtime: nvidia")) && !strings.Contains(text, "shm_size") && !strings.Contains(text, "ipc:"):
		s.say(0, env.Warning, "Little shared memory", "Without shm_size or ipc: host, a service has 64 MiB in /dev/shm.", costs, "Add shm_size: 8gb, or ipc: host.")
	case kind == Kubernetes && !strings.Contains(text, "hostIPC: true"):
		for _, at := range gpus.re().FindAllStringSubmatch(text, -1) {
			if n, err := strconv.Atoi(at[1]); err == nil && n > 1 {
				s.say(0, env.Warning, "Little shared memory", fmt.Sprintf("A container has %d GPUs, and no volume at /dev/shm: it has 64 MiB there.", n), costs, "Mount an emptyDir with medium: Memory at /dev/shm.")
				return
			}
		}
	}
}

// memlocked reports a limit of locked memory that a script sets itself, in KiB.
func (s *script) memlocked(c command) bool {
	v, ok := c.value("-l")
	n, err := strconv.Atoi(v)
	if !ok || err != nil || n >= 1<<20 {
		return false
	}
	s.say(c.line(), env.Warning, "memlock is limited", fmt.Sprintf("ulimit -l %d limits locked memory to %d KiB.", n, n), "RDMA cannot register memory: Couldn't allocate MR.", memlock)
	return true
}

// slurmRank is a number of a task or a host that a launcher's option, or a variable for ranks, gets from Slurm.
var slurmRank = pattern{text: `(?:--(?:machine|node)[_-]rank[= ]+|\b(?:NODE_RANK|MACHINE_RANK|RANK|LOCAL_RANK)=)"?(\$\{?SLURM_(?:PROCID|NODEID|LOCALID)\b)`}

// tooEarly reports numbers of tasks that the batch script's own shell puts in, before srun starts the tasks.
func (s *script) tooEarly(text string) {
	if !s.job.sruns || strings.Contains(strings.ReplaceAll(text, "<<<", ""), "<<") || strings.Count(text, "#!/") > 1 || strings.Contains(text, "rdzv_backend") || strings.Contains(text, "rdzv-backend") { // c10d numbers the hosts itself
		return
	}
	quoted := singleQuoted(text)
	for _, at := range slurmRank.re().FindAllStringSubmatchIndex(text, maxFindings) {
		line := 1 + strings.Count(text[:at[0]], "\n")
		begin := strings.LastIndexByte(text[:at[0]], '\n') + 1
		if !quoted(at[2]) && !strings.HasPrefix(strings.TrimSpace(text[begin:]), "#") {
			s.say(line, env.Error, "A rank is the same on all hosts", fmt.Sprintf("%s: the batch script's own shell puts the number in, on the first host, before srun starts the tasks.", text[at[0]:at[3]]), "It is 0 everywhere: each host takes itself for the first one, and the others never come.", `Let the task's shell put it in: srun bash -c '…' in single quotes, or \$ within double quotes.`)
			return
		}
	}
}

// sequential is an srun for one host that starts a launcher: it names the host, or the launcher its number.
var sequential = pattern{text: `^\s*srun .*(?:(?:--nodelist[= ]|-w )(\S+) .*(?:accelerate launch|torchrun|torch\.distributed)|(?:accelerate launch|torchrun|torch\.distributed).* --(?:node|machine)[_-]rank[= ](\d+))`}

// announced reports an address that vLLM cannot announce to other processes: it connects ranks by it, and tells hosts apart.
func (s *script) announced(v setting) {
	if a, err := netip.ParseAddr(v.value); err == nil && (a.IsUnspecified() || a.IsLoopback() && s.job.nodes > 1) {
		s.say(v.line, env.Warning, "VLLM_HOST_IP is not a host's own address", fmt.Sprintf("VLLM_HOST_IP = %s.", a), "vLLM and Ray announce it to the other processes, which connect to themselves, or take several hosts for one.", "Set it on each host to that host's own address, and give ray start the same --node-ip-address.")
	}
}

// freeShared is /dev/shm in the output of df: its size with a unit, and how much of it is in use.
var freeShared = pattern{text: `^\w+ +(\d+(?:\.\d+)?)([KMG]?) +\S+ +\S+ +(\d+)% +/dev/shm\s*$`}

// mounted reads df's row of /dev/shm. Without -h, df counts in KiB.
func (s *script) mounted(number int, line string) {
	at := freeShared.re().FindStringSubmatch(line)
	if at == nil {
		return
	}
	if at[2] == "" {
		at[2] = "k"
	}
	switch {
	case at[3] == "100" || at[3] == "99":
		s.say(number, env.Error, "/dev/shm is too small", fmt.Sprintf("%s%% of it is in use.", at[3]), "NCCL and PyTorch's DataLoader share memory there between processes: they end with an error, or with a bus error, when it is full.", "Remove what ended jobs have left there, or enlarge it (docker: --shm-size=8g or --ipc=host).")
	case small(at[1], at[2]):
		s.say(number, env.Warning, "Little shared memory", "/dev/shm has 64 MiB, as a container has by default.", "NCCL and PyTorch's DataLoader share memory there between processes: they end with an error, or with a bus error, when it is full.", "docker: --shm-size=8g or --ipc=host. Kubernetes: an emptyDir with medium: Memory at /dev/shm.")
	}
}

// ofSeveral is a torchrun for several hosts that the rendezvous numbers.
var ofSeveral = pattern{text: `\btorchrun\b[^|;&]*--nnodes[= ]["']?([2-9]|[1-9]\d+)\b[^|;&]*--rdzv[-_](?:endpoint|backend)`}

// startedElsewhere are words of texts that start a command on other hosts, or speak of them.
var startedElsewhere = pattern{text: `(?i)\b(?:srun|sbatch|ssh|pdsh|mpirun|mpiexec|clush|ansible|kubectl|parallel|for|hosts?|nodes?|machines?|servers?|workers?|rank)\b|节点|机器`}

// anOption is the name of an option.
var anOption = pattern{text: `--[\w-]+`}

// oneOfSeveral reports a command that starts the ranks of one host, if the text does not show commands for the other hosts.
func (s *script) oneOfSeveral(text string, kind Kind) {
	if kind != Commands {
		return
	}
	all := strings.ReplaceAll(text, "\\\n", "  ")
	at := ofSeveral.re().FindAllStringSubmatchIndex(all, 2)
	if len(at) != 1 || startedElsewhere.re().MatchString(anOption.re().ReplaceAllString(all, "")) {
		return
	}
	s.say(1+strings.Count(all[:at[0][0]], "\n"), env.Note, "The command of one host", fmt.Sprintf("--nnodes is %s, and the text starts it once.", all[at[0][2]:at[0][3]]), "torchrun starts the processes of one host alone, and waits until the same command runs on the others.", "Start it on every host (srun, ssh, one pod each), or write --nnodes 1 for one host.")
}
