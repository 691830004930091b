// Package explain reads NCCL settings from files and scripts, or NCCL's logs, and reports mistakes, their
// consequences and cures. It is pure, and accepts any bytes.
package explain

import (
	"cmp"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/nccl/env"
)

// Kind is the kind of a file.
type Kind string

// The kinds of files.
const (
	Conf     Kind = "nccl.conf"
	Commands Kind = "commands" // exports, mpirun lines and other shell commands
	Log      Kind = "log"      // output of NCCL_DEBUG=INFO
	Topology Kind = "topology" // output of nvidia-smi topo -m
)

// Finding is a problem at a line. Line 0 stands for the whole file.
type Finding struct {
	Line int `json:"line,omitempty"`
	env.Finding
}

// Explanation lists the problems of a file.
type Explanation struct {
	Kind     Kind      `json:"kind"`
	Version  string    `json:"nccl_version,omitempty"` // NCCL's version, from a log
	Findings []Finding `json:"findings"`
	More     int       `json:"more,omitempty"` // number of omitted findings
}

// Failed reports whether any finding is an error.
func (r Explanation) Failed() bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Severity == env.Error })
}

// maxFindings limits the length of an explanation.
const maxFindings = 1000

// reading is the state while a file is read.
type reading struct {
	fabric  *fabric.Fabric  // nil: no fabric was given
	hidden  map[string]bool // the variables whose values are sensitive
	out     []Finding
	said    map[string]bool
	unknown map[string]bool // names that no version of NCCL has
	dropped int
	version env.Version
}

func (r *reading) add(line int, f env.Finding) {
	if r.fabric != nil {
		f = r.redacted(f)
	}
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

// redacted returns a finding without the fabric's sensitive values. What is said about the value of a sensitive variable
// may quote a part of it.
func (r *reading) redacted(f env.Finding) env.Finding {
	if r.hidden[f.Name] {
		f.Wrong, f.Costs, f.Instead = "The value of "+f.Name+" is sensitive, so no more is shown.", "", ""
	}
	for _, text := range []*string{&f.Summary, &f.Wrong, &f.Costs, &f.Instead} {
		*text = r.fabric.Secrets.Redact(*text)
	}
	return f
}

func (r *reading) say(line int, s env.Severity, summary, wrong, costs, instead string) {
	r.add(line, env.Finding{Severity: s, Summary: summary, Wrong: wrong, Costs: costs, Instead: instead})
}

// Explain reads a file. The name distinguishes nccl.conf (it ends in .conf) from a list of exports. f may
// be nil; by is how the operator named it.
func Explain(name, text string, f *fabric.Fabric, by fabric.Invocation) Explanation {
	r := &reading{fabric: f, said: map[string]bool{}, unknown: map[string]bool{}}
	if f != nil {
		r.hidden = f.SensitiveNCCL()
	}
	kind := detect(name, text)
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
	for i := range r.out {
		r.out[i].Instead = by.Fill(r.out[i].Instead)
	}
	out := Explanation{Kind: kind, Findings: r.out, More: r.dropped}
	if out.Findings == nil {
		out.Findings = []Finding{}
	}
	if r.version.Known() {
		out.Version = r.version.String()
	}
	return out
}

// detect returns the kind of a file, by its name and content.
func detect(name, text string) Kind {
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
				break // a value that contains a space
			}
		}
	}
	return Conf
}

// program reports whether the text after A=B is a program, and not the rest of a value with spaces.
func program(s string) bool {
	known := []string{"mpirun", "mpiexec", "orterun", "prterun", "srun", "torchrun", "python", "python3", "docker"}
	return strings.HasPrefix(s, "/") || strings.HasPrefix(s, "./") || slices.Contains(known, s) || slices.Contains(wrappers, s)
}

// setting is a variable that a file sets.
type setting struct {
	line        int
	name, value string
	dynamic     bool   // a shell computes the value
	fleet       bool   // applies to several hosts
	where       string // the file or program that sets it
}

// settings checks variables one by one, in combination, and against the fabric.
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
			continue // a shell also sets variables of other programs
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

// maxUnknown limits the number of unknown names that are checked for a similar known name, which takes
// time. Further unknown names are ignored.
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

// isNetdev reports whether a NIC of the fabric uses the interface of that name.
func (r *reading) isNetdev(name string) bool {
	return r.fabric != nil && r.fabric.UsesNetdev(name)
}
