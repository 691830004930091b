package explain

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/fabricform/fabricform/nccl/env"
)

// script collects what the commands of a file do together.
type script struct {
	*reading
	sets     []setting
	passed   map[string]bool // -x NAME without a value
	launched int             // line of the first mpirun; 0: none
	fleet    bool            // an mpirun starts ranks on several hosts
	slots    int             // ranks that it starts on each of them; 0: unknown

	advised   string // the variable of a cure that the text named last
	advisedAt int    // its line
	inSlurm   bool   // a batch script of Slurm, below which mpirun's daemons have the script's environment (plm_slurm of Open MPI)
	network   networks
	perftest  []perftest
	runs      []command // docker run
	job       job
	breaks    []int // lines of a paste between which settings may be those of different hosts
	named     []int // lines that name a host
	depth     int   // of bash -c
	lone      []int // lines of quotes without a partner
	rendered  bool  // by this program
	byRank    bool  // a command asks for the rank on its host
	alone     bool  // the command stands in prose or in a branch, so that it need not agree with others
	plainly   int   // number of commands that only assign
	plain     bool  // most commands only assign
}

// commands reads exports, launchers and the other commands of a script, or of a paste of several terminals. rules has the tables
// of the rules that ip rule shows in them, and the lines.
func (r *reading) commands(text string, pasted bool, rules map[string]int) *script {
	s := &script{reading: r, rendered: rendered(text), inSlurm: strings.Contains(text, "#SBATCH "), passed: map[string]bool{}}
	s.breaks, s.named = breaks(text, pasted), namingHosts(text)
	all, lone := parse(text)
	s.lone = lone
	branches := inBranches(all)
	for i, c := range all {
		s.alone = c.quoted || branches[i]
		s.byRank = s.byRank || slices.ContainsFunc(c.words, func(w word) bool { return w.dynamic && anyOf(w.text, localRank) })
		s.command(c)
	}
	s.together()
	if !pasted {
		s.handedOn(text, all)
	}
	s.network.finish(r, rules)
	perftestPairs(r, s.perftest)
	s.plain = len(s.sets) > 0 && s.plainly*5 >= len(all)*4
	return s
}

// cutOff reports a backslash at the end of a command's line that blanks follow: it does not join the lines.
func (s *script) cutOff(text string) {
	lines := strings.SplitAfterN(text, "\n", maxCommands)
	for i, line := range lines[:len(lines)-1] {
		words := strings.Fields(strings.TrimSuffix(strings.TrimRight(line, " \t\r\n"), "\\"))
		next := strings.TrimLeft(lines[i+1], " \t")
		if at := strings.TrimRight(line, " \t\r\n"); strings.HasSuffix(at, " \\") && strings.Trim(line[len(at):], "\r\n") != "" && len(words) > 0 && next != lines[i+1] && strings.TrimSpace(next) != "" {
			s.say(i+1, env.Error, "The command ends too early", "Blanks follow the backslash at the end of the line.", "It does not join the lines: the shell starts the program without the options below, and takes these for another command.", "Remove the blanks behind the backslash.")
		}
	}
}

// set records NAME=VALUE. It returns false if the word has another form.
func (s *script) set(w word, where string, fleet bool) bool {
	name, ok := w.assignment()
	if w.broken {
		s.add(w.line, env.Finding{Severity: env.Error, Name: name, Summary: "A line break in a list", Wrong: fmt.Sprintf("The value of %s goes on in the next line, within its quotes.", name), Costs: "The line break belongs to the value: NCCL takes it as the beginning of the name after it, and finds nothing of such a name.", Instead: "Write the list in one line."})
	}
	if ok {
		s.record(name, word{text: w.text[len(name)+1:], line: w.line, dynamic: w.dynamic}, where, fleet)
	}
	return ok
}

