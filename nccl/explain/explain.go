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

// Finding is a problem at a line. Line 0 stands for the whole file.
type Finding struct {
	Line int `json:"line,omitempty"`
	env.Finding
}

// Explanation says what was read from a file, and lists its problems.
type Explanation struct {
	Kind     Kind      `json:"kind"`
	Version  string    `json:"nccl_version,omitempty"` // NCCL's version, from a log
	Read     Read      `json:"read"`
	Reached  Stage     `json:"reached,omitempty"` // how far NCCL came, as its log shows; "": no line of its log was read
	Nothing  string    `json:"nothing,omitempty"` // why nothing of NCCL was read; "": something was
	Open     string    `json:"open,omitempty"`    // what a text without a problem leaves open; "": nothing, or it has problems
	Findings []Finding `json:"findings"`
	More     int       `json:"more,omitempty"` // number of omitted findings
	prose    bool      // most of it is text that people wrote, which may tell of a problem
}

// Sound reports whether everything that concerns NCCL was understood, and is without a problem. A log may still end before a job did, and prose is not judged.
func (r Explanation) Sound() bool {
	return r.Nothing == "" && !r.prose && len(r.Findings) == 0 && r.More == 0 && r.Read.Computed.Count == 0 && r.Read.Unknown.Count == 0
}

// Failed reports whether any finding is an error, or nothing of NCCL was read.
func (r Explanation) Failed() bool {
	return r.Nothing != "" || slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Severity == env.Error })
}

// maxFindings limits the length of an explanation.
const maxFindings = 1000

