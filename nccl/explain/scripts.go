package explain

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/nccl/env"
)

// starts reports whether a command starts ranks: a launcher, a program of Python, or one of nccl-tests.
func (c command) starts() bool {
	name := path.Base(c.words[0].text)
	return slices.Contains(launchers, name) && name != "#SBATCH" || slices.Contains(mpiLaunchers, name) || strings.HasPrefix(name, "python") || isNCCLTest(name)
}

// handedOn checks that the programs of a script get the variables that it sets, and Slurm the options.
func (s *script) handedOn(text string, all []command) {
	if strings.Count(text, "#!/") > 1 || strings.Contains(text, "<<") || strings.Contains(text, "```") {
		return // several scripts
	}
	started := 0 // line of the last program
	for _, c := range all {
		if c.starts() || c.words[0].text == "exec" {
			started = c.line()
		}
	}
	exported := map[string]bool{}
	for _, c := range all {
		name, assigns := c.words[0].assignment()
		switch {
		case assigns && len(c.words) == 1 && strings.HasPrefix(name, "NCCL_") && c.line() < started && !exported[name] && !handsOn(text, name):
			exported[name] = true // said once
			s.add(c.line(), env.Finding{Severity: env.Warning, Name: name, Summary: "Not exported", Wrong: "The script assigns it without export.", Costs: "The programs that it starts do not get it, unless it was in the environment before.", Instead: "Write export in front of it."})
		case c.words[0].text == "export":
			for _, w := range c.words[1:] {
				if name, ok := w.assignment(); ok {
					exported[name] = true
				}
			}
		case c.words[0].text == "sudo" && len(c.words) > 1 && command{words: c.words[1:]}.starts():
			for _, v := range s.sets {
				if strings.HasPrefix(v.name, "NCCL_") && exported[v.name] && v.line < c.line() {
					s.add(c.line(), env.Finding{Severity: env.Warning, Name: v.name, Summary: "sudo removes it", Wrong: fmt.Sprintf("Line %d exports it, and sudo clears the environment.", v.line), Costs: "The program runs without it, unless sudoers keeps it.", Instead: "Write sudo --preserve-env=" + v.name + ", or start the program without sudo."})
				}
			}
		}
	}
	s.ignored(text)
}

// handsOn reports whether a script gives the value of a variable to its programs in another way than by an assignment.
func handsOn(text, name string) bool {
	return strings.Contains(text, "$"+name) || strings.Contains(text, "{"+name) || strings.Contains(text, "set -a") || strings.Contains(text, "allexport") ||
		slices.ContainsFunc(exporting.re().FindAllString(text, -1), func(line string) bool { return strings.Contains(line, name) })
}

// exporting is a line that exports a variable, or hands it on by its name.
var exporting = pattern{text: `(?m)^.*(?:\bexport\b|\bdeclare\b|\btypeset\b| -x | -e |--env|--export).*$`}

// ignored reports options for Slurm below the first command of a batch script, where sbatch no longer reads them (sbatch(1)).
func (s *script) ignored(text string) {
	number, begun := 0, 0
	for line := range strings.Lines(text) {
		number++
		switch line = strings.TrimSpace(line); {
		case strings.HasPrefix(line, "#!"): // what a paste has above is not of the script
			begun = 0
		case strings.HasPrefix(line, "#SBATCH ") && begun > 0:
			s.say(number, env.Error, "Slurm does not read the option", fmt.Sprintf("It stands below line %d, which is a command.", begun), "sbatch reads the lines of #SBATCH before the first command alone: the job starts without this one, often with other numbers of tasks or GPUs.", "Move all lines of #SBATCH to the top, below #!.")
			return
		case line != "" && line[0] != '#' && begun == 0:
			begun = number
		}
	}
}

