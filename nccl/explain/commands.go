package explain

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/nccl/env"
)

// script collects what the commands of a file do together.
type script struct {
	*reading
	sets     []setting
	passed   map[string]bool // -x NAME without a value
	launched int             // line of the first mpirun; 0: none
	network  networks
	perftest []perftest
}

// commands reads exports, launchers and the other commands of a runbook.
func (r *reading) commands(text string) {
	s := &script{reading: r, passed: map[string]bool{}}
	for _, c := range parse(text) {
		s.command(c)
	}
	s.together()
	s.network.finish(s.reading)
	perftestPairs(s.reading, s.perftest)
	r.settings(s.sets)
}

// set records NAME=VALUE. It returns false if the word has another form.
func (s *script) set(w word, where string, fleet bool) bool {
	name, ok := w.assignment()
	if ok {
		s.sets = append(s.sets, setting{line: w.line, name: name, value: w.text[len(name)+1:], dynamic: w.dynamic, where: where, fleet: fleet})
	}
	return ok
}

// wrappers are programs that run the rest of their line as a command.
var wrappers = []string{"sudo", "env", "time", "nohup", "exec", "stdbuf"}

func (s *script) command(c command) {
	words := c.words
	for len(words) > 0 {
		w := words[0]
		if !s.set(w, "export", false) && !slices.Contains(wrappers, w.text) {
			break
		}
		words = words[1:]
	}
	if len(words) == 0 {
		return
	}
	rest := command{words}
	switch name := path.Base(words[0].text); {
	case name == "export" || name == "declare" || name == "typeset" || name == "set" || name == "setenv":
		s.export(name, words[1:])
	case slices.Contains([]string{"mpirun", "mpiexec", "orterun", "prterun"}, name):
		s.mpirun(rest)
	case name == "srun" || name == "sbatch":
		s.srun(words[1:])
	case name == "docker" || name == "podman" || name == "nerdctl":
		s.docker(rest)
	case strings.HasSuffix(name, "_perf"):
		s.ncclTests(rest)
	case strings.HasPrefix(name, "ib_"):
		s.perftest = append(s.perftest, readPerftest(rest))
	case name == "ip":
		s.network.ip(s.reading, rest)
	default:
		s.other(name, rest)
	}
}

func (s *script) export(name string, words []word) {
	if name == "setenv" && len(words) == 2 { // csh
		s.sets = append(s.sets, setting{line: words[0].line, name: words[0].text, value: words[1].text, dynamic: words[1].dynamic, where: "export"})
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

// mpirun reads the options of Open MPI and MPICH, and the program that mpirun starts.
func (s *script) mpirun(c command) {
	if s.launched == 0 {
		s.launched = c.line()
	}
	words, fleet := c.words[1:], severalHosts(c)
	for i := 0; i < len(words); i++ {
		next := func(n int) word {
			if i+n < len(words) {
				return words[i+n]
			}
			return word{line: words[i].line}
		}
		switch w := words[i]; {
		case w.text == "-x":
			if v := next(1); !s.set(v, "mpirun", fleet) {
				s.passed[v.text] = true
			}
			i++
		case w.text == "-genv" || w.text == "-env": // MPICH
			s.sets = append(s.sets, setting{line: w.line, name: next(1).text, value: next(2).text, dynamic: next(2).dynamic, where: "mpirun", fleet: fleet})
			i += 2
		case w.text == "-mca" || w.text == "--mca":
			s.mca(next(1), next(2))
			i += 2
		case w.text == "--allow-run-as-root":
			s.say(w.line, env.Note, "Runs as root", "Every rank runs as root on every host.", "A mistake in the job can damage the whole machine.", "Use a separate user with unlimited memlock.")
		case strings.HasSuffix(w.text, "_perf"):
			s.ncclTests(command{words[i:]})
			return
		case strings.HasPrefix(path.Base(w.text), "python") || path.Base(w.text) == "bash" || path.Base(w.text) == "sh":
			return // the remaining words belong to that program
		}
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

func (s *script) mca(name, value word) {
	if name.text != "btl_tcp_if_include" && name.text != "oob_tcp_if_include" {
		return
	}
	for v := range strings.SplitSeq(value.text, ",") {
		if env.LooksLikeDevice(v) && !s.isNetdev(v) && !strings.HasPrefix(v, "ib") {
			s.say(value.line, env.Error, "RDMA device instead of an interface", fmt.Sprintf("%s %s: %s is an RDMA device.", name.text, value.text, v), "Open MPI finds no interface, so its ranks cannot connect.", "Name the interface, or a network such as 10.0.0.0/24 if the names differ between hosts.")
		}
	}
}

// together compares the places that set the same variable.
func (s *script) together() {
	first := map[string]setting{}
	inMPI := map[string]bool{}
	for _, v := range s.sets {
		inMPI[v.name] = inMPI[v.name] || v.where == "mpirun"
		f, twice := first[v.name]
		if !twice {
			first[v.name] = v
			continue
		}
		finding := env.Finding{Severity: env.Note, Name: v.name, Summary: "Set twice", Wrong: fmt.Sprintf("%s is also set in line %d.", v.name, f.line), Costs: "The two values will drift apart.", Instead: "Keep one place: nccl.conf on each host, which `fabricform render nccl` prints."}
		if v.value != f.value {
			finding.Severity, finding.Summary = env.Error, "Set twice, differently"
			finding.Wrong = fmt.Sprintf("%s is %q in line %d, but %q here.", v.name, shorten(f.value), f.line, shorten(v.value))
			finding.Costs = "Which value is effective depends on how a rank is started."
		}
		s.add(v.line, finding)
	}
	if s.launched == 0 {
		return
	}
	exports := slices.ContainsFunc(s.sets, func(v setting) bool { return v.where == "export" && strings.HasPrefix(v.name, "NCCL_") })
	for _, v := range s.sets {
		switch {
		case !strings.HasPrefix(v.name, "NCCL_"):
		case v.where == "export" && !inMPI[v.name] && !s.passed[v.name]:
			s.add(v.line, env.Finding{Severity: env.Warning, Name: v.name, Summary: "Not set on the other hosts", Wrong: fmt.Sprintf("%s is exported here, but mpirun in line %d does not pass it on.", v.name, s.launched), Costs: "Ranks on other hosts run without it.", Instead: fmt.Sprintf("Add -x %s, or write it to nccl.conf on each host.", v.name)})
		case v.where == "mpirun" && exports && first[v.name].where == "mpirun":
			s.add(v.line, env.Finding{Severity: env.Warning, Name: v.name, Summary: "Set in one of two places", Wrong: fmt.Sprintf("%s is set for mpirun but not exported.", v.name), Costs: "A job that starts without mpirun runs without it, so its measurements are not comparable.", Instead: "Keep one list: nccl.conf on each host."})
		}
	}
}