// record records a setting. ${NAME:-value} stands for its value, unless somebody sets NAME elsewhere.
func (s *script) record(name string, value word, where string, fleet bool) {
	fallback := false
	if inner, ok := strings.CutPrefix(value.text, "${"+name+":-"); ok && value.dynamic {
		if v, closed := strings.CutSuffix(inner, "}"); closed && !strings.ContainsAny(v, "${}`") {
			value.text, value.dynamic, fallback = v, false, true
		}
	}
	s.sets = append(s.sets, setting{line: value.line, name: name, value: value.text, dynamic: value.dynamic, where: where, fleet: fleet, fallback: fallback, alone: s.alone})
}

// isWrapper reports whether a program or a word of the shell runs the rest of its line as a command.
func isWrapper(name string) bool {
	switch name {
	case "sudo", "env", "time", "nohup", "exec", "stdbuf", "then", "else", "do", "{", "!", "numactl":
		return true
	}
	return false
}

// runTogether is an option with a value whose end is the next option.
var runTogether = pattern{text: `^--[a-z][\w-]*=[\w.:/@-]*?[^-\s](--[a-z][\w-]+=)`}

func (s *script) command(c command) {
	s.inner(c)
	for _, w := range c.words {
		if at := runTogether.re().FindStringSubmatch(w.text); at != nil {
			s.say(w.line, env.Error, "A blank is missing between two options", fmt.Sprintf("%s: %s… is a part of the value before it.", shorten(w.text), at[1]), "The program does not get the second option, and the first with a wrong value.", "Write a blank before "+at[1]+"….")
		}
	}
	words, before := c.words, len(s.sets)
	for len(words) > 0 {
		w := words[0]
		if !s.set(w, "export", false) && !isWrapper(w.text) {
			break
		}
		words = words[1:]
	}
	if len(words) == 0 {
		s.plainly++
		return
	}
	for i := range s.sets[before:] { // A=B program sets A for that program alone
		s.sets[before+i].alone = true
	}
	rest := command{words, c.quoted}
	s.job.learn(rest)
	switch name := path.Base(words[0].text); {
	case name == "export" || name == "declare" || name == "typeset" || name == "set" || name == "setenv" || name == "ENV":
		s.export(name, words[1:])
		return
	case slices.Contains(mpiLaunchers, name):
		s.mpirun(rest)
	case name == "srun" || name == "sbatch" || name == "#SBATCH":
		s.job.sruns = s.job.sruns || name == "srun" && !slices.ContainsFunc(words, func(w word) bool { return strings.HasSuffix(w.text, ".sh") })
		if !s.srun(words[1:]) {
			return
		}
	case name == "docker" || name == "${DOCKER:-docker}" || name == "podman" || name == "nerdctl":
		s.docker(rest)
	case name == "singularity" || name == "apptainer":
		s.singularity(rest)
	case isNCCLTest(name):
		s.ncclTests(rest)
	case strings.HasPrefix(name, "ib_") && (strings.HasSuffix(name, "_bw") || strings.HasSuffix(name, "_lat")):
		s.perftest = append(s.perftest, readPerftest(rest))
	case name == "ulimit":
		if !s.memlocked(rest) {
			return
		}
	case name == "ip":
		if !s.network.ip(s.reading, rest, s.named) {
			return
		}
	default:
		if !s.other(name, rest) {
			return
		}
	}
	s.read.Commands++
	for line := rest.line(); line <= words[len(words)-1].line; line++ {
		s.mark(line, commandLine)
	}
}

var mpiLaunchers = []string{"mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun"}

// inner reads the script of bash -c "…".
func (s *script) inner(c command) {
	for i := 1; i+1 < len(c.words) && s.depth < maxDepth; i++ {
		option := c.words[i].text
		if !strings.HasPrefix(option, "-") || !strings.HasSuffix(option, "c") || len(option) > 4 || !strings.HasSuffix(path.Base(c.words[i-1].text), "sh") {
			continue
		}
		all, _ := parse(c.words[i+1].text)
		branches, before, outer := inBranches(all), len(s.sets), s.alone
		s.depth++
		for k, in := range all {
			for j := range in.words {
				in.words[j].line += c.words[i+1].line - 1
			}
			s.alone = outer || branches[k]
			s.command(in)
		}
		s.depth--
		s.alone = outer
		if slices.ContainsFunc(c.words[:i], func(w word) bool { return slices.Contains(mpiLaunchers, path.Base(w.text)) }) {
			for k := range s.sets[before:] { // on each host
				s.sets[before+k].where = "the ranks' shell"
			}
		}
		return
	}
}

