package env

import (
	"fmt"
	"slices"
	"strings"
)

// Severity says how bad a Finding is.
type Severity int

// The severities of a Finding.
const (
	Error   Severity = iota // does not work as written, or keeps NCCL from working
	Warning                 // works only by chance, or hides faults
	Note                    // has no effect, or is information
)

// String returns the severity as reports show it.
func (s Severity) String() string { return [...]string{"error", "warning", "note"}[s] }

// MarshalText encodes the severity for JSON.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Finding is a problem with a variable or its value.
type Finding struct {
	Severity Severity `json:"severity"`
	Name     string   `json:"name,omitempty"` // name of the variable
	Summary  string   `json:"summary"`
	Wrong    string   `json:"wrong"`             // the problem
	Costs    string   `json:"costs,omitempty"`   // its consequence; "": Wrong says it
	Instead  string   `json:"instead,omitempty"` // the cure
	Near     string   `json:"-"`                 // the name that the cure suggests; "": none
}

// Detail returns the finding as sentences.
func (f Finding) Detail() string {
	return strings.Join(strings.Fields(f.Trouble()+" "+f.Instead), " ")
}

// Trouble is what is wrong, and what follows from it.
func (f Finding) Trouble() string {
	return strings.Join(strings.Fields(f.Wrong+" "+f.Costs), " ")
}

// Context holds the facts that a value is checked against.
type Context struct {
	Version  Version                // version of NCCL; zero: unknown
	Fleet    bool                   // the value applies to several hosts
	Declared bool                   // in a fabric's files, which must be right for interfaces that are added later, too
	IsNetdev func(name string) bool // reports whether an interface has this name; nil: no interface is known
	// Priority returns the priority to which the NICs lead a DSCP, and what says so; nil, or ok false: it is not known.
	Priority func(dscp int) (priority int, says string, ok bool)
}

func (c Context) isNetdev(name string) bool { return c.IsNetdev != nil && c.IsNetdev(name) }

func (c Context) priority(dscp int) (priority int, says string, ok bool) {
	if c.Priority == nil {
		return 0, "", false
	}
	return c.Priority(dscp)
}

// check collects the findings of one variable.
type check struct {
	Context
	v     *Variable
	value string
	out   []Finding
}

func (c *check) add(s Severity, summary, wrong, costs, instead string) {
	c.out = append(c.out, Finding{Severity: s, Name: c.v.Name, Summary: summary, Wrong: wrong, Costs: costs, Instead: instead})
}

// Check returns the problems with a variable's value.
func Check(name, value string, c Context) []Finding {
	v := Lookup(name)
	if v == nil {
		return unknown(name)
	}
	k := &check{Context: c, v: v, value: value}
	if !k.read() {
		return k.out
	}
	if value == "" {
		k.add(Warning, "Empty value", name+" is empty: NCCL treats it as not set.", "", "Remove it, or set a value.")
		return k.out
	}
	switch v.Type {
	case Int, Bool:
		k.number()
	case Enum:
		k.word()
	case Level:
		k.level()
	case Devices, Interfaces, List:
		k.list()
	case CIDR:
		k.cidr()
	case Path:
		if strings.HasPrefix(value, "~") {
			k.add(Error, "Path with ~", fmt.Sprintf("%s = %q: NCCL does not expand ~.", name, value), "The file is not found.",
				"Write the whole path.")
		}
	}
	k.special()
	if leavesOut := strings.HasPrefix(value, "^"); c.Fleet && v.PerHost && !leavesOut && !slices.Contains(drivers, strings.TrimSuffix(value, "_")) && strings.ContainsAny(value, "=0123456789") /* else a kind of name, as en and ib */ && !slices.ContainsFunc(k.out, func(f Finding) bool { return f.Severity == Error }) {
		instead := "Set it on each host by itself (nccl.conf, or -e of docker run), or remove it: NCCL then chooses on each host."
		if c.Declared {
			instead = "Set it per host, or remove it: it is derived for each host."
		}
		k.add(Warning, "Same value for all hosts", fmt.Sprintf("%s depends on the host, but this sets it for several hosts.", name),
			"A host with other names or tables fails, or falls back silently.", instead)
	}
	return k.out
}

// drivers are what the names of all RDMA devices of a driver begin with, on any host.
var drivers = []string{"mlx4", "mlx5", "bnxt_re", "irdma", "rocep", "rdmap"}

// published is the first version whose source is public. What earlier ones read is not known: First says nothing of them.
var published = Version{Major: 2, Minor: 3, Patch: 5}

