package planner

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/resource"
)

// owned holds the records of one host and the resources that are wanted there.
type owned struct {
	in     HostInput
	kinds  resource.Kinds
	wanted []resource.Resource
	mine   resource.Record
	others []resource.Record
}

func ownership(fabric string, kinds resource.Kinds, in HostInput, wanted []resource.Resource) *owned {
	o := &owned{in: in, kinds: kinds, wanted: wanted}
	for _, r := range in.Records {
		if r.Fabric == fabric {
			o.mine = r
		} else {
			o.others = append(o.others, r)
		}
	}
	return o
}

// claimed says whether a wanted resource sets the atom.
func (o *owned) claimed(a resource.Atom) bool {
	kind, ok := o.kinds.Lookup(a.Kind())
	return ok && kind.Claims != nil && slices.ContainsFunc(o.wanted, func(r resource.Resource) bool {
		return r.Addr.Kind == kind.Name && kind.Claims(o.in.Snapshot, r.Spec, a)
	})
}

// undo plans to revert the atoms that no resource wants any more: one action for each thing, or for
// each name if the kind has titles. The kinds are
// in reverse order, because rules and routes depend on addresses.
func (o *owned) undo() ([]Action, []Problem) {
	things := map[resource.Addr]*Action{}
	var order []resource.Addr
	var problems []Problem
	for _, a := range slices.Sorted(maps.Keys(o.mine.Atoms)) {
		if o.claimed(a) {
			continue
		}
		kind, _ := o.kinds.Lookup(a.Kind())
		addr := resource.Addr{Host: o.in.Name, Kind: a.Kind(), Name: a.Thing()}
		thing := addr
		if kind.Title != nil { // a table has routes of several blocks, and a block has a rule and routes
			thing = o.named(addr, a)
		}
		if things[thing] == nil {
			order = append(order, thing)
			things[thing] = &Action{Resource: resource.Resource{Addr: addr}, Op: Undo, Stage: kind.UndoStage()}
		}
		if why := o.undoAtom(things[thing], a); why != "" {
			problems = append(problems, Problem{Addr: o.named(addr, a), Message: why})
		}
	}
	var out []Action
	for i := len(o.kinds) - 1; i >= 0; i-- {
		for _, thing := range order {
			if thing.Kind == o.kinds[i].Name {
				out = append(out, *things[thing])
			}
		}
	}
	return out, problems
}

// named returns the address of the thing that an undo of these atoms restores, with its name in the
// files.
func (o *owned) named(addr resource.Addr, atoms ...resource.Atom) resource.Addr {
	kind, _ := o.kinds.Lookup(addr.Kind)
	declared := slices.Concat(o.wanted, o.in.Declared)
	n := slices.IndexFunc(declared, func(r resource.Resource) bool {
		return r.Addr.Kind == kind.Name && (kind.Device != nil && kind.Device(o.in.Snapshot, r.Spec) == addr.Name ||
			kind.Claims != nil && slices.ContainsFunc(atoms, func(a resource.Atom) bool { return kind.Claims(o.in.Snapshot, r.Spec, a) }))
	})
	switch {
	case n >= 0:
		addr.Name = declared[n].Addr.Name
	case kind.Title != nil && len(atoms) > 0:
		addr.Name = kind.Title(atoms[0])
	}
	return addr
}

// undoAtom adds one atom to the action of its thing.
func (o *owned) undoAtom(act *Action, a resource.Atom) (problem string) {
	kind, _ := o.kinds.Lookup(a.Kind())
	if kind.Undo == nil {
		return fmt.Sprintf("the host's ownership record names %q, which this build cannot restore: use the build that wrote it", a)
	}
	record := o.mine.Atoms[a]
	c, touches, err := kind.Undo(o.in.Snapshot, a, record.Earlier)
	if err != nil {
		return err.Error()
	}
	live := c.From
	asBefore := resource.Owned{Ours: record.Earlier}.StillOurs(live) // such as an address that a later apply replaced
	ours := record.StillOurs(live) || kind.Between != nil && kind.Between(a, record, live)
	if asBefore || !ours {
		act.Forget = append(act.Forget, a)
		switch {
		case !asBefore:
			act.Kept = append(act.Kept, resource.Change{Attribute: c.Attribute, From: record.Ours, To: live, Atom: a})
		case record.Adopted():
			act.Adopted = append(act.Adopted, resource.Change{Attribute: c.Attribute, From: live, To: live, Atom: a})
		}
		return ""
	}
	if touches != "" {
		if !o.in.Management {
			return touches + o.in.cure()
		}
		act.Touches = touches
	}
	act.Changes = append(act.Changes, c)
	return ""
}