// maxCommands limits the lines that are searched for a broken continuation.
const maxCommands = 1 << 16

// maxDepth limits scripts within scripts.
const maxDepth = 3

// inBranches returns for each command whether an if or a case decides over it. Such words without their end are prose.
func inBranches(all []command) []bool {
	out, open := make([]bool, len(all)), map[string][]int{}
	last := 0 // commands before it are marked
	for i, c := range all {
		switch name := c.words[0].text; name {
		case "if", "case":
			open[name] = append(open[name], i)
		case "fi", "esac":
			begin := open[map[string]string{"fi": "if", "esac": "case"}[name]]
			if len(begin) == 0 {
				continue
			}
			for j := max(begin[0], last); j < i; j++ {
				out[j] = true
			}
			last = i
			clear(open)
		}
	}
	return out
}

func (s *script) export(name string, words []word) {
	if len(words) == 2 && !strings.Contains(words[0].text, "=") && (name == "setenv" || name == "ENV") { // csh and Dockerfile
		s.record(words[0].text, words[1], "export", false)
		return
	}
	for i, w := range words {
		blank := strings.HasSuffix(w.text, "=") || i+1 < len(words) && words[i+1].text == "="
		if blank && strings.HasPrefix(w.text, "NCCL_") && i+1 < len(words) {
			s.say(w.line, env.Error, "Space around =", fmt.Sprintf("export %s …: for a shell, the space ends the assignment.", shorten(w.text)), "The variable is empty or not set.", "Write NAME=VALUE without spaces.")
			return
		}
		s.set(w, "export", false)
	}
}

// Lines that write a space between a variable of NCCL and its equals sign, or quotes around its value.
var (
	spacedName  = pattern{text: `^[ \t]*(NCCL_\w+)[ \t]+=`}
	quotedValue = pattern{text: `^[ \t]*(NCCL_\w+)=(?:"[^"\s]*"|'[^'\s]*')\s*$`}
)

// spaced reports an assignment of a script or of a .env file that its readers take in different ways. Of those of a .env file, docker run
// --env-file refuses the space and keeps the quotes (pkg/kvfile of docker/cli); Compose and python-dotenv remove both.
func (s *script) spaced(text string, envFile bool) {
	if strings.Contains(text, "<<") {
		return // a program of another language may assign so
	}
	number := 0
	for line := range strings.Lines(text) {
		number++
		space, quotes := spacedName.re().FindStringSubmatch(line), quotedValue.re().FindStringSubmatch(line)
		switch {
		case space != nil && envFile:
			s.add(number, env.Finding{Severity: env.Warning, Name: space[1], Summary: "Space around =", Wrong: space[1] + " =: docker run --env-file refuses the space, and a shell takes the name for a program.", Costs: "Docker Compose and python-dotenv accept it.", Instead: "Write " + space[1] + "=… without spaces, which all of them accept."})
		case space != nil:
			s.add(number, env.Finding{Severity: env.Error, Name: space[1], Summary: "Space around =", Wrong: space[1] + " =: for a shell, the space ends the name, and it looks for a program " + space[1] + ".", Costs: "The variable is not set.", Instead: "Write export " + space[1] + "=… without spaces."})
		case quotes != nil && envFile:
			s.add(number, env.Finding{Severity: env.Note, Name: quotes[1], Summary: "Quotes in a .env file", Wrong: "docker run --env-file takes the quotes for a part of the value.", Costs: "NCCL then finds no such interface or device, or reads a number as 0. Docker Compose and python-dotenv remove the quotes.", Instead: "Leave the quotes out, which all of them accept."})
		}
	}
}

