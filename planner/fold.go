package planner

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fabricform/fabricform/resource"
)

// Group is a set of hosts that need the same actions on things of the same names. The values may differ
// from host to host.
type Group struct {
	Hosts   []string
	Actions []GroupAction
	// Management is the plan of the host, if the group has only one; otherwise nil.
	Management *HostPlan
}

// GroupAction is one action of all hosts of a group.
type GroupAction struct {
	Op      Op
	Kind    string
	Name    string
	Changes []GroupChange
	Forget  []resource.Atom
	Worst   resource.Disruption
}

// GroupChange is one change of all hosts of a group. If the values differ, it shows those of the first and
// the last host.
type GroupChange struct {
	Attribute, From, To string
	Drift               bool
	Differs             bool
}

// Groups folds the hosts that have actions and no problem. Groups are in the order of their first hosts.
func (p *Plan) Groups() []Group {
	index := map[string]int{}
	var members [][]*HostPlan
	for i := range p.Hosts {
		h := &p.Hosts[i]
		if len(h.Actions) == 0 || len(h.Problems) > 0 || h.Unreachable != "" {
			continue
		}
		key := shape(h.Actions)
		if at, ok := index[key]; ok {
			members[at] = append(members[at], h)
			continue
		}
		index[key] = len(members)
		members = append(members, []*HostPlan{h})
	}
	out := make([]Group, 0, len(members))
	for _, m := range members {
		out = append(out, fold(m))
	}
	return out
}

// shape is a key that is equal for hosts that fold: everything but the values.
func shape(actions []Action) string {
	var b strings.Builder
	for _, a := range actions {
		fmt.Fprintf(&b, "%s %s %s %v %t\n", a.Op, a.Resource.Addr.Kind, a.Resource.Addr.Name, a.Forget, a.Touches != "")
		for _, c := range a.Changes {
			attribute, _, _ := strings.Cut(c.Attribute, " ")
			fmt.Fprintf(&b, " %s %t %t %t %d\n", attribute, c.From == "", c.To == "", c.Drift, c.Disruption)
		}
	}
	return b.String()
}

func fold(hosts []*HostPlan) Group {
	g := Group{}
	for _, h := range hosts {
		g.Hosts = append(g.Hosts, h.Name)
	}
	if len(hosts) == 1 {
		g.Management = hosts[0]
	}
	first, last := hosts[0], hosts[len(hosts)-1]
	for i, a := range first.Actions {
		out := GroupAction{Op: a.Op, Kind: a.Resource.Addr.Kind, Name: a.Resource.Addr.Name, Forget: a.Forget, Worst: a.Disruption()}
		for j, c := range a.Changes {
			d := last.Actions[i].Changes[j]
			change := GroupChange{Attribute: c.Attribute, From: c.From, To: c.To, Drift: c.Drift}
			for _, h := range hosts {
				o := h.Actions[i].Changes[j]
				change.Differs = change.Differs || o.From != c.From || o.To != c.To || o.Attribute != c.Attribute
			}
			change.From, change.To, change.Attribute = span(c.From, d.From), span(c.To, d.To), span(c.Attribute, d.Attribute)
			out.Changes = append(out.Changes, change)
		}
		g.Actions = append(g.Actions, out)
	}
	return g
}

// span shows one value, or the first and the last of several.
func span(a, b string) string {
	if a == b {
		return a
	}
	return a + " … " + b
}

// Names abbreviates a list of names: gpu[00-15], or a, b, c.
func Names(names []string) string {
	names = slices.Sorted(slices.Values(names))
	var parts []string
	for i := 0; i < len(names); {
		stem, digits := numbered(names[i])
		j := i + 1
		for ; digits != "" && j < len(names); j++ {
			s, d := numbered(names[j])
			if s != stem || len(d) != len(digits) || value(d) != value(digits)+j-i {
				break
			}
		}
		if j-i > 2 {
			_, end := numbered(names[j-1])
			parts = append(parts, fmt.Sprintf("%s[%s-%s]", stem, digits, end))
		} else {
			parts = append(parts, names[i:j]...)
		}
		i = j
	}
	return strings.Join(parts, ", ")
}

// numbered splits a name into its stem and the number at its end.
func numbered(name string) (stem, digits string) {
	stem = strings.TrimRight(name, "0123456789")
	return stem, name[len(stem):]
}

func value(digits string) int {
	n, err := strconv.Atoi(digits)
	if err != nil {
		return -1 << 30 // too long for a number: never part of a range
	}
	return n
}
