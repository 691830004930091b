package explain

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/fabricform/fabricform/nccl/env"
)

// job is what the launchers of a file say of the whole job.
type job struct {
	nodes, tasks int       // the number of hosts, and of Slurm's tasks per host; 0: unknown
	all          int       // Slurm's tasks of all hosts; 0: unknown
	allAt        int       // its line
	meeting      []word    // addresses at which ranks meet
	ports        []word    // of the rendezvous
	first        bool      // a line is meant for the host with rank 0
	elastic      bool      // torchrun or the like sets WORLD_SIZE itself
	single       int       // line of an srun that starts a program of Python without saying how many tasks; 0: none
	unmet        []command // torchruns of several hosts without an address to meet at
	sruns        bool      // srun starts the launchers, and not another script
	gpus         int       // GPUs of a host that Slurm gives the job, or CUDA_VISIBLE_DEVICES shows; 0: unknown
	gpusAt       string    // where that number stands
	perHost      int       // processes that a launcher starts on each host; 0: unknown
	perHostAt    int       // its line
	tasksAt      int       // line of tasks
	multiplied   int       // line of an srun that starts torchrun by the number of tasks of the job
	world        int       // number of ranks that a program is told which srun starts; 0: unknown
	worldAt      int       // its line
	nested       []command // sruns that start mpirun
	machines     []machine
	keys         []string // of the latest of them
	starts       []start
}

// start is a launcher's line for one of several hosts.
type start struct {
	line                         int
	rank, address, port, perHost string // as written; "": not said
}

// starting notes the line of a launcher that says for which of several hosts it is.
func (j *job) starting(c command) {
	one := start{line: c.line()}
	for _, o := range []struct {
		into    *string
		options []string
	}{
		{&one.rank, []string{"--node_rank", "--node-rank", "--machine_rank", "--machine-rank"}}, {&one.address, []string{"--master_addr", "--master-addr", "--main_process_ip", "--main-process-ip"}},
		{&one.port, []string{"--master_port", "--master-port", "--main_process_port", "--main-process-port"}}, {&one.perHost, []string{"--nproc_per_node", "--nproc-per-node"}},
	} {
		*o.into, _ = c.value(o.options...)
	}
	if nodes, _ := c.value("--nnodes", "--num_machines", "--num-machines"); digits(one.rank) && digits(nodes) && nodes != "1" && len(j.starts) < maxFindings {
		j.starts = append(j.starts, one)
	}
}

// byEnvironment is a setting in front of a launcher that says which of several hosts it is for.
var byEnvironment = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\b(NNODES|NODE_RANK|RANK|MASTER_ADDR|MASTER_PORT)=["']?([\w.:-]+)`)
})

// startingBy notes a launcher's line that says by settings in front of it for which of several hosts it is.
func (j *job) startingBy(number int, line string) {
	one, nodes := start{line: number}, ""
	for _, at := range byEnvironment().FindAllStringSubmatch(line, maxFindings) {
		switch at[1] {
		case "NNODES":
			nodes = at[2]
		case "MASTER_ADDR":
			one.address = at[2]
		case "MASTER_PORT":
			one.port = at[2]
		default:
			one.rank = at[2]
		}
	}
	if digits(one.rank) && digits(nodes) && nodes != "1" && len(j.starts) < maxFindings {
		j.starts = append(j.starts, one)
	}
}