// mpirun reads the options of Open MPI and MPICH, and the program that mpirun starts.
func (s *script) mpirun(c command) {
	hydra := slices.ContainsFunc(c.texts(), func(w string) bool {
		return slices.Contains([]string{"-hosts", "-ppn", "-iface", "-genv", "-env", "-genvall"}, w)
	}) // MPICH's and Intel's pass the environment on
	if s.launched == 0 && !hydra && !s.inSlurm && slices.ContainsFunc(c.texts(), func(w string) bool { return strings.HasPrefix(w, "-") }) { // else its own messages
		s.launched = c.line()
	}
	words, fleet := c.words[1:], severalHosts(c) && !s.rendered // which compared the hosts
	at := placement{line: c.line(), mapped: hydra}
	s.fleet = s.fleet || fleet && !hydra
	for i := 0; i < len(words); i++ {
		next := func(n int) word {
			if i+n < len(words) {
				return words[i+n]
			}
			return word{line: words[i].line}
		}
		at.option(words[i].text, next(1).text)
		switch w := words[i]; {
		case w.text == "-x":
			if v := next(1); !s.set(v, "mpirun", fleet) {
				s.passed[v.text] = true
			}
			i++
		case w.text == "-genv" || w.text == "-env": // MPICH
			s.record(next(1).text, next(2), "mpirun", fleet)
			i += 2
		case w.text == "-mca" || w.text == "--mca":
			s.mca(next(1), next(2), severalHosts(c))
			i += 2
		case w.text == "-H" || w.text == "--host" || w.text == "-host":
			if _, slots, _ := strings.Cut(next(1).text, ":"); fleet { // a:8,b:8
				slots, _, _ = strings.Cut(slots, ",")
				s.slots, _ = strconv.Atoi(slots)
			}
			i++
		case w.text == "--allow-run-as-root":
			s.say(w.line, env.Note, "Runs as root", "Every rank runs as root on every host.", "A mistake in the job can damage the whole machine.", "Use a separate user with unlimited memlock.")
		case isNCCLTest(path.Base(w.text)):
			s.ncclTests(command{words: words[i:]})
			at.judge(s, command{words: words[i:]})
			return
		case strings.HasPrefix(path.Base(w.text), "python") || path.Base(w.text) == "bash" || path.Base(w.text) == "sh":
			return // the remaining words belong to that program
		}
	}
}

// placement is how many ranks mpirun puts on the first host of its list: Open MPI fills a host's slots before it takes the next host.
type placement struct {
	line   int
	first  string // host
	slots  int    // of that host, if the list says it
	hosts  int
	ranks  int  // -np; 0: not given
	mapped bool // an option maps ranks to hosts in another way
}

// option takes an option of mpirun, and what follows it.
func (p *placement) option(name, value string) {
	switch strings.TrimLeft(name, "-") {
	case "H", "host":
		list := strings.Split(value, ",")
		host, slots, _ := strings.Cut(list[0], ":")
		p.first, p.hosts = host, len(list)
		p.slots, _ = strconv.Atoi(slots)
	case "np", "n", "c":
		p.ranks, _ = strconv.Atoi(value)
	case "N", "npernode", "pernode", "bynode", "rankfile", "rf", "map-by", "npersocket":
		p.mapped = p.mapped || value != "slot"
	}
}

// mostGPUs is how many GPUs a host has at most.
const mostGPUs = 16

