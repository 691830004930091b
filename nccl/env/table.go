// Package env describes NCCL's environment variables: accepted values, defaults, the versions that read
// them, and how NCCL's own parsers interpret values. It is pure.
package env

import (
	_ "embed"
	"encoding/csv"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// source is the table of variables. It comes from docs/userguide/source/env.rst of NVIDIA/nccl at 2.30.7
// (status documented), from NCCL_PARAM and ncclGetEnv in its sources at every v2 tag (undocumented,
// removed; first and last are tags), and from plugins and programs used with NCCL (external).
//
//go:embed env.csv
var source string

// Newest is the newest version of NCCL that the table covers.
var Newest = Version{2, 30, 7}

// Type says how NCCL parses the value of a variable.
type Type string

// The types of variables.
const (
	Int        Type = "int"        // strtoll with base 0
	Bool       Type = "bool"       // an Int: 0 is off, 1 is on
	Enum       Type = "enum"       // one of several words
	Level      Type = "level"      // a distance in the PCI topology
	Devices    Type = "devices"    // NCCL's list of RDMA devices
	Interfaces Type = "interfaces" // NCCL's list of netdevs
	List       Type = "list"       // NCCL's list of either
	CIDR       Type = "cidr"       // one network
	Path       Type = "path"
	Merge      Type = "merge" // lists of RDMA devices, separated by semicolons
	Text       Type = "string"
)

// Status is the state of a variable in NCCL.
type Status string

// The states of variables.
const (
	Documented   Status = "documented"
	Undocumented Status = "undocumented" // read by the source, may change at any time
	Removed      Status = "removed"      // no longer read
	External     Status = "external"     // read by a plugin or another program
)

// Variable is one variable of the table.
type Variable struct {
	Name       string
	Status     Status
	Type       Type
	Words      []string // the values of an Enum or a Level, or the only valid numbers of an Int
	Min, Max   int64    // range of an Int
	Default    string   // as text for readers; "": unknown
	First      Version  // zero: unknown
	Last       Version  // zero: still read by Newest
	Deprecated string   // the version, and the replacement
	PerHost    bool     // the right value differs between hosts
	Note       string
	Source     string

	defaults []since
}

// since is a default that applies from a version on; known is false if it is not a number.
type since struct {
	from  Version
	value int64
	known bool
}

var table = sync.OnceValue(func() map[string]*Variable {
	rows, err := csv.NewReader(strings.NewReader(source)).ReadAll()
	if err != nil {
		panic(err) // a mistake in our own file; every test would see it
	}
	out := make(map[string]*Variable, len(rows))
	for _, r := range rows[1:] {
		v, err := read(r)
		if err != nil {
			panic(err)
		}
		out[v.Name] = v
	}
	return out
})

// Lookup returns the variable of that name, or nil.
func Lookup(name string) *Variable { return table()[name] }

// Names returns the names of all variables, sorted. Callers share the list and must not change it.
var Names = sync.OnceValue(func() []string {
	var out []string
	for name := range table() {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
})

// DefaultAt returns the numeric default in a version; the zero version means Newest. It returns false if
// the default is unknown or not a number.
func (v *Variable) DefaultAt(at Version) (int64, bool) {
	if at == (Version{}) {
		at = Newest
	}
	var out since
	for _, d := range v.defaults {
		if !at.Before(d.from) {
			out = d
		}
	}
	// A negative default asks NCCL to decide, and says nothing of what it decides.
	return out.value, out.known && out.value >= 0
}

func read(r []string) (*Variable, error) {
	v := &Variable{Name: r[0], Status: Status(r[1]), Type: Type(r[2]), Min: math.MinInt64, Max: math.MaxInt64, Default: r[4],
		Deprecated: r[8], PerHost: r[9] == "yes", Note: r[10], Source: r[11]}
	var err error
	if low, high, isRange := strings.Cut(r[3], ".."); isRange {
		if v.Min, err = strconv.ParseInt(low, 10, 64); err == nil && high != "" {
			v.Max, err = strconv.ParseInt(high, 10, 64)
		}
	} else if r[3] != "" {
		v.Words = strings.Split(r[3], "|")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: range %q: %w", v.Name, r[3], err)
	}
	for d := range strings.FieldsSeq(r[5]) {
		from, number, _ := strings.Cut(d, ":")
		s := since{known: number != ""}
		if s.from, err = ParseVersion(from); err == nil && s.known {
			s.value, err = strconv.ParseInt(number, 10, 64)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: default %q: %w", v.Name, d, err)
		}
		v.defaults = append(v.defaults, s)
	}
	for text, into := range map[string]*Version{r[6]: &v.First, r[7]: &v.Last} {
		if text == "" {
			continue
		}
		if *into, err = ParseVersion(text); err != nil {
			return nil, fmt.Errorf("%s: %w", v.Name, err)
		}
	}
	return v, nil
}
