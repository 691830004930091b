package apply

import (
	"maps"
	"slices"

	"github.com/fabricform/fabricform/resource"
)

// Applied is one apply, destroy, rollback or revert on all its hosts.
type Applied struct {
	resource.HistoryEntry
	Hosts  []string
	Total  int // changes on all hosts; Adopted is that of values, too
	Others []Others
}

// Others is what a revert did with the changes of others on a host.
type Others struct {
	Host              string
	Kept, Overwritten []resource.Change
}

// History merges the entries of each run in the hosts' latest records into one, the oldest first. A plan may be applied again after
// a rollback: then the first entries of the hosts belong together, and the second ones.
func (s *Session) History() []Applied {
	records := s.Records()
	type run struct {
		plan, command string
		time          int // counts the runs of the command with the plan
	}
	byRun := map[run]*Applied{}
	for _, host := range slices.Sorted(maps.Keys(records)) {
		for _, r := range records[host] {
			if r.Fabric != s.Fabric.Name {
				continue
			}
			times := map[run]int{}
			for _, e := range r.History {
				key := run{plan: e.Plan, command: e.Command}
				times[key]++
				key.time = times[key]
				if byRun[key] == nil {
					byRun[key] = &Applied{HistoryEntry: e}
					byRun[key].Adopted = 0
				}
				a := byRun[key]
				a.Hosts = append(a.Hosts, host)
				a.Total += e.Changes
				a.Adopted += e.Adopted
				if e.Failed != "" {
					a.Failed = host + ": " + e.Failed
				}
				if len(e.Kept)+len(e.Overwritten) > 0 {
					a.Others = append(a.Others, Others{Host: host, Kept: e.Kept, Overwritten: e.Overwritten})
				}
			}
		}
	}
	out := make([]Applied, 0, len(byRun))
	for _, a := range byRun {
		out = append(out, *a)
	}
	slices.SortFunc(out, func(a, b Applied) int { return a.Time.Compare(b.Time) })
	return out
}