// judge compares the ranks of the first host with the GPUs that a program of nccl-tests takes in each.
func (p *placement) judge(s *script, test command) {
	if p.hosts < 2 || p.slots == 0 {
		return
	}
	gpus := 1
	for _, option := range [][]string{{"-g", "--ngpus"}, {"-t", "--nthreads"}} {
		if v, ok := test.value(option...); ok {
			n, err := strconv.Atoi(v)
			if err != nil {
				return
			}
			gpus *= max(min(n, mostGPUs+1), 1)
		}
	}
	if here := min(p.slots, mostGPUs+1); !p.mapped && gpus > 1 && here > 1 && here*gpus > mostGPUs && (p.ranks == 0 || p.ranks >= p.slots) {
		s.say(p.line, env.Error, "More GPUs than a host has", fmt.Sprintf("mpirun starts %d processes on %s, and each of them asks for %d GPUs (-g times -t).", p.slots, p.first, gpus), "A process asks for GPUs that are not there: invalid device ordinal.", fmt.Sprintf("Start one process per GPU with -t 1 -g 1, or one per host: -H %s:1 and so on with -g.", p.first))
	}
	if !p.mapped && p.ranks > 1 && p.ranks <= p.slots {
		s.say(p.line, env.Warning, "All ranks run on the first host", fmt.Sprintf("%s has %d slots, and Open MPI fills them before it takes the next host: all %d ranks run there.", p.first, p.slots, p.ranks), "The other hosts take no part. If that host has fewer GPUs than ranks, ranks fail with invalid device ordinal.", fmt.Sprintf("Write -H %s:1 and so on, or --map-by node.", p.first))
	}
}

// severalHosts reports whether an mpirun line starts ranks on several hosts.
func severalHosts(c command) bool {
	for i, w := range c.words {
		switch w.text {
		case "--hostfile", "-hostfile", "-f", "--machinefile", "-machinefile":
			return true
		case "-H", "--host", "-host":
			return i+1 < len(c.words) && strings.Contains(c.words[i+1].text, ",")
		}
	}
	return false
}

func (s *script) mca(name, value word, fleet bool) {
	if name.text == "btl" && strings.HasPrefix(value.text, "^") && slices.Contains(strings.Split(value.text[1:], ","), "tcp") && fleet {
		s.say(value.line, env.Warning, "MPI has no TCP between hosts", "--mca btl "+value.text+" removes it.", "Unless UCX or libfabric finds a NIC for RDMA, processes of different hosts cannot reach each other: MPI_Init fails, or they wait.", "Remove tcp from the list, and name the network: --mca btl_tcp_if_include NIC.")
	}
	if name.text != "btl_tcp_if_include" && name.text != "oob_tcp_if_include" {
		return
	}
	if fleet {
		s.overMPI = value
	}
	for v := range strings.SplitSeq(value.text, ",") {
		if env.LooksLikeDevice(v) && !s.isNetdev(v) && !strings.HasPrefix(v, "ib") {
			s.say(value.line, env.Error, "RDMA device instead of an interface", fmt.Sprintf("%s %s: %s is an RDMA device.", name.text, value.text, v), "Open MPI finds no interface, so its ranks cannot connect.", "Name the interface, or a network such as 10.0.0.0/24 if the names differ between hosts.")
		}
	}
}

// ofHosts is a heading above what is for one of several hosts.
var ofHosts = pattern{text: `(?i)(?:\b|_)(?:node|host|machine|server|worker|head|master|slave)s?[ _-]?\d*\b|节点|机器|主机|服务器`}

// breaks returns the lines that set nothing and after which another host's terminal may follow: in a paste a heading, a command or
// prose, in a script a heading that names a host.
func breaks(text string, pasted bool) (out []int) {
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if name := leadingName(line); line != "" && !strings.HasPrefix(line, "export ") && (name == "" || !strings.HasPrefix(line[len(name):], "=")) && (pasted || len(strings.Fields(line)) < 8 && ofHosts.re().MatchString(line)) {
			out = append(out, number)
		}
	}
	return out
}

// promptOf is the prompt of a shell, with the host's name.
var promptOf = pattern{text: `^\W*\w[\w.-]*@([\w.-]+)[^#$]{0,80}[#$] `}

// namingHosts returns the lines at which another host's commands may begin: a heading that names one, and a prompt of another host.
func namingHosts(text string) (out []int) {
	number, host := 0, ""
	for line := range strings.Lines(text) {
		number++
		if at := promptOf.re().FindStringSubmatch(line); at != nil {
			if at[1] != host {
				out = append(out, number)
			}
			host = at[1]
		} else if !strings.Contains(line, "ip a") && len(strings.Fields(line)) < 12 && ofHosts.re().MatchString(line) {
			out = append(out, number)
		}
	}
	return out
}