// adopt adds a resource that is as declared before its first apply. What lies on something that we made is not adopted: it may have come
// with it, as the settings of a new bond do.
func (o *owned) adopt(out *HostPlan, kind resource.Kind, r resource.Resource, present map[resource.Atom]string) {
	maps.DeleteFunc(present, func(_ resource.Atom, value string) bool { return value == "" })
	for a := range present {
		if _, known := o.mine.Atoms[a]; known {
			return
		}
	}
	if len(present) == 0 || o.records(kind, r, func(resource.Owned) bool { return true }) {
		return
	}
	for _, below := range o.wanted {
		k, _ := o.kinds.Lookup(below.Addr.Kind)
		if slices.Contains(r.After, below.Addr) && o.records(k, below, func(is resource.Owned) bool { return is.Earlier == "" }) {
			return
		}
	}
	out.Adopts = append(out.Adopts, Adoption{Addr: r.Addr, Values: present})
}

// records says whether our record has such an atom of the resource.
func (o *owned) records(kind resource.Kind, r resource.Resource, such func(resource.Owned) bool) bool {
	for a, is := range o.mine.Atoms {
		if a.Kind() == kind.Name && such(is) && kind.Claims != nil && kind.Claims(o.in.Snapshot, r.Spec, a) {
			return true
		}
	}
	return false
}

// foreign names another fabric that owns an atom that the resource sets; "" if there is none.
func (o *owned) foreign(kind resource.Kind, r resource.Resource) string {
	if kind.Claims == nil {
		return ""
	}
	for _, other := range o.others {
		for _, a := range slices.Sorted(maps.Keys(other.Atoms)) {
			if a.Kind() == kind.Name && kind.Claims(o.in.Snapshot, r.Spec, a) {
				return fmt.Sprintf("%s is owned by fabric %q on this host: change it there, or destroy that fabric first", a, other.Fabric)
			}
		}
	}
	return ""
}

// refusal says why a change is refused: it would overwrite a value that fabricform did not set.
func (o *owned) refusal(changes []resource.Change) string {
	for _, c := range changes {
		if r, ok := o.mine.Atoms[c.Atom]; c.Refusal != "" && (!ok || !r.StillOurs(c.From)) {
			return c.Refusal
		}
	}
	return ""
}

// drift marks the changes that only restore values that we had set, and those that remove what was added to a list of
// which we set the other values.
func (o *owned) drift(changes []resource.Change) {
	for i, c := range changes {
		r, ok := o.mine.Atoms[c.Atom]
		changes[i].Drift = c.Atom != "" && (ok && r.StillOurs(c.To) || !ok && c.To == "" && o.lists(c.Atom))
	}
}

// lists reports whether we set other values of the same list: their atoms differ in the last words only.
func (o *owned) lists(a resource.Atom) bool {
	list, _, is := strings.Cut(a.Value(), " ")
	for other, r := range o.mine.Atoms {
		its, _, _ := strings.Cut(other.Value(), " ")
		if is && r.Ours != "" && other.Kind() == a.Kind() && other.Thing() == a.Thing() && its == list {
			return true
		}
	}
	return false
}

// enlisting is the roster in a host's record of the fabric.
type enlisting struct {
	host   string
	roster []resource.Member
	owns   bool // the record has atoms
	adopts bool // it gets some
}

// enlist adds a host's roster, if it has one or gets one. Equal ones are kept once: each lists all hosts.
func enlist(all []enlisting, fabric string, in HostInput, adopts bool) []enlisting {
	e := enlisting{host: in.Name, adopts: adopts}
	for _, r := range in.Records {
		if r.Fabric == fabric {
			e.roster, e.owns = r.Roster, len(r.Atoms) > 0
		}
	}
	if !e.owns && !adopts && len(e.roster) == 0 {
		return all
	}
	if n := len(all); n > 0 && slices.Equal(all[n-1].roster, e.roster) {
		e.roster = all[n-1].roster
	}
	return append(all, e)
}

// enrol compares the rosters in the records with the files.
func (p *Plan) enrol(all []enlisting) {
	here := map[string]bool{}
	for _, m := range p.Roster {
		here[m.Name] = true
	}
	for _, e := range all {
		for _, m := range e.roster {
			if !here[m.Name] {
				here[m.Name] = true
				p.Vanished = append(p.Vanished, m)
			}
		}
	}
	p.Roster = append(p.Roster, p.Vanished...)
	byName := func(a, b resource.Member) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(p.Roster, byName)
	slices.SortFunc(p.Vanished, byName)
	for _, e := range all {
		want := p.Roster
		if !e.owns {
			want = p.Vanished
		}
		if e.adopts || !slices.Equal(e.roster, want) {
			p.Enrol = append(p.Enrol, e.host)
		}
	}
}
