package explain

import (
	"path"
	"strings"

	"github.com/fabricform/fabricform/nccl/env"
)

// Kind is the kind of a file.
type Kind string

// The kinds of files. A file that mixes several has the kind of the first that fits, in the order of document.
const (
	Conf        Kind = "nccl.conf"
	Commands    Kind = "commands" // a shell script, or commands without one
	Slurm       Kind = "Slurm script"
	Environment Kind = "environment" // NAME=VALUE of several programs: env, printenv, .env files
	Python      Kind = "Python"
	Dockerfile  Kind = "Dockerfile"
	Compose     Kind = "compose file"
	Kubernetes  Kind = "Kubernetes YAML"
	YAML        Kind = "YAML"
	JSON        Kind = "JSON"
	Notes       Kind = "text" // prose that holds commands and settings
	Log         Kind = "log"  // output of NCCL_DEBUG=INFO or WARN
	Traceback   Kind = "Python traceback"
	GIDs        Kind = "GID table"     // output of show_gids
	Topology    Kind = "topology"      // output of nvidia-smi topo -m
	Ports       Kind = "RDMA ports"    // output of ibstat, ibstatus or ibv_devinfo
	Hardware    Kind = "NCCL topology" // file of NCCL_TOPO_DUMP_FILE
	RAS         Kind = "RAS report"    // output of ncclras
	Empty       Kind = "empty"
	Binary      Kind = "binary"
)

// magics are the first bytes of files that hold no text.
var magics = []string{"\x7fELF", "\x1f\x8b", "PK\x03\x04", "\xfd7zXZ", "BZh", "\x28\xb5\x2f\xfd", "\xff\xfe", "\xfe\xff", "\x89PNG", "%PDF"}

// bare returns Empty or Binary for what holds no text, and "" for a text.
func bare(text string) Kind {
	if strings.TrimSpace(text) == "" {
		return Empty
	}
	for _, m := range magics {
		if strings.HasPrefix(text, m) {
			return Binary
		}
	}
	start, odd := text[:min(len(text), 8000)], 0
	for i := range len(start) {
		if c := start[i]; c < ' ' && c != '\n' && c != '\r' && c != '\t' && c != 0x1b {
			odd++
		}
	}
	if odd*10 > len(start) { // logs may have single ones, and holes of zeros after a rotation
		return Binary
	}
	return ""
}

// isConf reports whether a text is judged as an nccl.conf: its name says it, or it consists of NCCL's variables alone.
func isConf(name, text string) bool {
	base := path.Base(name)
	if strings.HasSuffix(base, ".conf") {
		return true
	}
	if isEnvFile(name) {
		return false
	}
	found := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if strings.TrimSpace(line) == "" || line[0] == '#' {
			continue
		}
		setting, value, ok := strings.Cut(line, "=")
		if !ok || strings.ContainsAny(setting, " :") || !strings.HasPrefix(setting, "NCCL_") && env.Lookup(setting) == nil || runs(value) {
			return false
		}
		found = true
	}
	return found
}

// isEnvFile reports whether the name of a file is that of a .env file, which a program reads and no shell.
func isEnvFile(name string) bool {
	base := path.Base(name)
	return strings.Contains(base, ".env") || strings.HasSuffix(base, "_env")
}

// runs reports whether a value is followed by a program, as in A=B mpirun.
func runs(value string) bool {
	all, _ := parse(value)
	for _, c := range all {
		for _, w := range c.words[1:] {
			if program(w.text) {
				return true
			}
		}
	}
	return false
}

// isScript reports whether a text is a shell script, and not a paste of a terminal.
func isScript(name, text string) bool {
	base := path.Base(name)
	for _, e := range []string{".sh", ".bash", ".zsh", ".sbatch", ".slurm", "rc", ".service"} {
		if strings.HasSuffix(base, e) {
			return true
		}
	}
	return strings.HasPrefix(strings.TrimLeft(text, " \t\r\n\ufeff"), "#!")
}

// isPython reports whether a text is a program of Python: what it says of errors, it only handles or prints.
func isPython(name, text string) bool {
	first, _, _ := strings.Cut(strings.TrimLeft(text, " \t\r\n\ufeff"), "\n")
	return strings.HasSuffix(strings.ToLower(path.Base(name)), ".py") || strings.HasPrefix(first, "#!") && strings.Contains(first, "python")
}

// maxLooked limits the part of a text that tells its language, in bytes.
const maxLooked = 1 << 20

// language returns the kind of a text that is no log and no table. environment: it has assignments alone.
func language(name, text string, environment bool) Kind {
	text = text[:min(len(text), maxLooked)]
	base := strings.ToLower(path.Base(name))
	first, _, _ := strings.Cut(strings.TrimLeft(text, " \t\r\n\ufeff"), "\n")
	starts := func(words ...string) bool { // a line that begins with one of the words
		for _, w := range words {
			if strings.HasPrefix(text, w) || strings.Contains(text, "\n"+w) {
				return true
			}
		}
		return false
	}
	has := func(endings ...string) bool {
		for _, e := range endings {
			if strings.HasSuffix(base, e) {
				return true
			}
		}
		return false
	}
	yaml := has(".yaml", ".yml")
	switch {
	case starts("#SBATCH "):
		return Slurm
	case !has(".md", ".rst") && (starts("apiVersion:") && starts("kind:") || podsOfHosts.re().MatchString(text) && strings.Contains(text, "containers:")): // also within prose
		return Kubernetes
	case isPython(name, text):
		return Python
	case has(".md", ".rst") || strings.Contains(text, "```") || strings.ContainsAny(text, "（：，。"):
		return Notes
	case isScript(name, text):
		return Commands
	case strings.Contains(base, "dockerfile") || starts("FROM "):
		return Dockerfile
	case has(".json") || strings.HasPrefix(first, "{"):
		return JSON
	case strings.Contains(text, "containers:\n") && (strings.Contains(text, "nvidia.com/gpu") || strings.Contains(text, "volumeMounts:\n")):
		return Kubernetes
	case strings.Contains(base, "compose") && yaml || starts("services:"):
		return Compose
	case yaml || starts("- name: ", "---\n"):
		return YAML
	case starts("import ", "from ", "os.environ") && strings.Contains(text, "os.environ"):
		return Python
	case environment:
		return Environment
	}
	return Commands
}

// program reports whether the text after A=B is a program, and not the rest of a value with spaces.
func program(s string) bool {
	switch s {
	case "mpirun", "mpiexec", "orterun", "prterun", "srun", "torchrun", "python", "python3", "docker", "deepspeed", "accelerate":
		return true
	}
	return strings.HasPrefix(s, "/") || strings.HasPrefix(s, "./") || isWrapper(s)
}