// apart compares the lines that start a job on its hosts. Where a rank comes again, another attempt begins.
func (s *script) apart(kind Kind) {
	ranks, first := map[string]bool{}, start{}
	for _, v := range s.job.starts {
		if len(ranks) == 0 || ranks[v.rank] {
			clear(ranks)
			first = v
		}
		ranks[v.rank] = true
		_, err1 := netip.ParseAddr(first.address)
		_, err2 := netip.ParseAddr(v.address)
		local := strings.HasPrefix(first.address, "127.") || strings.HasPrefix(v.address, "127.") || first.address == "0.0.0.0" || v.address == "0.0.0.0"
		ports := digits(first.port) && digits(v.port) && first.port != v.port
		switch {
		case ports || err1 == nil && err2 == nil && first.address != v.address && !local:
			s.say(v.line, env.Error, "Hosts meet at different places", fmt.Sprintf("Host %s meets the others at %s port %s, and host %s at %s port %s (line %d).", v.rank, shorten(v.address), cmp.Or(shorten(v.port), "29500"), first.rank, shorten(first.address), cmp.Or(shorten(first.port), "29500"), first.line), "They wait for each other until the timeout.", "Give all hosts the address of the host with rank 0, and the same port.")
		case digits(first.perHost) && digits(v.perHost) && first.perHost != v.perHost:
			s.say(v.line, env.Warning, "Hosts start different numbers of processes", fmt.Sprintf("Host %s starts %s processes, and host %s starts %s (line %d).", v.rank, shorten(v.perHost), first.rank, shorten(first.perHost), first.line), "Most programs take the number of one host for all, and compute wrong ranks or wait.", "Start the same number on all hosts, unless the program allows others.")
		}
	}
	if n := len(s.job.starts); kind != Log && n > 1 && !slices.ContainsFunc(s.job.starts, func(v start) bool { return v.rank != s.job.starts[0].rank }) {
		s.say(s.job.starts[1].line, env.Warning, "Hosts have one rank", fmt.Sprintf("The launchers of line %d and of this line have the same node rank, %s.", s.job.starts[0].line, shorten(s.job.starts[0].rank)), "If they are for different hosts, each takes itself for the same one, and the others never come.", "Number the hosts from 0: --node-rank=0 on the host of --master-addr.")
	}
}

// launchers are the programs whose options say how many hosts a job has, and where its ranks meet.
var launchers = []string{"torchrun", "torch.distributed.run", "torch.distributed.launch", "accelerate", "deepspeed", "sglang.launch_server", "srun", "sbatch", "#SBATCH"}

// learn takes the options of launchers into account, wherever they are in a command.
func (j *job) learn(c command) {
	words := c.texts()
	at := slices.IndexFunc(words, func(w string) bool { return slices.Contains(launchers, path.Base(w)) })
	if at < 0 {
		return
	}
	j.launches(command{words: c.words[at:]}, c)
	c = command{words: c.words[at:]}
	slurm := strings.HasPrefix(words[at], "#") || words[at][0] == 's' && !strings.Contains(words[at], ".")
	j.elastic = j.elastic || !slurm
	options := []string{"--nnodes", "--num_machines", "--num-machines"}
	if path.Base(words[at]) == "deepspeed" {
		options = append(options, "--num_nodes")
	}
	if slurm {
		options = []string{"-N", "--nodes"}
		if v, ok := c.value("--ntasks-per-node"); ok {
			j.tasks, _ = strconv.Atoi(v)
			j.tasksAt = c.line()
		}
		v, ok := c.value("--gpus-per-node")
		if gres, is := c.value("--gres"); is {
			v, ok = strings.CutPrefix(gres, "gpu:")
		}
		if n, err := strconv.Atoi(v[strings.LastIndexByte(v, ':')+1:]); ok && err == nil {
			j.gpus, j.gpusAt = n, fmt.Sprintf("line %d", c.line())
		}
		if v, ok := c.value("-n", "--ntasks"); ok && j.all == 0 {
			j.all, _ = strconv.Atoi(v)
			j.allAt = c.line()
		}
	}
	if v, ok := c.value(options...); ok {
		j.hosts(v)
	}
	j.processes(c)
	j.starting(c)
	if unmeeting(c) && len(j.unmet) < maxFindings {
		j.unmet = append(j.unmet, c)
	}
	if v, ok := c.value("--node_rank", "--node-rank", "--machine_rank", "--machine-rank"); ok && v == "0" {
		j.first = true
	}
	if v, ok := c.value("--master_port", "--master-port", "--main_process_port", "--main-process-port"); ok {
		j.ports = append(j.ports, word{text: v, line: c.line()})
	}
	if v, ok := c.value("--master_addr", "--master-addr", "--rdzv_endpoint", "--rdzv-endpoint", "--main_process_ip", "--main-process-ip", "--dist-init-addr"); ok {
		j.meets(word{text: v, line: c.line()})
	}
}

