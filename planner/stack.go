package planner

import (
	"slices"

	"github.com/fabricform/fabricform/resource"
)

// installs says whether the host's plan changes its driver stack.
func (h *HostPlan) installs() bool {
	return slices.ContainsFunc(h.Actions, func(a Action) bool { return a.Stage == resource.StageStack })
}

// Stack returns the part of the plan that changes driver stacks, with all hosts.
func (p *Plan) Stack() *Plan { return p.part(true) }

// Rest returns the plan without the part that changes driver stacks, with all hosts.
func (p *Plan) Rest() *Plan { return p.part(false) }

func (p *Plan) part(stack bool) *Plan {
	out := *p
	out.Hosts = slices.Clone(p.Hosts)
	for i := range out.Hosts {
		out.Hosts[i].Actions = slices.DeleteFunc(slices.Clone(p.Hosts[i].Actions), func(a Action) bool { return (a.Stage == resource.StageStack) != stack })
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