// reading is the state while a file is read.
type reading struct {
	before24 bool            // a line of the log has a form of NCCL before 2.4
	overMPI  word            // the interface that mpirun names to MPI, where the job has several hosts
	fabric   *fabric.Fabric  // nil: no fabric was given
	hosts    []*fabric.Host  // those that may read the file
	hidden   map[string]bool // the variables whose values are sensitive
	out      []Finding
	said     map[string]bool
	unknown  map[string]bool // names that no version of NCCL has
	dropped  int
	version  env.Version
	classes  []class       // of each line
	tried    []setting     // what the text says did not help
	helped   []string      // variables that the text says help
	seen     map[class]int // how many lines of logs and tables
	read     Read
	noIB     bool // a log says that a host has no RDMA device
	rdmaTold bool // the text speaks of RDMA
	tcp      bool // a log shows channels by TCP
	overIB   bool // the log has RDMA devices that NCCL uses
	plugged  bool // the text speaks of a network plugin that has devices of its own, as AWS's for EFA
	amd      bool // the text speaks of RCCL or of GPUs of AMD

	classMap classMap // of a NIC, as the file shows it
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

// Explain reads a file. The name helps to tell its kind: only a name that ends in .conf is certainly an nccl.conf. f may
// be nil; by is how the operator named it.
func Explain(name, text string, f *fabric.Fabric, by fabric.Invocation) Explanation {
	if f == nil {
		return explain(name, text, nil, nil, by)
	}
	return explain(name, text, f, f.Hosts, by)
}

// OfHost reads the nccl.conf of a host of the fabric, which no other host reads.
func OfHost(h *fabric.Host, text string, f *fabric.Fabric, by fabric.Invocation) Explanation {
	return explain(fabric.NCCLConf, text, f, []*fabric.Host{h}, by)
}

func explain(name, text string, f *fabric.Fabric, hosts []*fabric.Host, by fabric.Invocation) Explanation {
	r := &reading{fabric: f, hosts: hosts, said: map[string]bool{}, unknown: map[string]bool{}, seen: map[class]int{}, classes: make([]class, strings.Count(text, "\n")+2)}
	if f != nil {
		r.hidden = f.SensitiveNCCL()
	}
	kind := bare(text)
	switch {
	case kind != "":
	case isConf(name, text):
		kind = Conf
		r.conf(text)
	default:
		kind = r.document(name, text)
	}
	all := slices.Clone(r.out)
	r.out = slices.DeleteFunc(r.out, func(f Finding) bool { return f.Summary == notElsewhere && slices.ContainsFunc(all, f.isIdle) })
	slices.SortStableFunc(r.out, byWeight)
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
	if kind != Binary {
		out.Read = r.count(text)
	}
	rest := 0
	if out.Read.Log > 0 || strings.Contains(text, testBegins) {
		out.Reached, rest = r.reached(text)
	}
	out.Nothing = nothing(kind, out)
	if out.Nothing == "" && !slices.ContainsFunc(r.out, func(f Finding) bool { return f.Severity < env.Note }) {
		r.unread(name, text, kind)
		out.Read = r.count(text)
	}
	out.prose = (kind == Notes || kind == Commands && !isScript(name, text)) && out.Read.Other >= out.Read.Settings+out.Read.Commands+out.Read.Rows
	if out.Sound() {
		out.Open = out.leavesOpen(rest)
	}
	return out
}

// notElsewhere is the summary of a variable that mpirun does not pass on.
const notElsewhere = "Not set on the other hosts"

// isIdle reports whether another finding says that the same variable has no effect, so that other hosts do not need it.
func (f Finding) isIdle(other Finding) bool {
	return f.Name == other.Name && slices.Contains([]string{"Unknown NCCL variable", "Variable that NCCL no longer reads", "Equal to NCCL's default"}, other.Summary)
}

// byWeight puts first what is most probably the reason: the first finding may be all that is read.
func byWeight(a, b Finding) int {
	return cmp.Or(cmp.Compare(weight(a), weight(b)), cmp.Compare(a.Severity, b.Severity), cmp.Compare(tidiness(a), tidiness(b)), cmp.Compare(a.Line, b.Line))
}

// weight orders findings: what people found to help, what failed, what may be the reason, an error without a named reason, what a text tells
// of, what a job can run with or is not shown to work, and what explains no failure of today.
func weight(f Finding) int {
	is := func(list []string) bool { return slices.Contains(list, f.Summary) }
	switch {
	case f.Severity == env.Note && !is(notShown) && !is(conditions) && f.Summary != oneForAll:
		return 9
	case tidiness(f) > 0:
		return 8
	case is(conditions), f.Severity == env.Note:
		return 7
	case is(toldSymptoms):
		return 6
	case f.Summary == noChoice:
		return 5
	case strings.HasSuffix(f.Costs, unnamed):
		return 4
	case strings.HasSuffix(f.Wrong, helps) && is(coarse):
		return 2
	case strings.HasSuffix(f.Wrong, helps):
		return 0
	case f.Severity == env.Warning:
		return 3
	}
	return 1
}

const (
	unnamed = " No known line names the cause." // ends what an error costs that has many causes
	helps   = " helps."                         // ends what people found

	noChoice  = "NCCL does not choose a GID"
	oneForAll = "All GPUs share one NIC"
)

var (
	// notShown are findings about a log that ends before data are shown to arrive.
	notShown = []string{"Direct access between GPUs is not shown to work", "The path between hosts is not shown to work", "NCCL's initialization is not shown to end"}
	// toldSymptoms are findings about what a text tells of, whose reason it does not show.
	toldSymptoms = append([]string{"The job hangs without an error", "The log ends where ranks begin to exchange data", "A collective timed out", "NCCL is slower than expected", "Unknown errors"}, notShown...)
	// coarse are findings by a cure that goes around many causes: an error says more.
	coarse = []string{"RDMA does not work", "Another version of NCCL helps"}
	// conditions are findings about what a job can run with.
	conditions = []string{"No RDMA device", "libibverbs is missing", "Silent fallback to sockets", "GPU without a NIC on its NUMA node", "No GPUDirect RDMA", "The processes do not choose a GPU", "Interface of this host alone"}
)

// tidiness orders findings that explain no failure of today after the others: 1 and more.
func tidiness(f Finding) int {
	return 1 + slices.IndexFunc([][]string{
		{"Unknown word", "Unknown NCCL variable", "Value out of NCCL's range", "Variable that NCCL no longer reads", "Variable is deprecated", "Set twice, differently", "Number instead of a level", "No effect with NCCL_IB_DISABLE", "No effect with a pinned GID index"},
		{"No list of devices"},
		{"Prefix match", "Equal to NCCL's default", "For experiments only", "Results are not checked", "GID index is pinned", "Until the next reboot", "Same value for all hosts", "Set in one of two places"},
	}, func(group []string) bool { return slices.Contains(group, f.Summary) })
}

// explains reports whether a finding may be why something fails or is slow.
func explains(f Finding) bool { return f.Severity < env.Note && tidiness(f) == 0 }

// confFile is the origin of settings in nccl.conf, where every name is meant for NCCL.
const confFile = "nccl.conf"

// setting is a variable that a file sets.
type setting struct {
	line        int
	name, value string
	dynamic     bool   // a shell computes the value
	fleet       bool   // applies to several hosts
	where       string // the file or program that sets it
	fallback    bool   // ${NAME:-value}: only if nobody has set NAME before
	alone       bool   // stands in prose or in a branch, so that it need not agree with other places
}

// ours reports whether a variable is for NCCL.
func ours(name string) bool { return strings.HasPrefix(name, "NCCL_") || env.Lookup(name) != nil }

// settings checks variables one by one, in combination, and against the fabric.
func (r *reading) settings(all []setting) {
	line := map[string]int{}
	var sets []env.Set
	for _, s := range all {
		if line[s.name] == 0 {
			line[s.name] = s.line
		}
		if !s.dynamic && strings.ContainsAny(s.value, "‘’“”") {
			r.add(s.line, env.Finding{Severity: env.Warning, Name: s.name, Summary: "Typographic quotes", Wrong: s.name + " has quotes of a text editor (‘ ’ “ ”) in its value.", Costs: "For a shell they are letters: the program gets them as part of the value, and does not know it.", Instead: "If they are in the real command, too, write plain quotes (' or \") or none."})
		}
		ours := ours(s.name) || s.where == confFile
		switch {
		case !ours:
		case s.dynamic:
			r.read.Computed.at(s.line)
		default:
			r.read.Settings++
			r.mark(s.line, settingLine)
		}
		if s.dynamic {
			continue
		}
		sets = append(sets, env.Set{Name: s.name, Value: s.value})
		if !ours || s.where == "log" && env.Lookup(s.name) == nil {
			continue // a shell also sets variables of other programs, and what the log says that NCCL has read, it knows
		}
		if slices.Contains(r.helped, s.name) {
			continue // what it costs says the finding about its help
		}
		for _, f := range r.check(s.name, s.value, s.fleet) {
			if s.where == "log" && f.Summary == "Variable that this NCCL does not read" {
				continue // a plugin for the network has read it
			}
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
	version := r.version
	if !version.Known() && r.before24 {
		version = env.Version{Major: 2, Minor: 3, Patch: 7}
	}
	found := env.Check(name, value, env.Context{Version: version, Fleet: fleet, IsNetdev: r.isNetdev, Priority: r.priorityOf})
	if r.amd { // RCCL has other defaults, such as NCCL_DMABUF_ENABLE=0
		found = slices.DeleteFunc(found, func(f env.Finding) bool { return f.Summary == "Equal to NCCL's default" })
	}
	return found
}

// priorityOf returns the priority of a DSCP, and what says so: the NIC's map in the file, or a class of the fabric.
func (r *reading) priorityOf(dscp int) (priority int, says string, ok bool) {
	if priority, says, ok := r.classMap.priorityOf(dscp); ok {
		return priority, says, ok
	}
	if r.fabric == nil {
		return 0, "", false
	}
	for _, q := range r.fabric.Classes {
		if q.DSCP != nil && *q.DSCP == dscp && q.Priority != nil {
			return *q.Priority, "qos." + q.Name, true
		}
	}
	return 0, "", false
}

// isNetdev reports whether a NIC of the fabric uses the interface of that name.
func (r *reading) isNetdev(name string) bool {
	return r.fabric != nil && r.fabric.UsesNetdev(name)
}