// launches notes how many processes a launcher starts on each host, and whether srun starts one launcher for each task. inner begins with
// the launcher.
func (j *job) launches(inner, outer command) {
	if v, ok := inner.value("--nproc_per_node", "--nproc-per-node", "--num_gpus"); ok {
		if n, err := strconv.Atoi(v); err == nil {
			j.perHost, j.perHostAt = n, inner.line()
		}
	}
	if path.Base(outer.words[0].text) != "srun" {
		return
	}
	if v, ok := outer.value("--distributed-world-size", "--world-size", "--world_size"); ok && !slices.ContainsFunc(outer.words, func(w word) bool { return slices.Contains([]string{"-n", "--ntasks"}, w.text) }) {
		j.world, _ = strconv.Atoi(v)
		j.worldAt = outer.line()
	}
	if _, own := outer.value("-n", "--ntasks", "--ntasks-per-node", "--ntasks-per-gpu", "--gpus-per-task"); !own && inner.words[0] == outer.words[0] && startsPython(outer) {
		j.single = outer.line()
	}
	if mpiWithin(outer) && len(j.nested) < maxFindings {
		j.nested = append(j.nested, outer)
	}
	if _, own := outer.value("-n", "--ntasks", "--ntasks-per-node"); !own && slices.ContainsFunc(outer.words, func(w word) bool { return elastic(path.Base(w.text)) }) {
		j.multiplied = max(j.multiplied, outer.line())
	}
}

// startsPython reports whether an srun starts a program of Python itself, and no launcher of several processes.
func startsPython(srun command) bool {
	at := slices.IndexFunc(srun.words, func(w word) bool { return strings.HasPrefix(path.Base(w.text), "python") })
	return at > 0 && at+1 < len(srun.words) && strings.HasSuffix(srun.words[at+1].text, ".py")
}

// elastic reports whether a program starts a process for each GPU of its host.
func elastic(name string) bool {
	return name == "torchrun" || name == "torch.distributed.run" || name == "torch.distributed.launch"
}

// mpiWithin reports whether an srun starts mpirun.
func mpiWithin(srun command) bool {
	return slices.ContainsFunc(srun.words, func(w word) bool { return path.Base(w.text) == "mpirun" || path.Base(w.text) == "mpiexec" })
}

// nestedMPI reports an srun of several tasks, each of which starts an mpirun of its own.
func (s *script) nestedMPI() {
	for _, c := range s.job.nested {
		tasks := max(s.job.all, max(s.job.nodes, 1)*s.job.tasks, s.job.nodes)
		if v, ok := c.value("-n", "--ntasks"); ok {
			tasks, _ = strconv.Atoi(v)
		} else if v, ok := c.value("-N", "--nodes"); ok && v == "1" {
			continue // how many tasks Slurm starts there depends on the job's other options
		}
		if tasks > 1 {
			s.say(c.line(), env.Error, "mpirun within srun", fmt.Sprintf("srun starts %d tasks, and each of them an mpirun of its own.", tasks), "The job runs several times at once, and each mpirun wants to start its helpers on the other hosts, which fails in a container without SSH.", "Start the program by srun itself, one task for each GPU: srun --mpi=pmix PROGRAM (srun --mpi=list shows what Slurm supports). Otherwise start mpirun in the batch script, without srun.")
		}
	}
}