// parted reports whether two lines may be of different hosts.
func (s *script) parted(first, second int) bool {
	i, _ := slices.BinarySearch(s.breaks, first)
	return i < len(s.breaks) && s.breaks[i] < second
}

// together compares the places that set the same variable.
func (s *script) together() {
	first := map[string]setting{}
	inMPI := map[string]bool{}
	for _, v := range s.sets {
		inMPI[v.name] = inMPI[v.name] || v.where == "mpirun"
		if !ours(v.name) {
			continue
		}
		f, twice := first[v.name]
		if !twice {
			first[v.name] = v
		}
		if !twice || v.alone || f.alone || v.where == f.where && s.parted(f.line, v.line) {
			continue
		}
		finding := env.Finding{Severity: env.Note, Name: v.name, Summary: "Set twice", Wrong: fmt.Sprintf("%s is also set in line %d.", v.name, f.line), Costs: "The two values will drift apart.", Instead: "Keep one place: nccl.conf on each host, which `fabricform render nccl` prints."}
		if v.value != f.value {
			finding.Severity, finding.Summary = env.Error, "Set twice, differently"
			finding.Wrong = fmt.Sprintf("%s is %q in line %d, but %q here.", v.name, shorten(f.value), f.line, shorten(v.value))
			finding.Costs = "Which value is effective depends on how a rank is started."
			if f.where == v.where {
				finding.Costs = "The later one is effective where both are executed."
			}
		}
		s.add(v.line, finding)
	}
	s.perRank()
	if s.launched == 0 {
		return
	}
	once, at := []string(nil), 0 // variables of mpirun alone, and the first line
	exports := slices.ContainsFunc(s.sets, func(v setting) bool { return v.where == "export" && strings.HasPrefix(v.name, "NCCL_") })
	for _, v := range s.sets {
		switch {
		case !strings.HasPrefix(v.name, "NCCL_") && (!s.fleet || !anyOf(v.name, []string{"CUDA_VISIBLE_DEVICES", "UCX_", "GLOO_"})):
		case v.where == "export" && !inMPI[v.name] && !s.passed[v.name]:
			s.add(v.line, env.Finding{Severity: env.Warning, Name: v.name, Summary: notElsewhere, Wrong: fmt.Sprintf("%s is exported here, but mpirun in line %d does not pass it on.", v.name, s.launched), Costs: "Ranks on other hosts run without it.", Instead: fmt.Sprintf("Add -x %s, or write it to nccl.conf on each host.", v.name)})
		case v.where == "mpirun" && exports && first[v.name].where == "mpirun" && !slices.Contains(once, v.name):
			once, at = append(once, v.name), cmp.Or(at, v.line)
		}
	}
	if len(once) > 0 {
		s.say(at, env.Warning, "Set in one of two places", strings.Join(once, ", ")+": set for mpirun but not exported.", "A job that starts without mpirun runs without them, so its measurements are not comparable.", "Keep one list: nccl.conf on each host.")
	}
}

// localRank are variables of launchers with the number of a rank on its host.
var localRank = []string{"LOCAL_RANK", "SLURM_LOCALID", "MPI_LOCALRANKID"}

// perRank reports devices that a script selects by the rank on a host.
func (s *script) perRank() {
	var first setting
	for _, v := range s.sets {
		switch {
		case v.name != "NCCL_IB_HCA":
			continue
		case v.dynamic && anyOf(v.value, localRank), s.byRank && v.alone && first.alone && v.value != first.value:
			s.add(v.line, env.Finding{Severity: env.Error, Name: v.name, Summary: "Ranks of one host get different devices", Wrong: "NCCL_IB_HCA differs between the ranks of a host.", Costs: "NCCL assigns each GPU its nearest NIC itself; with different lists it finds no rings (NVIDIA/nccl issue 1478).", Instead: "Set one list for all ranks of a host, with = in front, or remove NCCL_IB_HCA."})
			return
		case first.name == "":
			first = v
		}
	}
}
