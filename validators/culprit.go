package validators

import (
	"fmt"
	"slices"
	"strings"
)

// tally is how the paths of one NIC, or of one host, ended.
type tally struct{ paths, failed int }

func (t tally) bad() bool { return t.paths > 1 && t.failed == t.paths }

// culprits names the NIC or host behind failures that have it in common: where every path of it
// fails and the paths without it stand, the others need no look.
func culprits(trials []*trial) []Result {
	nics, hosts := map[string]*tally{}, map[string]*tally{}
	failing := 0
	for _, t := range trials {
		if t.why != "" {
			continue
		}
		failed := slices.ContainsFunc(t.out, func(r Result) bool { return r.Verdict == Fail })
		if failed {
			failing++
		}
		for _, e := range t.ends {
			for key, m := range map[string]map[string]*tally{e.port(): nics, e.host: hosts} {
				if m[key] == nil {
					m[key] = &tally{}
				}
				m[key].paths++
				if failed {
					m[key].failed++
				}
			}
		}
	}
	var out []Result
	explained := 0
	name := func(what string, m map[string]*tally) {
		for _, key := range sorted(m) {
			t := m[key]
			host, _, _ := strings.Cut(key, ".")
			// One end of a cable is as suspect as the other: a culprit has several paths, and is
			// the only thing that they share.
			if !t.bad() || explained >= failing || what == "NIC" && hosts[host].bad() && hosts[host].paths > t.paths {
				continue
			}
			explained += t.failed
			out = append(out, Result{Check: "network", Host: host, Verdict: Fail, What: "culprit", Measured: fmt.Sprintf("all %d paths of %s fail", t.paths, key),
				Cause: fmt.Sprintf("look at %s %s first: its port, cable and settings; what else fails, fails together with it", what, key)})
		}
	}
	if failing == 0 || failing == len(trials) {
		return nil // what all have in common is no NIC and no host
	}
	name("host", several(hosts, nics))
	name("NIC", nics)
	if explained < failing {
		return nil // something else is wrong too, and a guess would lead away from it
	}
	return out
}

// several keeps the hosts that have paths over more than one NIC: of the others, the NIC is named.
func several(hosts, nics map[string]*tally) map[string]*tally {
	out := map[string]*tally{}
	for host, t := range hosts {
		n := 0
		for port := range nics {
			if strings.HasPrefix(port, host+".") {
				n++
			}
		}
		if n > 1 {
			out[host] = t
		}
	}
	return out
}

func sorted(m map[string]*tally) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.SortFunc(out, func(a, b string) int {
		if m[a].failed != m[b].failed {
			return m[b].failed - m[a].failed // the one with most failures explains most
		}
		return strings.Compare(a, b)
	})
	return out
}