// processesFit compares the processes of a host with its GPUs, and Slurm's tasks with the launchers that they start.
func (s *script) processesFit() {
	j := &s.job
	tasks, at := j.tasks, j.tasksAt
	if tasks == 0 && j.all > j.nodes {
		tasks, at = j.all/max(j.nodes, 1), j.allAt
	}
	if j.multiplied > 0 && tasks > 1 && j.perHost > 1 {
		s.say(j.multiplied, env.Error, "A launcher for each task", fmt.Sprintf("Slurm starts %d tasks on each host (line %d), and each of them torchrun, which starts %d processes.", tasks, at, j.perHost), "The launchers take each other's port, and ranks are there several times.", "Set --ntasks-per-node=1 and no --ntasks for torchrun, or let srun start the program itself, one task per GPU, without torchrun.")
	}
	if all := max(j.all, j.nodes*j.tasks); j.world > 0 && j.world < all && !j.elastic {
		s.say(j.worldAt, env.Error, "More tasks than ranks", fmt.Sprintf("The program is told %d ranks, and Slurm starts %d tasks.", j.world, all), "Tasks whose rank is not below the number of ranks fail with an invalid argument, or wait.", "Give the program the number of all tasks: --nodes times --ntasks-per-node.")
	}
	if v, ok := find(s.sets, "CUDA_VISIBLE_DEVICES"); ok && !v.dynamic && !v.alone && strings.Trim(v.value, "0123456789,") == "" && v.value != "" {
		j.gpus, j.gpusAt = strings.Count(v.value, ",")+1, fmt.Sprintf("CUDA_VISIBLE_DEVICES in line %d", v.line)
	}
	if j.single > 0 && j.gpus > 1 && j.tasks == 0 && j.all == 0 && strings.HasPrefix(j.gpusAt, "line") {
		s.say(j.single, env.Warning, "One task for several GPUs", fmt.Sprintf("%s gives each host %d GPUs, and nothing says how many tasks srun starts there: it starts one.", strings.ToUpper(j.gpusAt[:1])+j.gpusAt[1:], j.gpus), "Programs that take one task for each GPU (Lightning does) wait for ranks that never start, or use one GPU. It is right for a program that starts its ranks itself (mp.spawn).", fmt.Sprintf("Add #SBATCH --ntasks-per-node=%d, or start torchrun with one task per host.", j.gpus))
	}
	if j.gpus > 0 && j.perHost > j.gpus {
		s.say(j.perHostAt, env.Error, "Fewer GPUs than processes", fmt.Sprintf("The launcher starts %d processes on a host, and %s gives them %d GPUs.", j.perHost, j.gpusAt, j.gpus), "Ranks fail with invalid device ordinal, or share a GPU, which NCCL refuses.", "Make both numbers the same.")
	}
}

// hosts notes a number of hosts: "2", or "1:4" and "1-4" of elastic jobs.
func (j *job) hosts(v string) {
	if i := strings.LastIndexAny(v, ":-"); i >= 0 {
		v = v[i+1:]
	}
	if n, err := strconv.Atoi(v); err == nil {
		j.nodes = max(j.nodes, n)
	}
}

// machine is one configuration of accelerate.
type machine struct {
	line                      int
	machines, processes, rank int // -1: not said
	nowhere                   int // line that gives no address to meet at; 0: none
}

// accelerate takes a line of a configuration of accelerate into account. A key that comes again begins the next host's.
func (j *job) accelerate(w word, key string) {
	n, err := strconv.Atoi(w.text)
	if len(j.machines) == 0 || slices.Contains(j.keys, key) && len(j.machines) < maxFindings {
		j.machines = append(j.machines, machine{w.line, -1, -1, -1, 0})
		j.keys = nil
	}
	j.keys = append(j.keys, key)
	m := &j.machines[len(j.machines)-1]
	switch {
	case key == "main_process_ip" && (w.text == "null" || w.text == "None"):
		m.nowhere = w.line
	case key == "main_process_ip":
		j.meets(w)
	case key == "main_process_port":
		j.ports = append(j.ports, w)
	case err != nil:
	case key == "num_machines":
		j.hosts(w.text)
		m.machines = n
	case key == "num_processes":
		m.processes, m.line = n, w.line
	case key == "machine_rank":
		m.rank = n
		j.first = j.first || n == 0
	}
}

// processes takes the numbers of accelerate's command line into account.
func (j *job) processes(c command) {
	m := machine{c.line(), -1, -1, -1, 0}
	for _, o := range []struct {
		into    *int
		options []string
	}{{&m.machines, []string{"--num_machines", "--num-machines"}}, {&m.processes, []string{"--num_processes", "--num-processes"}}} {
		if v, ok := c.value(o.options...); ok {
			if n, err := strconv.Atoi(v); err == nil {
				*o.into = n
			}
		}
	}
	if m.machines > 0 && m.processes > 0 && len(j.machines) < maxFindings {
		j.machines = append(j.machines, m)
		j.keys = nil
	}
}

