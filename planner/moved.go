package planner

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/resource"
)

// Moved compares a saved plan with a plan that was made just now from the same files, and lists for each host
// what has changed in between. It skips hosts that neither plan changes.
func Moved(saved, now *Plan) map[string][]string {
	out := map[string][]string{}
	byName := map[string]HostPlan{}
	for _, h := range now.Hosts {
		byName[h.Name] = h
	}
	for _, h := range saved.Hosts {
		if h.Unreachable != "" {
			continue // the saved plan left it out
		}
		n, there := byName[h.Name]
		switch {
		case !there:
			out[h.Name] = []string{"the host is no longer part of the fabric"}
		case n.Unreachable != "":
			out[h.Name] = []string{"the host is unreachable now, but was reachable when the plan was made: " + n.Unreachable}
		default:
			if moved := movedActions(h.Actions, n.Actions); len(moved) > 0 {
				out[h.Name] = moved
			}
		}
	}
	return out
}

func movedActions(saved, now []Action) []string {
	var out []string
	find := func(list []Action, a Action) *Action {
		for i := range list {
			if list[i].Resource.Addr == a.Resource.Addr && (list[i].Op == Undo) == (a.Op == Undo) && list[i].Late == a.Late {
				return &list[i]
			}
		}
		return nil
	}
	for _, s := range saved {
		n := find(now, s)
		if n == nil && s.Op == Keep {
			continue // it follows from another action, which has changed
		}
		if n == nil {
			out = append(out, fmt.Sprintf("%s.%s: no change is needed any more", s.Resource.Addr.Kind, s.Resource.Addr.Name))
			continue
		}
		out = append(out, movedChanges(s, *n)...)
	}
	for _, n := range now {
		if find(saved, n) == nil && n.Op != Keep {
			what := changesText(n.Changes)
			if len(n.Changes) == 0 {
				what = "values leave the record, and stay as they are"
			}
			out = append(out, fmt.Sprintf("%s.%s: new difference: %s", n.Resource.Addr.Kind, n.Resource.Addr.Name, what))
		}
	}
	return out
}

func movedChanges(saved, now Action) []string {
	name := saved.Resource.Addr.Kind + "." + saved.Resource.Addr.Name
	if !slices.Equal(saved.Changes, now.Changes) || !slices.Equal(saved.Forget, now.Forget) {
		return []string{fmt.Sprintf("%s: planned %s; now it would be %s", name, changesText(saved.Changes), changesText(now.Changes))}
	}
	if saved.Seen != now.Seen {
		return []string{name + ": the facts behind the plan have changed, although the difference is the same"}
	}
	return nil
}

func changesText(changes []resource.Change) string {
	if len(changes) == 0 {
		return "nothing"
	}
	var out []string
	for _, c := range changes {
		c = c.Unsalted()
		out = append(out, fmt.Sprintf("%s %s → %s", c.Attribute, orNone(c.From), orNone(c.To)))
	}
	return strings.Join(out, ", ")
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
