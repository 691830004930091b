package planner

import (
	"slices"

	"github.com/fabricform/fabricform/resource"
)

// installs says whether the host's plan changes its driver stack.
func (h *HostPlan) installs() bool {
	return slices.ContainsFunc(h.Actions, func(a Action) bool { return a.Stage == resource.StageStack })
}

// Only returns the part of the plan that belongs to one stage, with all hosts.
func (p *Plan) Only(stage string) *Plan {
	return p.part(func(a Action) bool { return a.Stage == stage })
}

// Without returns the plan without the part that belongs to one stage, with all hosts.
func (p *Plan) Without(stage string) *Plan {
	return p.part(func(a Action) bool { return a.Stage != stage })
}

func (p *Plan) part(of func(Action) bool) *Plan {
	out := *p
	out.Hosts = slices.Clone(p.Hosts)
	for i := range out.Hosts {
		out.Hosts[i].Actions = slices.DeleteFunc(slices.Clone(p.Hosts[i].Actions), func(a Action) bool { return !of(a) })
	}
	return &out
}

// Worst is the worst disruption in the host's plan.
func (h HostPlan) Worst() resource.Disruption {
	worst := resource.Live
	for _, a := range h.Actions {
		worst = max(worst, a.Disruption())
	}
	return worst
}