// accelerated checks the numbers that accelerate gets: num_processes counts the processes of all hosts.
func (s *script) accelerated() {
	ranks := map[int]bool{}
	several := 0
	for _, m := range s.job.machines {
		if m.machines > 1 && m.processes > 0 && m.processes%m.machines != 0 {
			s.say(m.line, env.Error, "Too few processes for the hosts", fmt.Sprintf("num_processes is %d, and num_machines %d.", m.processes, m.machines), "accelerate divides num_processes, the number of all hosts' processes, by the hosts: a host gets none, or some GPUs stay idle.", "Set num_processes to the hosts times the GPUs of each, the same on all hosts.")
		}
		if m.machines > 1 && m.nowhere > 0 && len(s.job.meeting) == 0 {
			s.say(m.nowhere, env.Warning, "The hosts do not meet", fmt.Sprintf("num_machines is %d, and main_process_ip is empty.", m.machines), "Unless accelerate launch gets --main_process_ip, each host meets at its own localhost, and waits there until the timeout.", "Give all hosts the address of the host with machine_rank 0, and the same main_process_port.")
		}
		if m.machines > 1 && m.rank >= 0 {
			several++
			ranks[m.rank] = true
		}
	}
	if several > 1 && len(ranks) == 1 {
		s.say(s.job.machines[0].line, env.Warning, "Hosts have one rank", fmt.Sprintf("The %d configurations have the same machine_rank.", several), "If they are for different hosts, each takes itself for the same one, and the others never come.", "Number the hosts from 0: machine_rank 0 on the host of main_process_ip.")
	}
}

func (j *job) meets(w word) {
	if _, port, err := net.SplitHostPort(w.text); err == nil {
		j.ports = append(j.ports, word{text: port, line: w.line})
	}
	if len(j.meeting) < maxFindings {
		j.meeting = append(j.meeting, w)
	}
}

var (
	// accelerated is a line of accelerate's configuration, also as accelerate env lists it.
	accelerated = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(?: *\d+)? *(?:- )?(num_machines|num_processes|main_process_ip|main_process_port|machine_rank): *['"]?([\w.:@/-]+)`)
	})
	// opened is a rule of a firewall for one port.
	opened = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?:ufw allow|--dport[ =]|--add-port[ =]|open(?:ed)? (?:the )?port) ?(\d+)(?:/tcp)?(?:[^\d:-]|$)`)
	})
)

// ownName is a place to meet that is the name of the host itself.
var ownName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("--(?:rdzv[_-]endpoint|master[_-]addr|main_process_ip)[= ]\"?(\\$\\(hostname(?: -[fsiI])?\\)|`hostname(?: -[fsiI])?`|\\$\\{?HOSTNAME\\}?)")
})

// ownPlace reports that each host meets the others at its own name. A batch script's own shell runs on one host alone.
func (s *script) ownPlace(text string) {
	if s.job.nodes < 2 || anyOf(text, []string{"srun", "sbatch", "SBATCH", "bsub", "qsub", "PBS", "mpirun", "ssh "}) {
		return
	}
	if at := ownName().FindStringSubmatchIndex(text); at != nil {
		s.say(strings.Count(text[:at[0]], "\n")+1, env.Warning, "Ranks meet at each host's own name", fmt.Sprintf("%s is another name on each of the %d hosts.", text[at[2]:at[3]], s.job.nodes), "It is right on the host of rank 0 alone: if the same line runs on the others, each waits for itself until the timeout.", "Give all hosts the name or the address of the host with rank 0.")
	}
}

// ownAddress is a command that looks up the address of its host's own name.
var ownAddress = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("[`(].*\\bhostname +(?:--ip-address|-i)\\b") })

// lowPort is a port of the rendezvous that only root can listen on.
var lowPort = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?:--master[_-]port[= ]|--main_process_port[= ]|\bMASTER_PORT=)["']?([1-9]\d{0,2})(?:["'\s]|$)`)
})

// fallsBack is a computed address that becomes the host's own if the command for it fails.
var fallsBack = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^\s*(?:export +)?\w*(?:ADDR|HOST|MASTER|RDZV|HEAD|(?i:_ip))\w*=.*\|\| *(?:echo|printf) +["']?(?:localhost|127\.0\.0\.1)`)
})

// rayAddress is the address of a host that ray start gets with a port, which it does not take.
var rayAddress = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\bray start\b.*--node-ip-address[= ]+["']?(\d+\.\d+\.\d+\.\d+:\d+)`)
})

// rayItself is a ray start that joins the cluster of its own host.
var rayItself = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\bray start\b.*--address[= ]+["']?(?:localhost|127\.0\.0\.1):\d`)
})