// gpuless reports a container for ranks, or for an inference server on several GPUs, that gets no GPU. It is right where nvidia is Docker's
// default runtime.
func (s *script) gpuless() {
	for _, c := range s.runs {
		words := c.texts()
		given := slices.ContainsFunc(words, func(w string) bool {
			return strings.HasPrefix(w, "--gpus") || strings.HasPrefix(w, "--runtime") || strings.HasPrefix(w, "--device") || strings.HasPrefix(w, "--profile") || w[min(len(w), 1):] == "@" || strings.HasPrefix(w, "$")
		})
		wants := slices.ContainsFunc(words, func(w string) bool {
			name, _, _ := strings.Cut(w, "=")
			return slices.Contains(gpuWords, name) || slices.Contains(launchers[:5], path.Base(w)) || isNCCLTest(path.Base(w))
		})
		if wants && !given && s.seen[logLine] == 0 {
			s.say(c.line(), env.Warning, "The container has no GPUs", words[0]+" run has neither --gpus nor --runtime nor --device.", "Unless nvidia is the default runtime, the container has no GPU and no driver: CUDA finds no device.", "Add --gpus all (podman: --device nvidia.com/gpu=all).")
		}
	}
}

// gpuWords are options and variables of programs that use GPUs.
var gpuWords = []string{"--tensor-parallel-size", "--tp", "--tp-size", "--num-shard", "NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"}

// nowhere reports a torchrun for several hosts that does not say where they meet. torchrun does not read MASTER_ADDR; its options can be
// given as PET_ variables (torch/distributed/run.py, 2.4).
func (s *script) nowhere(text string, kind Kind) {
	if strings.Contains(text, "PET_") || kind == Kubernetes || kind == YAML {
		return
	}
	for _, c := range s.job.lonely {
		bad, nodes := env.Error, "several hosts"
		if v, _ := c.value("--nnodes"); !digits(v) {
			bad, nodes = env.Warning, v+" hosts"
		}
		s.say(c.line(), bad, "torchrun is for one host", fmt.Sprintf("--standalone stands beside --nnodes, which is %s.", nodes), "With --standalone, torchrun meets at its own localhost, whatever --master-addr, --rdzv-endpoint and --node-rank say: with several hosts each waits for itself until the timeout.", "Remove --standalone where the job has several hosts.")
	}
	for _, c := range s.job.unmet {
		if v, _ := c.value("--rdzv_endpoint", "--rdzv-endpoint"); strings.HasPrefix(v, ":") {
			s.say(c.line(), env.Error, "The rendezvous address is not valid", "--rdzv-endpoint has no host before "+v+".", "torchrun refuses it (parse_rendezvous_endpoint in PyTorch).", "Write HOST:PORT, the same address on all hosts.")
			continue
		}
		lacks := "torchrun gets several hosts, and neither --master-addr nor --rdzv-endpoint."
		if elasticBackend(c) {
			lacks = "torchrun gets several hosts and the backend c10d, and no --rdzv-endpoint: --master-addr is not for c10d."
		}
		s.say(c.line(), env.Error, "The hosts do not meet", lacks, "Each host then meets at its own localhost, and waits there until the timeout: torchrun does not read MASTER_ADDR.", "Add --master-addr and --node-rank, or --rdzv-backend=c10d and --rdzv-endpoint=HOST:PORT, the same address on all hosts.")
	}
}

// elasticBackend reports whether a torchrun meets by c10d, which takes --rdzv-endpoint alone (get_rdzv_endpoint in run.py, 2.4).
func elasticBackend(c command) bool {
	v, _ := c.value("--rdzv_backend", "--rdzv-backend")
	return v == "c10d"
}

// unmeeting reports whether a complete command of torchrun starts ranks on several hosts that do not know where to meet.
func unmeeting(c command) bool {
	name, nodes := path.Base(c.words[0].text), ""
	options := []string{"--rdzv_endpoint", "--rdzv-endpoint", "--standalone"}
	if !elasticBackend(c) {
		options = append(options, "--master_addr", "--master-addr")
	}
	if nodes, _ = c.value("--nnodes"); !elastic(name) || c.quoted || len(nodes) != 1 || nodes < "2" || nodes > "9" {
		return false
	}
	for i, w := range c.words {
		option, _, _ := strings.Cut(w.text, "=")
		switch v, _ := c.value(options[0], options[1]); {
		case strings.HasPrefix(v, ":"):
			return true
		case slices.Contains(options, option), strings.HasPrefix(w.text, "..."):
			return false
		case w.dynamic && strings.HasPrefix(w.text, "$") && (!strings.HasPrefix(c.words[i-1].text, "--") || strings.Contains(c.words[i-1].text, "=")):
			return false // a list of options
		case strings.HasSuffix(w.text, ".py") || w.text == "-m":
			return true
		}
	}
	return false
}