// read reports variables that NCCL does not read. It returns false if the value does not matter.
func (c *check) read() bool {
	v, at := c.v, c.Version
	switch {
	case v.Status == External && strings.HasPrefix(v.Name, "NCCL_"):
		c.add(Note, "Not NCCL's own variable", fmt.Sprintf("%s is read by %s, not by NCCL.", v.Name, v.Source),
			"Without that program it has no effect.", "Remove it unless you use that program.")
	case v.Status == Removed || v.Last.Known() && !at.Known() || v.Last.Known() && v.Last.Before(at):
		wrong := fmt.Sprintf("NCCL no longer reads %s.", v.Name)
		if v.Last.Known() {
			wrong = fmt.Sprintf("NCCL %s was the last version to read %s.", v.Last, v.Name)
		}
		c.add(Error, "Variable that NCCL no longer reads", wrong, "It has no effect.", c.replacement("Remove it."))
		return false
	case at.Known() && at.Before(v.First) && v.First != published:
		c.add(Error, "Variable that this NCCL does not read", fmt.Sprintf("NCCL reads %s since %s, but this is %s.", v.Name, v.First, at),
			"It has no effect.", "Remove it, or upgrade NCCL.")
		return false
	case v.Deprecated != "":
		c.add(Warning, "Variable is deprecated", fmt.Sprintf("%s: %s.", v.Name, v.Deprecated), "", c.replacement("Remove it."))
	}
	return true
}

// replacement parses "removed 2.4.0 -> NCCL_NET_GDR_LEVEL".
func (c *check) replacement(otherwise string) string {
	if _, name, ok := strings.Cut(c.v.Deprecated, "-> "); ok {
		name, _, _ = strings.Cut(name, " ")
		return "Use " + name + "."
	}
	return otherwise
}

// plugins have variables of their own: what their names begin with, and who reads them (Mellanox/nccl-rdma-sharp-plugins and the documents of
// Google's plugins).
var plugins = []struct{ prefix, reader string }{
	{"NCCL_PLUGIN_P2P", "the RDMA and SHARP plugin"}, {"NCCL_UCX_", "the RDMA and SHARP plugin"}, {"NCCL_SHARP_", "the RDMA and SHARP plugin"},
	{"NCCL_TESTS_", "nccl-tests or a script that builds them"}, {"NCCL_FASTRAK_", "Google's GPUDirect-TCPXO"}, {"NCCL_GPUDIRECTTCPX_", "Google's GPUDirect-TCPX"}, {"NCCL_SHIMNET_", "Google's plugins"}, {"NCCL_TUNER_CONFIG_PATH", "Google's plugins"},
}

// ofBuilds are what the names of variables end in that builds and scripts use for NCCL's files and releases.
var ofBuilds = []string{"_HOME", "_ROOT", "_DIR", "_DIRS", "_PREFIX", "_VERSION", "_VER", "_BRANCH", "_COMMIT", "_TAG", "_REPO", "_URL", "_LIBRARY", "_LIBRARIES"}

// MayRead reports whether NCCL or one of its plugins may read a variable of that name, also if it is misspelt.
func MayRead(name string) bool {
	plugin := slices.ContainsFunc(plugins, func(p struct{ prefix, reader string }) bool { return strings.HasPrefix(name, p.prefix) })
	return Lookup(name) != nil || plugin || Nearest(name, Names()) != ""
}

// unknown returns the finding for a name that is not in the table.
func unknown(name string) []Finding {
	for _, p := range plugins {
		if strings.HasPrefix(name, p.prefix) {
			return []Finding{{Name: name, Severity: Note, Summary: "Not NCCL's own variable", Wrong: fmt.Sprintf("%s is read by %s, not by NCCL.", name, p.reader), Costs: "Without that plugin it has no effect.", Instead: "Remove it unless you use that plugin."}}
		}
	}
	near := Nearest(name, Names())
	f := Finding{Name: name, Summary: "Unknown NCCL variable", Costs: "NCCL silently ignores unknown names."}
	switch {
	case strings.HasPrefix(name, "NCCL_") && slices.ContainsFunc(ofBuilds, func(end string) bool { return strings.HasSuffix(name, end) && !strings.HasSuffix(near, end) }):
		f.Severity, f.Summary = Note, "Not NCCL's own variable"
		f.Wrong, f.Costs, f.Instead = fmt.Sprintf("%s looks like a variable of a build or a script, and NCCL does not read it.", name), "For NCCL it has no effect.", "Remove it unless such a program reads it."
	case near != "":
		f.Wrong, f.Instead = fmt.Sprintf("There is no %s.", name), fmt.Sprintf("Did you mean %q?", near)
		f.Near = near
	case strings.HasPrefix(name, "NCCL_"):
		f.Severity = Warning
		f.Wrong, f.Instead = fmt.Sprintf("No NCCL from 2.3 to %s reads %s.", Newest, name),
			"Remove it, unless a newer NCCL or a plugin reads it."
	default:
		f.Severity, f.Summary = Note, "Not an NCCL variable"
		f.Wrong, f.Costs = fmt.Sprintf("NCCL does not read %s.", name), ""
		f.Instead = "Set it in the environment of the program that reads it: only NCCL reads nccl.conf."
	}
	return []Finding{f}
}