// fromPython is where ranks meet, as a program of Python sets it.
var fromPython = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`os\.environ(?:\[|\.setdefault\()["']MASTER_ADDR["']\]?\s*[=,]\s*["']([\w.:-]+)["']`)
})

// jobs checks what the launchers, the variables and the rules of a firewall say together.
func (s *script) jobs(text string, kind Kind) {
	j := &s.job
	number := 0
	for line := range strings.Lines(text) {
		number++
		if strings.Contains(line, "NNODES=") {
			j.startingBy(number, line)
		}
		if at := accelerated().FindStringSubmatch(line); at != nil {
			j.accelerate(word{text: at[2], line: number}, at[1])
		}
		if at := fromPython().FindStringSubmatch(line); at != nil {
			j.meets(word{text: at[1], line: number})
		}
	}
	for _, v := range s.sets {
		switch {
		case v.dynamic:
		case v.name == "MASTER_ADDR":
			j.meets(word{text: v.value, line: v.line})
		case v.name == "MASTER_PORT" || v.name == "PORT":
			j.ports = append(j.ports, word{text: v.value, line: v.line})
		case v.name == "NNODES" || v.name == "NUM_NODES":
			j.hosts(v.value)
		case strings.HasPrefix(v.name, "CUDA_VIS") && v.name != "CUDA_VISIBLE_DEVICES":
			s.add(v.line, env.Finding{Severity: env.Error, Name: v.name, Summary: "Unknown variable", Wrong: "CUDA has no such variable.", Costs: "It has no effect: the program sees all GPUs.", Instead: "Write CUDA_VISIBLE_DEVICES."})
		case v.name == "VLLM_HOST_IP":
			s.announced(v)
		}
	}
	s.meeting()
	s.ownPlace(text)
	s.nowhere(text, kind)
	s.accelerated()
	s.tooEarly(text)
	s.processesFit()
	s.nestedMPI()
	for _, w := range j.ports {
		if n, err := strconv.Atoi(w.text); err == nil && n > 1<<16-1 {
			s.say(w.line, env.Error, "Not a TCP port", fmt.Sprintf("Port %d of the rendezvous: the largest is 65535.", n), "The launcher fails, or each process starts alone.", "Choose a free port between 1024 and 65535, the same on all hosts.")
		}
	}
	s.firstHostAlone(text, kind)
	s.reaching(kind)
	s.ownNetwork(text, kind)
	s.apart(kind)
	if w, ok := find(s.sets, "WORLD_SIZE"); ok && !w.dynamic && !j.elastic && j.nodes > 0 && j.tasks > 0 {
		if n, err := strconv.Atoi(w.value); err == nil && n != j.nodes*j.tasks {
			s.say(w.line, env.Error, "WORLD_SIZE does not fit", fmt.Sprintf("WORLD_SIZE = %d, but Slurm starts %d tasks on each of %d hosts.", n, j.tasks, j.nodes), "Ranks wait for others that never come, or have numbers that are too large.", "Set WORLD_SIZE to $SLURM_NTASKS and RANK to $SLURM_PROCID.")
		}
	}
	if most := max(j.nodes, 1) * j.tasks; j.all > 0 && j.all < most {
		s.say(j.allAt, env.Warning, "Fewer tasks than --ntasks-per-node", fmt.Sprintf("--ntasks = %d counts: --ntasks-per-node = %d on each of %d hosts is then only a maximum.", j.all, j.tasks, max(j.nodes, 1)), "Programs that read SLURM_NTASKS_PER_NODE, such as Lightning, wait for ranks that never start.", "Remove --ntasks, or make it the product of both.")
	}
	number = 0
	sruns, hosts := 0, map[string]bool{}
	for line := range strings.Lines(text) {
		number++
		if at := sequential().FindStringSubmatch(line); at != nil && !strings.HasSuffix(strings.TrimSpace(line), "&") && !hosts[at[1]+at[2]] && len(hosts) < maxFindings {
			if hosts[at[1]+at[2]] = true; sruns == 0 {
				sruns = number
			}
		}
		if strings.Contains(line, "llamafactory-cli") && strings.Contains(line, "NNODES=") && strings.Contains(line, " RANK=") && !strings.Contains(line, "NODE_RANK=") {
			s.say(number, env.Note, "RANK is not the number of the host", "LLaMA-Factory from 0.9.1 on reads NODE_RANK, and not RANK.", "Each host starts as the first one, and waits for the others until the timeout.", "Write NODE_RANK=0, NODE_RANK=1 and so on. Versions before 0.9.1 read RANK.")
		}
		if rayItself().MatchString(line) {
			s.say(number, env.Warning, "Ray joins the same host", "ray start --address names the host itself.", "It is right beside the head alone: another host finds no cluster there, or one of its own.", "Give the address of the host that ran ray start --head.")
		}
		if at := rayAddress().FindStringSubmatch(line); at != nil {
			s.say(number, env.Error, "Not an address of a host", fmt.Sprintf("--node-ip-address gets %s, with a port.", shorten(at[1])), "Ray announces the whole text as this host's address: its processes and NCCL's ranks cannot connect to it.", "Write the host's own address without a port.")
		}
		if ownAddress().MatchString(line) && j.nodes > 1 {
			s.say(number, env.Warning, "The address may be a loopback one", "hostname --ip-address looks up the host's own name, which /etc/hosts of many hosts gives 127.0.1.1.", "Ranks on other hosts cannot connect to such an address, and wait until the timeout.", "Print the address. Use the name itself, as scontrol show hostnames gives it, or the address of an interface.")
		}
		if fallsBack().MatchString(line) && (j.nodes != 1 || strings.Contains(line, "scontrol ")) {
			s.say(number, env.Warning, "Ranks may meet at localhost", "Where the command for the address fails or is missing, as scontrol in most containers, the address becomes localhost.", "Each host then waits for itself until the timeout, and no error says why.", "Let the script stop instead, or find the address outside of the container and hand it in (MASTER_ADDR).")
		}
		if at := lowPort().FindStringSubmatch(line); at != nil {
			s.say(number, env.Warning, "The port needs root", fmt.Sprintf("Port %s is for the rendezvous.", at[1]), "Ports below 1024 are for root alone, and belong to other services: without root, rank 0 cannot listen there, and the others wait or are refused.", "Use a free port from 1024 on, the same on all hosts (MASTER_PORT, --master_port).")
		}
		if at := opened().FindStringSubmatch(line); at != nil && slices.ContainsFunc(j.ports, func(w word) bool { return w.text == at[1] }) {
			s.say(number, env.Warning, "One open port is not enough", fmt.Sprintf("Port %s is that of the rendezvous alone.", at[1]), "NCCL and Gloo connect ranks over other TCP ports, which the system chooses (net.ipv4.ip_local_port_range): with a firewall that is closed otherwise, ranks wait after the rendezvous.", "Allow all TCP between the hosts of the job, by their addresses.")
		}
	}
	if len(hosts) > 1 {
		s.say(sruns, env.Warning, "srun after srun", fmt.Sprintf("%d sruns each start the launcher of one host, one after the other.", len(hosts)), "The first waits for the others, which start only when it has ended.", "Start all of them with one srun (one task per host, --node_rank $SLURM_NODEID), or end each line with & and add wait.")
	}
}

