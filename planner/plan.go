// Package planner compares the desired with the observed state and orders the changes. It is pure: it gets
// snapshots and the table of kinds, and does no I/O.
package planner

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/resource"
)

// HostInput is one host as declared and as found. Snapshot is nil if the host is unreachable.
type HostInput struct {
	Name      string
	Address   string // for the roster
	Resources []resource.Resource
	Declared  []resource.Resource // they name the things that a destroy undoes; a destroy wants none of them
	Records   []resource.Record   // what each fabric changed on the host
	Snapshot  *facts.Snapshot
	// Read returns the input of a host whose answer is not decoded yet; nil if this is it. It may be called again. The snapshots of ten
	// thousand hosts would fill memory.
	Read        func() HostInput
	Unreachable string // why the host is unreachable
	// Refused says why the host's own programs reject the wanted configuration of a resource.
	Refused    map[resource.Addr]string
	Excluded   bool // the operator excluded the host: it is part of the roster, but is not planned
	Management bool // the operator allows changes of the path of their own connection
}

// Op is what an action does to its resource.
type Op string

// The operations, as plans print them.
const (
	Create Op = "create"
	Update Op = "update"
	// Keep plans no change of its own: a resource that this one refers to is changed, which may make the kernel
	// drop parts of this one. Those parts are then restored.
	Keep Op = "keep"
	// Undo reverts a change that the fabric made and no longer declares.
	Undo Op = "undo"
	// Revert returns to the state from before an apply.
	Revert Op = "revert"
	// Reconnect opens a new connection and continues over it, before anything that carried the old one is
	// removed.
	Reconnect Op = "reconnect"
)

// Action is the changes of one resource, which are made together.
type Action struct {
	Resource resource.Resource `json:"resource"`
	Op       Op                `json:"op"`
	Stage    string            `json:"stage,omitempty"` // resource.StageStack, StageKeys, StageRuntime or StagePersist
	Changes  []resource.Change `json:"changes"`
	// Disturbed is true if an earlier action, on a resource that this one refers to, may make the kernel drop
	// parts of this one.
	Disturbed bool `json:"disturbed,omitempty"`
	// Seen is a digest of the facts that the action was planned from.
	Seen string `json:"seen,omitempty"`
	// Forget lists atoms of an Undo that remain as they are, and leave the record: those in Kept, and those that have
	// their earlier values already.
	Forget []resource.Atom `json:"forget,omitempty"`
	// Adopted lists, in an Undo, the values that were there before the first apply and have never changed: they remain.
	Adopted []resource.Change `json:"adopted,omitempty"`
	// Kept lists what somebody else changed since we set it (Undo), or since the apply that a Revert returns from, and
	// that remains.
	Kept []resource.Change `json:"kept,omitempty"`
	// Touches says how the action touches the operator's own connection. The operator has allowed it.
	Touches string `json:"touches,omitempty"`
	// Later lists changes of the same resource that an action after the Reconnect makes. That action is Late.
	Later []resource.Change `json:"later,omitempty"`
	Late  bool              `json:"late,omitempty"`
	// Via is the host's address to reconnect to; invalid if the used one remains.
	Via netip.Addr `json:"via,omitzero"`
}

// Disruption is the worst disruption among the action's changes.
func (a Action) Disruption() resource.Disruption {
	worst := resource.Live
	for _, c := range a.Changes {
		worst = max(worst, c.Disruption)
	}
	return worst
}

// Problem says why a resource cannot be planned on its host. A plan with a problem is not applied.
type Problem struct {
	Addr    resource.Addr `json:"addr"`
	Pos     fabric.Pos    `json:"pos,omitzero"`
	Message string        `json:"message"`
}

func (p Problem) String() string {
	return fmt.Sprintf("%s:%d: %s: %s", p.Pos.File, p.Pos.Line, p.Addr, p.Message)
}

