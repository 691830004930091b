// Package explain reads what somebody else wrote for NCCL, or what NCCL printed, and says what is wrong
// with it, what that costs and what to write instead. It is pure, and takes any bytes.
package explain

import (
	"cmp"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/nccl/env"
)

// Kind is what a file is.
type Kind string

// The kinds of files.
const (
	Conf     Kind = "nccl.conf"
	Commands Kind = "commands" // exports, mpirun lines and other lines for a shell
	Log      Kind = "log"      // of NCCL_DEBUG=INFO
	Topology Kind = "topology" // of nvidia-smi topo -m
)

// Finding is something wrong, at a line; line 0 is the whole file.
type Finding struct {
	Line int `json:"line,omitempty"`
	env.Finding
}

// Report is all that is wrong with a file.
type Report struct {
	Kind     Kind      `json:"kind"`
	Version  string    `json:"nccl_version,omitempty"` // that a log shows
	Findings []Finding `json:"findings"`
	More     int       `json:"more,omitempty"` // findings that are left out
}

// Failed says whether there are errors among the findings.
func (r Report) Failed() bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Severity == env.Error })
}

// maxFindings bounds a report: nobody reads more.
const maxFindings = 1000

// reading is a file that is being read.
type reading struct {
	fabric  *fabric.Fabric // nil: none is given
	out     []Finding
	said    map[string]bool
	unknown map[string]bool // names that no NCCL has
	dropped int
	version env.Version
}

func (r *reading) add(line int, f env.Finding) {
	key := f.Name + "\x00" + f.Summary + "\x00" + f.Wrong
	switch {
	case r.said[key]:
	case len(r.out) >= maxFindings:
		r.dropped++
	default:
		r.said[key] = true
		r.out = append(r.out, Finding{line, f})
	}
}

func (r *reading) say(line int, s env.Severity, summary, wrong, costs, instead string) {
	r.add(line, env.Finding{Severity: s, Summary: summary, Wrong: wrong, Costs: costs, Instead: instead})
}

// Explain reads a file. A name that ends in .conf tells nccl.conf from a list of exports; f may be nil.
func Explain(name, text string, f *fabric.Fabric) Report {
	r := &reading{fabric: f, said: map[string]bool{}, unknown: map[string]bool{}}
	kind := Detect(name, text)
	switch kind {
	case Log:
		r.log(text)
	case Topology:
		r.topology(text)
	case Commands:
		r.commands(text)
	default:
		r.conf(text)
	}
	slices.SortStableFunc(r.out, func(a, b Finding) int { return cmp.Compare(a.Line, b.Line) })
	out := Report{Kind: kind, Findings: r.out, More: r.dropped}
	if out.Findings == nil {
		out.Findings = []Finding{}
	}
	if r.version.Known() {
		out.Version = r.version.String()
	}
	return out
}

// Detect tells what a file is, by its name and by what stands in it.
func Detect(name, text string) Kind {
	if strings.HasSuffix(name, ".conf") {
		return Conf
	}
	for line := range strings.Lines(text) {
		switch {
		case strings.Contains(line, "NCCL INFO ") || strings.Contains(line, "NCCL WARN ") || strings.HasPrefix(line, "NCCL version "):
			return Log
		case strings.Contains(line, "\tGPU0") && strings.Trim(line[:strings.Index(line, "\tGPU0")], " \x1b[4m") == "":
			return Topology
		}
	}
	for _, c := range parse(text) {
		for i, w := range c.words {
			if _, isSetting := w.assignment(); !isSetting {
				if i == 0 || program(w.text) {
					return Commands
				}
				break // a value with a blank in it
			}
		}
	}
	return Conf
}

// program tells what is started behind A=B from the rest of a value with a blank in it.
func program(s string) bool {
	known := []string{"mpirun", "mpiexec", "orterun", "prterun", "srun", "torchrun", "python", "python3", "docker"}
	return strings.HasPrefix(s, "/") || strings.HasPrefix(s, "./") || slices.Contains(known, s) || slices.Contains(wrappers, s)
}

// setting is a variable that a file sets.
type setting struct {
	line        int
	name, value string
	dynamic     bool   // a shell decides over the value
	fleet       bool   // for several hosts at once
	where       string // what sets it
}

// settings checks variables by themselves, together and against the fabric.
func (r *reading) settings(all []setting) {
	line := map[string]int{}
	var sets []env.Set
	for _, s := range all {
		if line[s.name] == 0 {
			line[s.name] = s.line
		}
		if s.dynamic {
			continue
		}
		sets = append(sets, env.Set{Name: s.name, Value: s.value})
		if !strings.HasPrefix(s.name, "NCCL_") && env.Lookup(s.name) == nil {
			continue // of other programs: a shell sets many
		}
		for _, f := range r.check(s.name, s.value, s.fleet) {
			r.add(s.line, f)
		}
	}
	for _, f := range env.CheckTogether(sets) {
		r.add(line[f.Name], f)
	}
	r.set(all)
	if r.fabric != nil {
		r.against(all)
	}
}

// maxUnknown is for how many names a near one is looked for, which takes time; the others are left out.
const maxUnknown = 64

func (r *reading) check(name, value string, fleet bool) []env.Finding {
	if env.Lookup(name) == nil {
		if r.unknown[name] {
			return nil
		}
		r.unknown[name] = true
		if len(r.unknown) > maxUnknown {
			r.dropped++
			return nil
		}
	}
	return env.Check(name, value, env.Context{Version: r.version, Fleet: fleet, IsNetdev: r.isNetdev})
}

// isNetdev says whether a NIC of the fabric is an interface of that name.
func (r *reading) isNetdev(name string) bool {
	if r.fabric == nil {
		return false
	}
	for _, h := range r.fabric.Hosts {
		for _, n := range h.NICs {
			if n.Netdev == name {
				return true
			}
		}
	}
	return false
}