// slurmRank is a number of a task or a host that a launcher's option, or a variable for ranks, gets from Slurm.
var slurmRank = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?:--(?:machine|node)[_-]rank[= ]+|\b(?:NODE_RANK|MACHINE_RANK|RANK|LOCAL_RANK)=)"?(\$\{?SLURM_(?:PROCID|NODEID|LOCALID)\b)`)
})

// tooEarly reports numbers of tasks that the batch script's own shell puts in, before srun starts the tasks.
func (s *script) tooEarly(text string) {
	if !s.job.sruns || strings.Contains(text, "<<") || strings.Count(text, "#!/") > 1 || strings.Contains(text, "rdzv_backend") || strings.Contains(text, "rdzv-backend") { // c10d numbers the hosts itself
		return
	}
	quoted := singleQuoted(text)
	for _, at := range slurmRank().FindAllStringSubmatchIndex(text, maxFindings) {
		line := 1 + strings.Count(text[:at[0]], "\n")
		begin := strings.LastIndexByte(text[:at[0]], '\n') + 1
		if !quoted(at[2]) && !strings.HasPrefix(strings.TrimSpace(text[begin:]), "#") {
			s.say(line, env.Error, "A rank is the same on all hosts", fmt.Sprintf("%s: the batch script's own shell puts the number in, on the first host, before srun starts the tasks.", text[at[0]:at[3]]), "It is 0 everywhere: each host takes itself for the first one, and the others never come.", `Let the task's shell put it in: srun bash -c '…' in single quotes, or \$ within double quotes.`)
			return
		}
	}
}