// HostPlan lists the actions that one host needs, in order.
type HostPlan struct {
	Name        string    `json:"name"`
	Actions     []Action  `json:"actions,omitempty"`
	Problems    []Problem `json:"problems,omitempty"`
	Notes       []string  `json:"notes,omitempty"` // remarks that are not about a change
	Unreachable string    `json:"unreachable,omitempty"`
	// Stale lists how the host changed since the plan was saved. Such a host is skipped.
	Stale []string `json:"stale,omitempty"`
	// LeftOut lists resources with changes that the plan does not make, because they belong to a link or network in
	// Plan.LeftOut.
	LeftOut   []resource.Addr `json:"left_out,omitempty"`
	Unchanged int             `json:"unchanged"` // resources that are as wanted
	// Adopts lists the resources that are as wanted before their first apply, which records them as adopted.
	Adopts     []Adoption       `json:"adopts,omitempty"`
	Management facts.Management `json:"management"`
	// Reverted is the latest entry of the host's history if it is a revert that found changes of others: nobody was asked.
	Reverted *resource.HistoryEntry `json:"reverted,omitempty"`
}

// Adoption is a resource that somebody else made, and that fabricform did not have to change.
type Adoption struct {
	Addr   resource.Addr            `json:"addr"`
	Values map[resource.Atom]string `json:"values"`
}

// Unsalted returns the host's plan without digests that differ in every plan.
func (h HostPlan) Unsalted() HostPlan {
	h.Actions = slices.Clone(h.Actions)
	for i := range h.Actions {
		a := &h.Actions[i]
		a.Changes = slices.Clone(a.Changes)
		for j, c := range a.Changes {
			a.Changes[j] = c.Unsalted()
		}
	}
	return h
}

// Plan is the whole fabric's difference. Hosts are in the order of the input.
type Plan struct {
	Fabric string `json:"fabric"`
	// Invocation is how the operator named the fabric, for commands in messages.
	Invocation fabric.Invocation `json:"invocation,omitzero"`
	// RollsBack is the ID of the plan that this one rolls back; "" for a plan that compares hosts with files.
	RollsBack string     `json:"rolls_back,omitempty"`
	Hosts     []HostPlan `json:"hosts"`
	// Destroy is set if everything that the fabric made is undone.
	Destroy bool `json:"destroy,omitempty"`
	// Vanished lists hosts that the fabric once had and that its files no longer name. The changes that were
	// made there remain until they are destroyed.
	Vanished []resource.Member `json:"vanished,omitempty"`
	// LeftOut lists the links and networks that are left as they are, because hosts at their ends are missing.
	LeftOut []LeftOut `json:"left_out,omitempty"`
	// NotChosen names the hosts that the operator excluded: the plan says nothing about them.
	NotChosen []string `json:"not_chosen,omitempty"`
	// Enrol names the hosts whose recorded roster is out of date.
	Enrol []string `json:"enrol,omitempty"`
	// Roster lists the fabric's hosts, including the vanished ones.
	Roster []resource.Member `json:"roster,omitempty"`
}

// Changes counts the plan's changed attributes.
func (p *Plan) Changes() int {
	n := 0
	for _, h := range p.Hosts {
		for _, a := range h.Actions {
			n += len(a.Changes)
		}
	}
	return n
}

// Forgets reports whether atoms leave the hosts' records.
func (p *Plan) Forgets() bool {
	return slices.ContainsFunc(p.Hosts, func(h HostPlan) bool {
		return slices.ContainsFunc(h.Actions, func(a Action) bool { return len(a.Forget) > 0 })
	})
}

// Shown returns the actions that people see: all but those that only remove atoms from the record.
func (h HostPlan) Shown() []Action {
	return slices.DeleteFunc(slices.Clone(h.Actions), Action.Tidies)
}

// Tidies reports whether the action only removes atoms from the record that have their earlier values already.
func (a Action) Tidies() bool {
	return a.Op == Undo && len(a.Changes)+len(a.Kept)+len(a.Adopted) == 0
}

