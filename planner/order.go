package planner

import (
	"fmt"
	"strings"

	"github.com/fabricform/fabricform/resource"
)

// order sorts resources so that each comes after those it refers to, and otherwise keeps the given order,
// so that a plan reads the same every time. A cycle is an error that names its members. References to
// resources that are not declared are ignored.
func order(in []resource.Resource) ([]resource.Resource, error) {
	index := make(map[resource.Addr]int, len(in))
	for i, r := range in {
		if _, twice := index[r.Addr]; twice {
			return nil, fmt.Errorf("%s is declared twice", r.Addr)
		}
		index[r.Addr] = i
	}
	const (
		unseen = iota
		open
		placed
	)
	state := make([]int, len(in))
	out := make([]resource.Resource, 0, len(in))
	var path []string
	var visit func(i int) error
	visit = func(i int) error {
		path = append(path, in[i].Addr.String())
		defer func() { path = path[:len(path)-1] }()
		switch state[i] {
		case placed:
			return nil
		case open:
			return fmt.Errorf("resources refer to each other in a cycle: %s", strings.Join(path, " -> "))
		}
		state[i] = open
		for _, after := range in[i].After {
			if j, ok := index[after]; ok {
				if err := visit(j); err != nil {
					return err
				}
			}
		}
		state[i] = placed
		out = append(out, in[i])
		return nil
	}
	for i := range in {
		if err := visit(i); err != nil {
			return nil, err
		}
	}
	return out, nil
}
