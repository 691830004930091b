package view

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/validators"
)

// foldFrom is how many groups of results are printed in full. If there are more, common causes come first,
// then failures and warnings: the paths of a network as rows of hosts, everything else in full. The rest
// gets one line for each network.
const foldFrom = 12

// rowFrom is how many failing paths of one host in a network make a row.
const rowFrom = 3

func (p *Printer) printFolded(groups [][]validators.Result) {
	rest, bad := map[string]*fold{}, map[string][]path{}
	var order, matrices []string
	for _, culprits := range []bool{true, false} {
		for _, g := range groups {
			if (g[0].Check == validators.CheckCulprit) != culprits {
				continue
			}
			n := tally(g)
			failed := n.Fail+n.Warn > 0
			network := g[0].Subject.Name
			switch {
			case failed && g[0].Subject.Kind == validators.SubjectNetwork:
				if bad[network] == nil {
					matrices = append(matrices, network)
				}
				bad[network] = append(bad[network], pathOf(g))
			case failed:
				p.printChecked(g)
			default:
				name := part(g[0])
				if rest[name] == nil {
					rest[name] = &fold{}
					order = append(order, name)
				}
				rest[name].add(n)
			}
		}
	}
	for _, network := range matrices {
		p.matrix(network, bad[network])
	}
	for _, name := range order {
		p.Linef("%s %s  %s", p.good("✓"), p.bold(name), rest[name])
	}
}

// part names the folded line that a group belongs to.
func part(r validators.Result) string {
	switch r.Subject.Kind {
	case validators.SubjectNetwork:
		return "network " + r.Subject.Name
	case validators.SubjectLink, validators.SubjectGroup:
		return "links"
	case validators.SubjectHosts:
		return "hosts compared"
	}
	return "hosts"
}

// fold is a set of groups that share one line.
type fold struct{ groups, passed, skipped int }

func (f *fold) add(n Tally) {
	f.groups++
	f.passed += n.Pass
	f.skipped += n.Skip
}

func (f *fold) String() string {
	of := ""
	if f.groups > 1 {
		of = fmt.Sprintf("%d of them: ", f.groups)
	}
	return fmt.Sprintf("%s%d checks passed, %d skipped", of, f.passed, f.skipped)
}

// path has a path's results and the hosts at its ends.
type path struct {
	results []validators.Result
	hosts   []string
}

func pathOf(g []validators.Result) path {
	hosts := map[string]bool{}
	for _, r := range g {
		hosts[r.Host] = true
		if r.Peer != "" {
			hosts[r.Peer] = true
		}
	}
	return path{g, slices.Sorted(maps.Keys(hosts))}
}

// matrix prints the failing paths of a network in few rows: first the host that most of them have in common,
// with all its peers, then the next host of the remaining paths.
func (p *Printer) matrix(network string, bad []path) {
	for len(bad) > 0 {
		count := map[string]int{}
		for _, b := range bad {
			for _, h := range b.hosts {
				count[h]++
			}
		}
		worst := slices.MaxFunc(slices.Sorted(maps.Keys(count)), func(a, b string) int {
			if count[a] != count[b] {
				return count[a] - count[b]
			}
			return strings.Compare(b, a)
		})
		var row, others []path
		for _, b := range bad {
			if slices.Contains(b.hosts, worst) {
				row = append(row, b)
			} else {
				others = append(others, b)
			}
		}
		if bad = others; len(row) < rowFrom {
			for _, b := range row {
				p.printChecked(b.results)
			}
			continue
		}
		p.row(network, worst, row)
	}
}

// row prints the first failing path of a host in full, and the peers of the others.
func (p *Printer) row(network, host string, paths []path) {
	peers := map[string]bool{}
	for _, b := range paths {
		for _, h := range b.hosts {
			if h != host {
				peers[h] = true
			}
		}
	}
	p.Linef("%s", p.bold(fmt.Sprintf("network %s: %s with %s, %d paths; the first:",
		network, host, planner.Names(slices.Collect(maps.Keys(peers))), len(paths))))
	p.list(slices.DeleteFunc(slices.Clone(paths[0].results), func(r validators.Result) bool {
		return r.Verdict != validators.Fail && r.Verdict != validators.Warn
	}))
}