// Has says whether the plan has an action of the stage.
func (p *Plan) Has(stage string) bool {
	return slices.ContainsFunc(p.Hosts, func(h HostPlan) bool {
		return slices.ContainsFunc(h.Actions, func(a Action) bool { return a.Stage == stage })
	})
}

// Notes returns the notes, each with the names of all its hosts.
func (p *Plan) Notes() []string {
	by := map[string][]string{}
	var order []string
	for _, h := range p.Hosts {
		for _, n := range h.Notes {
			if by[n] == nil {
				order = append(order, n)
			}
			by[n] = append(by[n], h.Name)
		}
	}
	out := make([]string, 0, len(order))
	for _, n := range order {
		out = append(out, Names(by[n])+": "+n)
	}
	return out
}

// Problems returns every host's problems.
func (p *Plan) Problems() []Problem {
	var all []Problem
	for _, h := range p.Hosts {
		all = append(all, h.Problems...)
	}
	return all
}

// Unreachable returns the unreachable hosts, each with the reason.
func (p *Plan) Unreachable() map[string]string {
	out := map[string]string{}
	for _, h := range p.Hosts {
		if h.Unreachable != "" {
			out[h.Name] = h.Unreachable
		}
	}
	return out
}

// Stale returns the hosts that changed since the plan was saved, and are skipped.
func (p *Plan) Stale() (hosts []string) {
	for _, h := range p.Hosts {
		if len(h.Stale) > 0 {
			hosts = append(hosts, h.Name)
		}
	}
	return hosts
}

// Make compares every host, except for the links and networks that are left out. It never fails as a whole: an error of
// one resource becomes a Problem of its host.
func Make(fabricName string, kinds resource.Kinds, hosts []HostInput, left ...LeftOut) *Plan {
	p := &Plan{Fabric: fabricName, Hosts: make([]HostPlan, 0, len(hosts)), LeftOut: left}
	ends := endsOf(left)
	var rosters []enlisting
	for _, in := range hosts {
		p.Roster = append(p.Roster, resource.Member{Name: in.Name, Address: in.Address})
		if in.Excluded {
			p.NotChosen = append(p.NotChosen, in.Name)
		}
		in = in.whole()
		adopts := false
		if !in.Excluded {
			h := planHost(fabricName, kinds, in, ends)
			p.Hosts, adopts = append(p.Hosts, h), len(h.Adopts) > 0
		}
		rosters = enlist(rosters, fabricName, in, adopts)
	}
	p.enrol(rosters)
	return p
}

// whole returns the input with its snapshot.
func (in HostInput) whole() HostInput {
	if in.Read != nil {
		return in.Read()
	}
	return in
}

func planHost(fabricName string, kinds resource.Kinds, in HostInput, ends map[resource.Addr]bool) HostPlan {
	out := HostPlan{Name: in.Name, Unreachable: in.Unreachable}
	if in.Snapshot == nil {
		return out
	}
	out.Management = in.Snapshot.Management
	ordered, err := order(in.Resources)
	if err != nil {
		out.Problems = append(out.Problems, Problem{Addr: resource.Addr{Host: in.Name}, Message: err.Error()})
		return out
	}
	own := ownership(fabricName, kinds, in, ordered)
	out.Reverted = own.mine.Reverted()
	out.Actions, out.Problems = own.undo()
	left := own.leaveOut(ends, out.Actions)
	out.Actions = left.hold(out.Actions)
	out.LeftOut = left.changed
	planning := hostPlanning{out: &out, in: in, own: own, left: left, undos: slices.Clone(out.Actions), acting: map[resource.Addr]bool{}}
	for _, r := range ordered {
		if problem := planning.add(r); problem != "" {
			out.Problems = append(out.Problems, Problem{Addr: r.Addr, Pos: r.Pos, Message: problem})
		}
	}
	out.Notes = append(out.Notes, planning.bystanders()...)
	if out.losesAtBoot(kinds) {
		out.Notes = append(out.Notes, "the adopted values stay for now, but what sets them at boot is removed: put back what you removed from other files, or the next boot loses them")
	}
	out.migrate(kinds, in, ordered)
	// Persistent changes, including their undo, are made only after the running configuration was proven.
	slices.SortStableFunc(out.Actions, func(a, b Action) int { return cmp.Compare(resource.Rank(a.Stage), resource.Rank(b.Stage)) })
	for i, a := range out.Actions {
		if a.Op == Undo {
			atoms := slices.Clone(a.Forget)
			for _, c := range a.Changes {
				atoms = append(atoms, c.Atom)
			}
			out.Actions[i].Resource.Addr = own.named(a.Resource.Addr, atoms...)
		}
	}
	return out
}

