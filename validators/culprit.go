package validators

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/fabric"
)

// CheckCulprit finds a NIC or host that the failures of several paths have in common.
const (
	CheckCulprit Check = "culprit"

	CommonCause Item = "common_cause"

	MetricPathsFailed Metric = "paths_failed"
)

// tally counts the paths of one NIC or host, and how many of them failed.
type tally struct{ paths, failed int }

func (t tally) bad() bool { return t.paths > 1 && t.failed == t.paths }

// culprits names the NIC or host that causes several failures: all of its paths fail, and all other paths
// pass.
func culprits(trials []*trial) []Result {
	nics, hosts := map[fabric.NICRef]*tally{}, map[fabric.NICRef]*tally{}
	failing := 0
	for _, t := range trials {
		if t.skip != "" {
			continue
		}
		failed := slices.ContainsFunc(t.out, func(r Result) bool { return r.Verdict == Fail })
		if failed {
			failing++
		}
		for _, e := range t.ends {
			count(nics, e.ref(), failed)
			count(hosts, fabric.NICRef{Host: e.host}, failed)
		}
	}
	if failing == 0 || failing == len(trials) {
		return nil // every path failed: the common cause is neither a NIC nor a host
	}
	var out []Result
	explained := 0
	blame := func(suspects map[fabric.NICRef]*tally) {
		for _, ref := range worstFirst(suspects) {
			t, whole := suspects[ref], hosts[fabric.NICRef{Host: ref.Host}]
			// Both ends of one cable are equally suspect. A culprit has several paths, and is all that
			// they share.
			if !t.bad() || explained >= failing || ref.NIC != "" && whole.bad() && whole.paths > t.paths {
				continue
			}
			explained += t.failed
			out = append(out, common(ref, t))
		}
	}
	blame(several(hosts, nics))
	blame(nics)
	if explained < failing {
		return nil // there is another cause as well; a guess would mislead
	}
	return out
}

// count adds a path's end to the tally.
func count(m map[fabric.NICRef]*tally, ref fabric.NICRef, failed bool) {
	if m[ref] == nil {
		m[ref] = &tally{}
	}
	m[ref].paths++
	if failed {
		m[ref].failed++
	}
}

// common returns the result that names a culprit: a NIC, or a host if ref names no NIC.
func common(ref fabric.NICRef, t *tally) Result {
	res := Result{Check: CheckCulprit, Item: CommonCause, Subject: onHost(ref.Host), Host: ref.Host,
		Values: []Measurement{{Name: MetricPathsFailed, Value: float64(t.failed), OutOf: float64(t.paths)}}}
	what := "host " + ref.Host
	if res.Subject.NIC = ref.NIC; ref.NIC != "" {
		what = "NIC " + ref.String()
	}
	return res.fails("all failures share "+what+"; all other paths pass", "check "+what+" first: its port, cable and settings")
}

// several keeps the hosts that have paths over more than one NIC; for the others, the NIC is the culprit.
func several(hosts, nics map[fabric.NICRef]*tally) map[fabric.NICRef]*tally {
	ports := map[string]int{}
	for ref := range nics {
		ports[ref.Host]++
	}
	out := maps.Clone(hosts)
	maps.DeleteFunc(out, func(ref fabric.NICRef, _ *tally) bool { return ports[ref.Host] < 2 })
	return out
}

// worstFirst sorts the suspects, those with most failures first.
func worstFirst(m map[fabric.NICRef]*tally) []fabric.NICRef {
	return slices.SortedFunc(maps.Keys(m), func(a, b fabric.NICRef) int {
		return cmp.Or(m[b].failed-m[a].failed, strings.Compare(a.String(), b.String()))
	})
}