var (
	// ownLauncher is a program that starts processes on the other hosts of a job.
	ownLauncher = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`\b(?:srun|mpirun|mpiexec|prun|prterun|orterun|ssh|pdsh|clush|parallel|deepspeed|horovodrun|ray|submitit|ibrun|jsrun|flux)\b|\$\{?(?:LAUNCHER|SRUN|MPIRUN|RUN_CMD|CMD)\b`)
	})
	// lookup is an srun that only asks a host for its name or address.
	lookup = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile("(?:\\$\\(|`) *srun [^)`\n]*\\b(?:hostname|ip addr|ip -4|getent)\\b[^)`\n]*[)`]")
	})
	// alone is a line that starts the program of ranks on this host alone.
	alone = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?m)^[ \t]*(?:time +)?(?:[A-Z_]+=\S+ +)*(?:torchrun|accelerate launch|python3? (?:-u )?(?:-m torch\.distributed\.|[\w./$\{}-]+\.py\b))`)
	})
)

// firstHostAlone reports a batch script for several hosts that starts its ranks without srun: Slurm runs the script on the first host alone.
func (s *script) firstHostAlone(text string, kind Kind) {
	var code strings.Builder // without comments, but with their lines
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			line = "\n"
		}
		code.WriteString(line)
	}
	at := alone().FindStringIndex(code.String())
	if kind != Slurm || s.job.nodes < 2 || at == nil || ownLauncher().MatchString(lookup().ReplaceAllString(code.String(), "")) {
		return
	}
	line := 1 + strings.Count(code.String()[:at[0]], "\n")
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

// sequential is an srun for one host that starts a launcher: it names the host, or the launcher its number.
var sequential = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^\s*srun .*(?:(?:--nodelist[= ]|-w )(\S+) .*(?:accelerate launch|torchrun|torch\.distributed)|(?:accelerate launch|torchrun|torch\.distributed).* --(?:node|machine)[_-]rank[= ](\d+))`)
})

// announced reports an address that vLLM cannot announce to other processes: it connects ranks by it, and tells hosts apart.
func (s *script) announced(v setting) {
	if a, err := netip.ParseAddr(v.value); err == nil && (a.IsUnspecified() || a.IsLoopback() && s.job.nodes > 1) {
		s.say(v.line, env.Warning, "VLLM_HOST_IP is not a host's own address", fmt.Sprintf("VLLM_HOST_IP = %s.", a), "vLLM and Ray announce it to the other processes, which connect to themselves, or take several hosts for one.", "Set it on each host to that host's own address, and give ray start the same --node-ip-address.")
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
		bad := env.Error
		if s.job.first {
			bad = env.Warning
		}
		s.say(w.line, bad, "Ranks meet at localhost", fmt.Sprintf("%s is each host itself, and the job has %d hosts.", shorten(w.text), s.job.nodes), "It is right only on the host of rank 0: the ranks of all others wait for themselves until the timeout.", "Give the name or the address of the host with rank 0, the same on all hosts. In Slurm: scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1.")
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

var gpus = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`nvidia\.com/gpu"?: *"?(\d+)`) })

// shm is the size of a container's shared memory.
var shm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)shm[-_]size["']?[=: ]+["']?([\d.]+) ?([bkmg]?)b?\b`)
})

// freeShared is /dev/shm in the output of df: its size with a unit, and how much of it is in use.
var freeShared = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^\w+ +(\d+(?:\.\d+)?)([KMG]?) +\S+ +\S+ +(\d+)% +/dev/shm\s*$`)
})

// mounted reads df's row of /dev/shm. Without -h, df counts in KiB.
func (s *script) mounted(number int, line string) {
	at := freeShared().FindStringSubmatch(line)
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
		if at := shm().FindStringSubmatch(beforeComment(line)); at != nil && small(at[1], at[2]) {
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
		for _, at := range gpus().FindAllStringSubmatch(text, -1) {
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