// losesAtBoot reports whether adopted values stay, and files of ours that set them at boot go.
func (h *HostPlan) losesAtBoot(kinds resource.Kinds) bool {
	adopted := func(a Action) bool { return a.Op == Undo && len(a.Adopted) > 0 }
	goes := func(a Action) bool {
		kind, _ := kinds.Lookup(a.Resource.Addr.Kind)
		return a.Op == Undo && kind.Boots && slices.ContainsFunc(a.Changes, func(c resource.Change) bool { return c.To == "" })
	}
	return slices.ContainsFunc(h.Actions, adopted) && slices.ContainsFunc(h.Actions, goes)
}

// hostPlanning is a host's plan while its resources are added, each after those that it depends on.
type hostPlanning struct {
	out    *HostPlan
	in     HostInput
	own    *owned
	left   share
	undos  []Action               // they run before the resources of their stage
	acting map[resource.Addr]bool // the resources that change so far, or are made again
}

// add adds a resource's action, if it needs one. The problem says why the resource cannot be as declared. The order of the
// steps matters:
//
//   - What is left out is not compared at all: a problem of it must not stop the rest of the plan.
//   - Undos and left-out links change what is wanted, so the difference is found after them.
//   - Refusals come before notes and actions: a change that is not made has nothing to say, and disturbs nobody.
//   - A resource without changes touches no management path, so that is asked last.
func (p *hostPlanning) add(r resource.Resource) (problem string) {
	out := p.out
	kind, ok := p.own.kinds.Lookup(r.Addr.Kind)
	if !ok {
		return fmt.Sprintf("this build validates %s, but cannot apply it; remove it to apply the rest", r.Addr.Kind)
	}
	if slices.Contains(p.left.changed, r.Addr) {
		return ""
	}
	for _, a := range p.undos {
		if kind.Undone != nil && a.Resource.Addr.Kind == kind.Name && a.Resource.Addr.Name == kind.Device(p.in.Snapshot, r.Spec) {
			r.Spec = kind.Undone(r.Spec, a.Changes)
		}
	}
	partly := p.left.partly(p.in.Snapshot, kind, &r)
	if partly {
		out.LeftOut = append(out.LeftOut, r.Addr)
	}
	d, err := kind.Plan(p.in.Snapshot, r.Spec)
	var driver *resource.MissingDriver
	if errors.As(err, &driver) && out.installs() {
		out.Notes = append(out.Notes, fmt.Sprintf("%s.%s is planned again once the driver stack is installed: %s",
			r.Addr.Kind, r.Addr.Name, driver.Why))
		return ""
	}
	if err != nil {
		return err.Error()
	}
	if why := p.refusal(kind, r, d); why != "" {
		return why
	}
	out.Notes = append(out.Notes, d.Notes...)
	p.own.drift(d.Changes)
	a := Action{Resource: r, Op: Update, Stage: kind.Stage, Changes: slices.Clone(d.Changes), Disturbed: p.disturbs(kind, r), Seen: d.Seen,
		Touches: d.Touches}
	switch {
	case len(d.Changes) == 0:
		if !partly {
			out.Unchanged++
			p.own.adopt(out, kind, r, d.Present)
		}
		if a.Disturbed && d.Exists { // the helper makes again what the disturbance removed
			out.Actions = append(out.Actions, Action{Resource: r, Op: Keep, Stage: kind.Stage, Disturbed: true})
			p.acting[r.Addr] = true // it disturbs in turn: the routes of a NIC go with its bond
		}
		return ""
	case d.Touches != "" && !p.in.Management:
		return d.Touches + p.in.cure()
	case !d.Exists:
		a.Op = Create
	}
	p.acting[r.Addr] = true
	out.Actions = append(out.Actions, a)
	return ""
}

