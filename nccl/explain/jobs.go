package explain

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

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
	told         int       // line of a launcher that gives each process one local rank
	lonely       []command // torchruns with --standalone that are told a number of hosts other than 1
	unmet        []command // torchruns of several hosts without an address to meet at
	sruns        bool      // srun starts the launchers, and not another script
	gpus         int       // GPUs of a host that Slurm gives the job, or CUDA_VISIBLE_DEVICES shows; 0: unknown
	gpusAt       string    // where that number stands
	perHost      int       // processes that a launcher starts on each host; 0: unknown
	perHostAt    int       // its line
	tasksAt      int       // line of tasks
	ownGPU       int       // line of --gpus-per-task=1
	bound        string    // value of --gpu-bind
	separate     int       // line of an srun that starts torchrun without a number of hosts
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
	if v, ok := c.value("--dist-init-addr", "--nccl-init-addr", "--nccl-init"); ok && !strings.Contains(v, "$") { // SGLang
		one.address, one.port, _ = strings.Cut(v, ":")
	}
	if nodes, _ := c.value("--nnodes", "--num_machines", "--num-machines"); digits(one.rank) && digits(nodes) && nodes != "1" && len(j.starts) < maxFindings {
		j.starts = append(j.starts, one)
	}
}

// byEnvironment is a setting in front of a launcher that says which of several hosts it is for.
var byEnvironment = pattern{text: `\b(NNODES|NODE_RANK|RANK|MASTER_ADDR|MASTER_PORT)=["']?([\w.:-]+)`}

// startingBy reports whether a line is that of a launcher, and notes it, that says by settings in front of it for which of several hosts it is.
func (j *job) startingBy(number int, line string) bool {
	one, nodes := start{line: number}, ""
	for _, at := range byEnvironment.re().FindAllStringSubmatch(line, maxFindings) {
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
	if !digits(one.rank) || !digits(nodes) || nodes == "1" || len(j.starts) >= maxFindings {
		return false
	}
	j.starts = append(j.starts, one)
	j.hosts(nodes)
	return true
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
		case err1 != nil && err2 != nil && first.address != "" && v.address != "" && first.address != v.address && !strings.Contains(first.address+v.address, "$") && !local && first.rank != v.rank:
			s.say(v.line, env.Warning, "Hosts may meet at different places", fmt.Sprintf("Host %s meets the others at %s, and host %s at %s (line %d).", v.rank, shorten(v.address), first.rank, shorten(first.address), first.line), "Unless both names are of one host, each waits where the other does not come, until the timeout.", "Give all hosts the address of the host with rank 0.")
		case digits(first.perHost) && digits(v.perHost) && first.perHost != v.perHost:
			s.say(v.line, env.Warning, "Hosts start different numbers of processes", fmt.Sprintf("Host %s starts %s processes, and host %s starts %s (line %d).", v.rank, shorten(v.perHost), first.rank, shorten(first.perHost), first.line), "Most programs take the number of one host for all, and compute wrong ranks or wait.", "Start the same number on all hosts, unless the program allows others.")
		}
	}
	var numbered []setting
	for _, v := range s.sets {
		if (v.name == "NODE_RANK" || v.name == "MACHINE_RANK") && !v.dynamic && !v.fallback {
			numbered = append(numbered, v)
		}
	}
	if len(numbered) > 1 && len(s.job.starts) == 0 && s.job.nodes > 1 && kind != Log && !slices.ContainsFunc(numbered, func(v setting) bool { return v.value != numbered[0].value }) {
		s.say(numbered[1].line, env.Warning, "Hosts have one rank", fmt.Sprintf("%s is %s here and in line %d.", numbered[1].name, shorten(numbered[1].value), numbered[0].line), "If they are for different hosts, each takes itself for the same one, and the others never come.", "Number the hosts from 0: 0 on the host of MASTER_ADDR.")
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
		if v, ok := c.value("--gpus-per-task"); ok && (v == "1" || strings.HasSuffix(v, ":1")) && j.ownGPU == 0 {
			j.ownGPU = c.line()
		}
		if v, ok := c.value("--gpu-bind"); ok {
			j.bound = v
		}
		v, ok := c.value("--gpus-per-node")
		if gres, is := c.value("--gres"); is {
			v, ok = strings.CutPrefix(gres, "gpu:")
		}
		if n, err := strconv.Atoi(v[strings.LastIndexByte(v, ':')+1:]); ok && err == nil {
			j.gpus, j.gpusAt = n, fmt.Sprintf("line %d", c.line())
		}
		_, own := c.value(options...)
		c := ofLauncher(c)
		if v, ok := c.value("-n", "--ntasks"); ok && j.all == 0 && (!own || !strings.HasSuffix(words[at], "srun")) { // a step on hosts of its own number has tasks of its own
			j.all, _ = strconv.Atoi(v)
			j.allAt = c.line()
		}
	}
	if v, ok := c.value(options...); ok {
		j.hosts(v)
	}
	j.processes(c)
	j.starting(c)
	if v, told := c.value("--local_rank", "--local-rank"); told && digits(v) && j.elastic && j.told == 0 {
		j.told = c.line()
	}
	if nodes, told := c.value("--nnodes"); told && nodes != "1" && nodes != "1:1" && slices.Contains(c.texts(), "--standalone") && len(j.lonely) < maxFindings {
		j.lonely = append(j.lonely, c)
	}
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
	if forOneHost(outer) && j.separate == 0 {
		j.separate = outer.line()
	}
}

