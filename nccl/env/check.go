package env

import (
	"fmt"
	"strings"
)

// Severity says how bad a Finding is.
type Severity int

// The severities of a Finding.
const (
	Error   Severity = iota // does not do what it says, or keeps NCCL from working
	Warning                 // works by luck, or hides faults
	Note                    // does nothing, or is good to know
)

// String is the severity as reports write it.
func (s Severity) String() string { return [...]string{"error", "warning", "note"}[s] }

// MarshalText is for JSON.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Finding is something wrong with a variable or its value.
type Finding struct {
	Severity Severity `json:"severity"`
	Name     string   `json:"name,omitempty"` // of the variable
	Summary  string   `json:"summary"`
	Wrong    string   `json:"wrong"`             // what is wrong
	Costs    string   `json:"costs,omitempty"`   // what follows from it; "" where Wrong says it
	Instead  string   `json:"instead,omitempty"` // what to write
}

// Detail is the finding in sentences.
func (f Finding) Detail() string {
	return strings.Join(strings.Fields(f.Trouble()+" "+f.Instead), " ")
}

// Trouble is what is wrong, and what follows from it.
func (f Finding) Trouble() string {
	return strings.Join(strings.Fields(f.Wrong+" "+f.Costs), " ")
}

// Context is what a value is checked against.
type Context struct {
	Version  Version                // of NCCL; zero: not known
	Fleet    bool                   // one value is set for several hosts
	IsNetdev func(name string) bool // whether a name is a known interface's; nil: none is known
}

func (c Context) isNetdev(name string) bool { return c.IsNetdev != nil && c.IsNetdev(name) }

// check collects the findings of one variable.
type check struct {
	Context
	v     *Variable
	value string
	out   []Finding
}

func (c *check) add(s Severity, summary, wrong, costs, instead string) {
	c.out = append(c.out, Finding{s, c.v.Name, summary, wrong, costs, instead})
}

// Check answers what is wrong with a variable's value.
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
		k.add(Warning, "Empty value", name+" is empty: NCCL takes that as not set.", "", "Leave it out, or give it a value.")
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
			k.add(Error, "Path with ~", fmt.Sprintf("%s = %q: NCCL does not expand ~.", name, value), "The file is not found.", "Write the whole path.")
		}
	}
	k.special()
	if c.Fleet && v.PerHost {
		k.add(Warning, "One host's value for all", fmt.Sprintf("%s is a value of one host, and this sets it for several.", name), "Where names or tables differ, that host fails or falls back silently.", "Set it per host, or leave it out: it is derived for each.")
	}
	return k.out
}

// read finds variables that NCCL does not read; false where the value does not matter then.
func (c *check) read() bool {
	v, at := c.v, c.Version
	switch {
	case v.Status == External && strings.HasPrefix(v.Name, "NCCL_"):
		c.add(Note, "Not NCCL's own variable", fmt.Sprintf("%s is read by %s, not by NCCL.", v.Name, v.Source), "Without that it does nothing.", "Leave it out unless you use it.")
	case v.Status == Removed || v.Last.Known() && !at.Known() || v.Last.Known() && v.Last.Before(at):
		until := ""
		if v.Last.Known() {
			until = " after " + v.Last.String()
		}
		c.add(Error, "Variable that NCCL no longer reads", fmt.Sprintf("%s is not read%s.", v.Name, until), "It does nothing.", c.replacement("Leave it out."))
		return false
	case at.Known() && at.Before(v.First):
		c.add(Error, "Variable that this NCCL does not know", fmt.Sprintf("%s is read since %s, and this is %s.", v.Name, v.First, at), "It does nothing.", "Leave it out, or upgrade NCCL.")
		return false
	case v.Deprecated != "":
		c.add(Warning, "Variable is deprecated", fmt.Sprintf("%s: %s.", v.Name, v.Deprecated), "", c.replacement("Leave it out."))
	}
	return true
}

// replacement reads "removed 2.4.0 -> NCCL_NET_GDR_LEVEL".
func (c *check) replacement(otherwise string) string {
	if _, name, ok := strings.Cut(c.v.Deprecated, "-> "); ok {
		name, _, _ = strings.Cut(name, " ")
		return "Use " + name + "."
	}
	return otherwise
}

// unknown is for a name that the table lacks.
func unknown(name string) []Finding {
	near := Nearest(name, Names())
	f := Finding{Name: name, Summary: "Unknown NCCL variable", Costs: "NCCL skips names that it does not know, without a word."}
	switch {
	case near != "":
		f.Wrong, f.Instead = fmt.Sprintf("There is no %s.", name), fmt.Sprintf("Did you mean %q?", near)
	case strings.HasPrefix(name, "NCCL_"):
		f.Severity = Warning
		f.Wrong, f.Instead = fmt.Sprintf("No NCCL from 2.3 to %s reads %s.", Newest, name), "Leave it out, unless a newer NCCL or a plugin reads it."
	default:
		f.Severity, f.Summary = Note, "Not a variable of NCCL"
		f.Wrong, f.Costs = fmt.Sprintf("%s is not NCCL's.", name), ""
		f.Instead = "Set it where the program that reads it starts: nccl.conf reaches NCCL alone."
	}
	return []Finding{f}
}