// refusal says why a resource must not be changed. Another fabric's is refused even if it is already as declared: the two
// would fight over it at the next change.
func (p *hostPlanning) refusal(kind resource.Kind, r resource.Resource, d resource.Difference) string {
	if why := cmp.Or(p.own.foreign(kind, r), p.own.refusal(d.Changes)); why != "" || len(d.Changes) == 0 {
		return why
	}
	return p.in.Refused[r.Addr]
}

// disturbs reports whether the plan changes or undoes something that the resource depends on. An undo of a later stage comes
// after the resource, and cannot disturb it.
func (p *hostPlanning) disturbs(kind resource.Kind, r resource.Resource) bool {
	return slices.ContainsFunc(r.After, func(after resource.Addr) bool { return p.acting[after] }) ||
		len(r.After) > 0 && slices.ContainsFunc(p.undos, func(a Action) bool {
			return len(a.Changes) > 0 && resource.Rank(a.Stage) <= resource.Rank(kind.Stage)
		})
}

// bystanders names the things of others that the changes disturb.
func (p *hostPlanning) bystanders() (out []string) {
	var changes []resource.Change
	for _, a := range p.out.Actions {
		changes = append(changes, a.Changes...)
	}
	ours := slices.Collect(maps.Keys(p.own.mine.Atoms))
	for _, r := range p.own.wanted {
		if kind, ok := p.own.kinds.Lookup(r.Addr.Kind); ok && kind.Device != nil {
			ours = append(ours, resource.NewAtom(kind.Name, kind.Device(p.in.Snapshot, r.Spec), ""))
		}
	}
	asked := map[string]bool{}
	for _, kind := range p.own.kinds {
		if by, ok := kind.Restorer.(resource.Bystanders); ok && !asked[kind.Restorer.Name()] {
			asked[kind.Restorer.Name()] = true
			out = append(out, by.Disturbed(p.in.Snapshot.Links, changes, ours)...)
		}
	}
	return out
}

// RevertActions returns the actions of a host that reverts: one for each thing, in the order of the kinds. A thing that the
// files declare has the name that they give it.
func RevertActions(fabric string, kinds resource.Kinds, in HostInput, changes, kept []resource.Change) []Action {
	own := &owned{kinds: kinds}
	if in.Snapshot != nil {
		own = ownership(fabric, kinds, in, in.Resources)
	}
	things := map[resource.Addr]*Action{}
	var order []resource.Addr
	at := func(c resource.Change) *Action {
		addr := own.named(resource.Addr{Host: in.Name, Kind: c.Atom.Kind(), Name: c.Atom.Thing()}, c.Atom)
		if things[addr] == nil {
			order = append(order, addr)
			things[addr] = &Action{Resource: resource.Resource{Addr: addr}, Op: Revert}
		}
		return things[addr]
	}
	for _, c := range changes {
		a := at(c)
		a.Changes = append(a.Changes, c)
	}
	for _, c := range kept {
		a := at(c)
		a.Kept = append(a.Kept, c)
	}
	rank := func(addr resource.Addr) int {
		return slices.IndexFunc(kinds, func(k resource.Kind) bool { return k.Name == addr.Kind })
	}
	slices.SortStableFunc(order, func(a, b resource.Addr) int { return cmp.Compare(rank(a), rank(b)) })
	var out []Action
	for _, addr := range order {
		out = append(out, *things[addr])
	}
	return out
}