// forOneHost reports whether a command starts torchrun without --nnodes, whose default is 1 (torch/distributed/run.py). A variable may hold it.
func forOneHost(c command) bool {
	at := slices.IndexFunc(c.words, func(w word) bool { return elastic(path.Base(w.text)) })
	if at < 0 {
		return false
	}
	for i, w := range c.words[at+1:] {
		before := c.words[at+i].text
		value := i > 0 && strings.HasPrefix(before, "-") && !strings.Contains(before, "=")
		switch {
		case strings.HasPrefix(w.text, "--nnodes"), w.dynamic && !value && !strings.HasPrefix(w.text, "-"), w.text == "--standalone":
			return false
		case !value && !strings.HasPrefix(w.text, "-"): // the program
			return true
		}
	}
	return false
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
	if j.separate > 0 && j.nodes > 1 {
		s.say(j.separate, env.Error, "Each host runs a job of its own", fmt.Sprintf("The job has %d hosts, and torchrun gets no --nnodes, whose default is 1.", j.nodes), "Each torchrun starts a job for its host alone: they train separately, or take each other's rendezvous and end with an error.", fmt.Sprintf("Add --nnodes=%d (or $SLURM_NNODES), with one --rdzv-id and one --rdzv-endpoint for all.", j.nodes))
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

// ofLauncher returns srun and its own options, without the program that it starts and that program's options.
func ofLauncher(c command) command {
	for i := 1; i < len(c.words); i++ {
		w, before := c.words[i].text, c.words[i-1].text
		if !strings.HasPrefix(w, "-") && (i == 1 || !strings.HasPrefix(before, "-") || strings.Contains(before, "=")) && !strings.Contains(w, "[@]") && !strings.Contains(w, "[*]") && strings.HasSuffix(c.words[0].text, "srun") {
			return command{words: c.words[:i]}
		}
	}
	return c
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
	if w.text == "" && key != "main_process_ip" {
		return
	}
	if len(j.machines) == 0 || slices.Contains(j.keys, key) && len(j.machines) < maxFindings {
		j.machines = append(j.machines, machine{w.line, -1, -1, -1, 0})
		j.keys = nil
	}
	j.keys = append(j.keys, key)
	m := &j.machines[len(j.machines)-1]
	switch {
	case key == "main_process_ip" && (w.text == "" || w.text == "null" || w.text == "None"):
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
func (s *script) accelerated(text string) {
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
	if m := s.job.machines; len(m) == 1 && several == 1 && m[0].rank == 0 && !strings.Contains(text, "--machine_rank") {
		s.say(m[0].line, env.Note, "The configuration of one host", fmt.Sprintf("num_machines is %d, and machine_rank 0.", m[0].machines), fmt.Sprintf("accelerate launch starts the processes of one host alone: without the same command on each of the %d hosts, with machine_rank 1 and so on there, this one waits for the others.", m[0].machines), "Start it on every host (srun --ntasks-per-node=1, or ssh), with --machine_rank for each host ($SLURM_NODEID in srun's own shell).")
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
	accelerated = pattern{text: `^(?: *\d+)? *(?:- )?(num_machines|num_processes|main_process_ip|main_process_port|machine_rank): *(?:['"]?([\w.:@/-]+)|['"]{0,2}\s*$)`}
	// opened is a rule of a firewall for one port.
	opened = pattern{text: `(?:ufw allow|--dport[ =]|--add-port[ =]|open(?:ed)? (?:the )?port) ?(\d+)(?:/tcp)?(?:[^\d:-]|$)`}
)

// ownName is a place to meet that is the name of the host itself.
var ownName = pattern{text: "--(?:rdzv[_-]endpoint|master[_-]addr|main_process_ip)[= ]\"?(\\$\\(hostname(?: -[fsiI])?\\)|`hostname(?: -[fsiI])?`|\\$\\{?HOSTNAME\\}?)"}

// ownPlace reports that each host meets the others at its own name. A batch script's own shell runs on one host alone.
func (s *script) ownPlace(text string) {
	if s.job.nodes < 2 || anyOf(text, []string{"srun", "sbatch", "SBATCH", "bsub", "qsub", "PBS", "mpirun", "ssh "}) {
		return
	}
	if at := ownName.re().FindStringSubmatchIndex(text); at != nil {
		s.say(strings.Count(text[:at[0]], "\n")+1, env.Warning, "Ranks meet at each host's own name", fmt.Sprintf("%s is another name on each of the %d hosts.", text[at[2]:at[3]], s.job.nodes), "It is right on the host of rank 0 alone: if the same line runs on the others, each waits for itself until the timeout.", "Give all hosts the name or the address of the host with rank 0.")
	}
}

// sameForAll is a computed address of the host that a script exports.
var sameForAll = pattern{text: "^export VLLM_HOST_IP=[\"']?(?:\\$\\(|`)"}

// rayDefault is Ray Train's own default for NCCL's interfaces (python/ray/train/constants.py).
var rayDefault = pattern{text: `\bDEFAULT_NCCL_SOCKET_IFNAME\b`}

// blankValue is a variable in a sentence whose value stands behind a space: a path or a device.
var blankValue = pattern{text: `\b(NCCL_[A-Z0-9_]+)= (/[\w./-]+|mlx5_\w+)`}

// bareUlimit is an option of docker run that lacks its dashes.
var bareUlimit = pattern{text: `\bdocker run\b.*[ \t]ulimit[ =](memlock|stack|nofile)\b`}

// ownAddress is a command that looks up the address of its host's own name.
var ownAddress = pattern{text: "[`(].*\\bhostname +(?:--ip-address|-i)\\b"}

// lowPort is a port of the rendezvous that only root can listen on.
var lowPort = pattern{text: `(?:--master[_-]port[= ]|--main_process_port[= ]|\bMASTER_PORT=)["']?([1-9]\d{0,2})(?:["'\s]|$)`}

// suffixed is an address that gets a suffix, for the name of another interface.
var suffixed = pattern{text: `^\s*(?:export +)?(\w*(?:ADDR|HOST|MASTER|RDZV|HEAD|(?i:node|_ip))\w*)=["']?\$\{?(\w+)\}?["']?[-.\w]+["']?\s*$`}

// fallsBack is a computed address that becomes the host's own if the command for it fails.
var fallsBack = pattern{text: `^\s*(?:export +)?\w*(?:ADDR|HOST|MASTER|RDZV|HEAD|(?i:_ip))\w*=.*\|\| *(?:echo|printf) +["']?(?:localhost|127\.0\.0\.1)`}

// launchedFrom is a place to meet on the host of srun itself.
var launchedFrom = pattern{text: `(?i:rdzv[-_]endpoint|rdzv_host|main_process_ip|master_?addr|master_?ip|head_\w*)[= "']+\$\{?SLURM_LAUNCH_NODE_IPADDR\b`}

// rayAddress is the address of a host that ray start gets with a port, which it does not take.
var rayAddress = pattern{text: `\bray start\b.*--node-ip-address[= ]+["']?(\d+\.\d+\.\d+\.\d+:\d+)`}

// rayItself is a ray start that joins the cluster of its own host.
var rayItself = pattern{text: `\bray start\b.*--address[= ]+["']?(?:localhost|127\.0\.0\.1):\d`}

// maxGuarded is how many lines may follow a condition that reads it, for it to cover them.
const maxGuarded = 6

// fromPython is where ranks meet, as a program of Python sets it.
var fromPython = pattern{text: `os\.environ(?:\[|\.setdefault\()["']MASTER_ADDR["']\]?\s*[=,]\s*["']([\w.:-]+)["']`}

// trainerHosts is the number of hosts that Lightning's Trainer is told.
var trainerHosts = pattern{text: `\bTrainer\([^)]{0,400}?\bnum_nodes *= *(\d{1,4})`}

// jobs checks what the launchers, the variables and the rules of a firewall say together.
func (s *script) jobs(text string, kind Kind) {
	j := &s.job
	number, guarded := 0, 0
	for line := range strings.Lines(text) {
		number++
		if strings.Contains(line, "NNODES=") && j.startingBy(number, line) {
			s.mark(number, commandLine)
			s.read.Commands++
		}
		if at := accelerated.re().FindStringSubmatch(line); at != nil {
			j.accelerate(word{text: at[2], line: number}, at[1])
		}
		if strings.Contains(line, "not in os.environ") { // what follows is for a start without a launcher
			guarded = number
		}
		if at := fromPython.re().FindStringSubmatch(line); at != nil && (guarded == 0 || number > guarded+maxGuarded) {
			j.meets(word{text: at[1], line: number})
		}
	}
	if at := trainerHosts.re().FindStringSubmatchIndex(text); at != nil && s.inSlurm {
		if n, err := strconv.Atoi(text[at[2]:at[3]]); err == nil && n > max(j.nodes, 1) {
			s.say(1+strings.Count(text[:at[2]], "\n"), env.Error, "The program expects more hosts", fmt.Sprintf("The Trainer is told num_nodes=%d, and Slurm is asked for %s.", n, cmp.Or(plural(j.nodes, "host", "hosts"), "1 host, because --nodes is missing")), "The ranks of the other hosts never start, and all wait for them.", fmt.Sprintf("Write #SBATCH --nodes=%d, with --ntasks-per-node for the GPUs of a host.", n))
		}
	}
	for _, v := range s.sets {
		switch {
		case v.dynamic:
		case v.name == "MASTER_ADDR":
			j.meets(word{text: v.value, line: v.line, dynamic: v.fallback})
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
	s.oneNIC(text)
	s.meeting()
	s.ownPlace(text)
	s.nowhere(text, kind)
	s.accelerated(text)
	s.tooEarly(text)
	s.processesFit()
	s.nestedMPI()
	if j.told > 0 && j.perHost != 1 {
		s.say(j.told, env.Error, "Every process gets one local rank", "--local_rank stands in the launcher's line as a number.", "The launcher starts the same line for each process: all of them take that GPU and that rank, and the second finds the port of the first taken.", "Leave it out: torchrun sets LOCAL_RANK for each process, and torch.distributed.launch adds the option itself.")
	}
	for _, w := range j.ports {
		if n, err := strconv.Atoi(w.text); err == nil && n > 1<<16-1 {
			s.say(w.line, env.Error, "Not a TCP port", fmt.Sprintf("Port %d of the rendezvous: the largest is 65535.", n), "The launcher fails, or each process starts alone.", "Choose a free port between 1024 and 65535, the same on all hosts.")
		}
	}
	if j.ownGPU > 0 && j.tasks > 1 && j.bound != "none" {
		s.say(j.ownGPU, env.Note, "Each task sees one GPU", fmt.Sprintf("--gpus-per-task=1 with %d tasks on a host binds each task to a GPU of its own.", j.tasks), "Where Slurm confines devices (ConstrainDevices), NCCL cannot reach the GPUs of the other tasks directly: it goes through the host's memory or fails. In each task the GPU has number 0, whatever SLURM_LOCALID is.", "Ask for --gpus-per-node instead and choose the GPU by LOCAL_RANK or SLURM_LOCALID, or add --gpu-bind=none.")
	}
	s.firstHostAlone(text, kind)
	s.oneOfSeveral(text, kind)
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
		if at := sequential.re().FindStringSubmatch(line); at != nil && !strings.HasSuffix(strings.TrimSpace(line), "&") && !hosts[at[1]+at[2]] && len(hosts) < maxFindings {
			if hosts[at[1]+at[2]] = true; sruns == 0 {
				sruns = number
			}
		}
		if strings.Contains(line, "llamafactory-cli") && strings.Contains(line, "NNODES=") && strings.Contains(line, " RANK=") && !strings.Contains(line, "NODE_RANK=") {
			s.say(number, env.Note, "RANK is not the number of the host", "LLaMA-Factory from 0.9.1 on reads NODE_RANK, and not RANK.", "Each host starts as the first one, and waits for the others until the timeout.", "Write NODE_RANK=0, NODE_RANK=1 and so on. Versions before 0.9.1 read RANK.")
		}
		if rayItself.re().MatchString(line) {
			s.say(number, env.Warning, "Ray joins the same host", "ray start --address names the host itself.", "It is right beside the head alone: another host finds no cluster there, or one of its own.", "Give the address of the host that ran ray start --head.")
		}
		if at := rayAddress.re().FindStringSubmatch(line); at != nil {
			s.say(number, env.Error, "Not an address of a host", fmt.Sprintf("--node-ip-address gets %s, with a port.", shorten(at[1])), "Ray announces the whole text as this host's address: its processes and NCCL's ranks cannot connect to it.", "Write the host's own address without a port.")
		}
		if rayDefault.re().MatchString(line) {
			s.say(number, env.Note, "Ray Train chooses the interfaces", "Ray Train sets NCCL_SOCKET_IFNAME for its workers to the names that begin with en, eth or bond, unless it is set.", "Interfaces with other names (wl…, ib…) are left out: ranks fail, or take another network.", "Set it for the workers, without a change of Ray's files: ray.init(runtime_env={\"env_vars\": {\"NCCL_SOCKET_IFNAME\": \"=wlp3s0\"}}), with the name that ip -br address shows.")
		}
		if at := blankValue.re().FindStringSubmatch(line); at != nil && kind != Log {
			s.say(number, env.Error, "Space around =", fmt.Sprintf("%s= %s: for a shell, the space ends the assignment.", at[1], shorten(at[2])), "The variable is empty.", "Write NAME=VALUE without spaces.")
		}
		if at := bareUlimit.re().FindStringSubmatch(line); at != nil {
			s.say(number, env.Error, "An option without its dashes", fmt.Sprintf("docker run takes ulimit %s as the image and its command.", at[1]), "The container does not start, or the options after it do not count.", fmt.Sprintf("Write --ulimit %s=…", at[1]))
		}
		if sameForAll.re().MatchString(line) && kind == Slurm && j.nodes > 1 && strings.Contains(text, "ray start") {
			s.say(number, env.Warning, "One address for all hosts", "The batch script, which runs on the first host, computes VLLM_HOST_IP, and srun hands it to the tasks of all hosts.", "vLLM needs a different address of each host: the others announce the first host's, and their ranks are not found.", "Compute it in each task: srun bash -c 'export VLLM_HOST_IP=$(hostname -i); ray start …'.")
		}
		if ownAddress.re().MatchString(line) && j.nodes > 1 {
			s.say(number, env.Warning, "The address may be a loopback one", "hostname --ip-address looks up the host's own name, which /etc/hosts of many hosts gives 127.0.1.1.", "Ranks on other hosts cannot connect to such an address, and wait until the timeout.", "Print the address. Use the name itself, as scontrol show hostnames gives it, or the address of an interface.")
		}
		if at := suffixed.re().FindStringSubmatch(line); at != nil && at[1] == at[2] && j.nodes != 1 && strings.Contains(text, "c10d") && !strings.Contains(text, "is_host") {
			s.say(number, env.Warning, "No host may take itself for the first", "torchrun (c10d) starts the store on the host whose own name or address is that of the endpoint, and this line adds a suffix to the name.", "A name for another interface is that of no host: all of them wait for the store, and end after a minute with a timeout.", "Give the host's own name to --rdzv-endpoint: NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME choose the interface for data. Or keep the name, and start torchrun with --rdzv-conf is_host=1 on the first host, is_host=0 on the others.")
		}
		if fallsBack.re().MatchString(line) && (j.nodes != 1 || strings.Contains(line, "scontrol ")) {
			s.say(number, env.Warning, "Ranks may meet at localhost", "Where the command for the address fails or is missing, as scontrol in most containers, the address becomes localhost.", "Each host then waits for itself until the timeout, and no error says why.", "Let the script stop instead, or find the address outside of the container and hand it in (MASTER_ADDR).")
		}
		if launchedFrom.re().MatchString(line) && !s.inSlurm {
			s.say(number, env.Warning, "Ranks may meet outside of the job", "SLURM_LAUNCH_NODE_IPADDR is the address of the host on which srun was started.", "In a script of sbatch that is the job's first host. With srun or salloc on a login node it is that one, where no rank listens: all wait until the timeout.", "Take the job's first host: $(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1).")
		}
		if at := lowPort.re().FindStringSubmatch(line); at != nil {
			s.say(number, env.Warning, "The port needs root", fmt.Sprintf("Port %s is for the rendezvous.", at[1]), "Ports below 1024 are for root alone, and belong to other services: without root, rank 0 cannot listen there, and the others wait or are refused.", "Use a free port from 1024 on, the same on all hosts (MASTER_PORT, --master_port).")
		}
		if at := opened.re().FindStringSubmatch(line); at != nil && slices.ContainsFunc(j.ports, func(w word) bool { return w.text == at[1] }) {
			s.say(number, env.Warning, "One open port is not enough", fmt.Sprintf("Port %s is that of the rendezvous alone.", at[1]), "NCCL and Gloo connect ranks over other TCP ports, which the system chooses (net.ipv4.ip_local_port_range): with a firewall that is closed otherwise, ranks wait after the rendezvous.", "Allow all TCP between the hosts of the job, by their addresses.")
		}
	}
	if len(hosts) > 1 {
		s.say(sruns, env.Warning, "srun after srun", fmt.Sprintf("%d sruns each start the launcher of one host, one after the other.", len(hosts)), "The first waits for the others, which start only when it has ended.", "Start all of them with one srun (one task per host, --node_rank $SLURM_NODEID), or end each line with & and add wait.")
	}
}

// somePorts is a sentence by which only some ports are open.
var somePorts = pattern{text: `(?i)\bonly\b.{0,40}\bports?\b.{0,40}\b(?:open|opened|allowed|available|exposed|accessible|forwarded)\b|\b(?:open|opened|opens|allow|allowed|expose|exposed|forward)\b.{0,20}\bonly\b.{0,30}\bports?\b|\bonly (?:open|allow|expose|forward)\w*\b.{0,30}\bports?\b|\bexposed ports\b.{0,30}\blimited\b|\b(?:limited|restricted) (?:(?:set|number|range) of )?(?:open |exposed |tcp )*ports\b|只(?:开放|能用|有).{0,20}端口`}

// ofTCP tells ports of TCP from those of NICs and switches.
var ofTCP = pattern{text: `(?i)\b\d{4,5}\b|firewall|\btcp\b|\bexposed\b|security group|防火墙`}

// otherNames is a question for interfaces that have other names on other hosts.
var otherNames = pattern{text: `(?i)\bdifferent\b.{0,40}\b(?:NCCL|GLOO)_SOCKET_IFNAME\b.{0,60}\b(?:each|every|per|both|different)\b|\b(?:NCCL|GLOO)_SOCKET_IFNAME\b.{0,60}\b(?:each|every|per|both|different) (?:nodes?|hosts?|machines?|servers?)\b`}

// oneNIC reports many ranks of a host that a setting gives one NIC.
func (s *script) oneNIC(text string) {
	hca, set := find(s.sets, "NCCL_IB_HCA")
	list := env.ParseList(hca.value)
	if !set || hca.dynamic || s.rendered || list.Exclude || len(list.Entries) != 1 || !digits(list.Entries[0].Name[len(list.Entries[0].Name)-1:]) || !s.fleet && s.job.nodes < 2 {
		return
	}
	bad, ranks := env.Note, s.slots
	if slowly().slow.MatchString(text) {
		bad, ranks = env.Warning, max(ranks, s.job.perHost, s.job.gpus)
	}
	if ranks < manyGPUs {
		return
	}
	s.add(hca.line, env.Finding{Severity: bad, Name: hca.name, Summary: oneForAll, Wrong: fmt.Sprintf("%s = %s, and each host has %d ranks.", hca.name, shorten(hca.value), ranks), Costs: "The bus bandwidth between hosts is at most the speed of that NIC (200 Gb/s are 25 GB/s), and GPUs that are far from it reach it through processors.",
		Instead: "If the hosts have more NICs for RDMA, name all of them, with = in front (ibdev2netdev lists them; nvidia-smi topo -m shows which is near which GPU)."})
}

// oneSlot is a line of a hostfile of Open MPI or DeepSpeed with another word for its slots.
var oneSlot = pattern{text: `^\s*[A-Za-z0-9][\w.-]*\s+(slot|Slots?|SLOTS?|slots?\s+=|slots?:)\s*=?\s*\d+\s*$`}

// slotsTold reports such a line, if a launcher gets a hostfile.
func (s *script) slotsTold(number int, line string) {
	if at := oneSlot.re().FindStringSubmatch(line); at != nil && at[1] != "slots" {
		s.say(number, env.Warning, "Not the form of a hostfile", fmt.Sprintf("The line has %q.", shorten(strings.TrimSpace(line))), "Open MPI and DeepSpeed read HOST slots=N: with another word, mpirun stops or counts one process for the host.", "Write slots=N, without blanks around =.")
	}
}

// namesTold answers a text that asks how to name interfaces that differ between hosts.
func (s *script) namesTold(number int, line string) {
	if otherNames.re().MatchString(line) && !strings.Contains(line, "IFNAME=") {
		s.say(number, env.Note, "Interfaces with other names on other hosts", "The text speaks of NCCL_SOCKET_IFNAME for single hosts.", "Launchers mostly give all hosts one value; a shell's variables on a host reach the ranks only if they are started from that shell.",
			"Give all hosts one list with the names of all (NCCL_SOCKET_IFNAME=eth0,eno1: each host takes those that it has) or a common beginning (en), or put the value into /etc/nccl.conf of each host. Gloo and MPI have variables of their own.")
	}
}

// portsTold reports prose by which a firewall lets only some ports through: NCCL takes others.
func (s *script) portsTold(number int, line string) {
	if at := somePorts.re().FindString(line); at != "" && ofTCP.re().MatchString(line) && !strings.Contains(line, "?") {
		s.say(number, env.Warning, "Some open ports are not enough", "The text says: "+quote(at)+".", "NCCL and Gloo connect ranks over TCP ports that the system chooses (net.ipv4.ip_local_port_range, mostly 32768 to 60999), and no variable of NCCL names them: connections to other ports fail or wait.",
			"Allow all TCP between the hosts of the job. If that is not possible, give the system the open range on every host (in containers: in the container's network): sysctl -w net.ipv4.ip_local_port_range=\"FROM TO\", with several ports for each rank, and MASTER_PORT beside it.")
	}
}

var (
	// ownLauncher is a program that starts processes on the other hosts of a job.
	ownLauncher = pattern{text: `\b(?:srun|mpirun|mpiexec|prun|prterun|orterun|ssh|pdsh|clush|parallel|deepspeed|horovodrun|ray|submitit|ibrun|jsrun|flux)\b|\$\{?(?:LAUNCHER|SRUN|MPIRUN|RUN_CMD|CMD)\b`}
	// lookup is an srun that only asks a host for its name or address.
	lookup = pattern{text: "(?:\\$\\(|`) *srun [^)`\n]*\\b(?:hostname|ip addr|ip -4|getent)\\b[^)`\n]*[)`]"}
	// alone is a line that starts the program of ranks on this host alone.
	alone = pattern{text: `(?m)^[ \t]*(?:time +)?(?:[A-Z_]+=\S+ +)*(?:(?:apptainer|singularity) exec [^\n]*? )?(?:torchrun|accelerate launch|python3? (?:-u )?(?:-m torch\.distributed\.|[\w./$\{}-]+\.py\b))`}
)

var gpus = pattern{text: `nvidia\.com/gpu"?: *"?(\d+)`}

// shm is the size of a container's shared memory.
var shm = pattern{text: `(?i)shm[-_]size["']?[=: ]+["']?([\d.]+) ?([bkmg]?)b?\b`}
