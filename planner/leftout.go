package planner

import (
	"slices"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/resource"
)

// LeftOut is a link or network that stays as it is at all of its ends, because hosts at other ends are missing: they are
// unreachable, or changed since the plan was saved. A change at some ends alone would break what works.
type LeftOut struct {
	Kind    Joint    `json:"kind"`
	Name    string   `json:"name"`
	Missing []string `json:"missing"` // hosts
	// Ends are the NICs of the other hosts.
	Ends []resource.Addr `json:"ends,omitempty"`
	// Half says that the other ends are changed nevertheless. The operator has allowed it.
	Half bool `json:"half,omitempty"`
	// Saved says that a saved plan leaves it out: to change it, a new plan is needed.
	Saved bool `json:"saved,omitempty"`
}

// String names the link or network.
func (l LeftOut) String() string { return string(l.Kind) + " " + l.Name }

// Shows reports whether the plan has the changes of this link or network, although they are now left out.
func (p *Plan) Shows(now LeftOut) bool {
	return !slices.ContainsFunc(p.LeftOut, func(l LeftOut) bool { return l.Kind == now.Kind && l.Name == now.Name && !l.Half })
}

// Joint is what joins NICs: a link or a network.
type Joint string

// The joints.
const (
	OfLink    Joint = "link"
	OfNetwork Joint = "network"
)

// Leave returns the links and networks of the fabric to leave out if some hosts are missing: links with a missing end, and
// networks of which the plan would change what all members must agree on. A network otherwise goes on without a missing
// member.
func Leave(f *fabric.Fabric, kinds resource.Kinds, hosts []HostInput, missing map[string]bool) (out []LeftOut) {
	if len(missing) == 0 {
		return nil
	}
	part := func(of Joint, name string, members []fabric.NICRef) LeftOut {
		l := LeftOut{Kind: of, Name: name}
		for _, m := range members {
			switch {
			case missing[m.Host]:
				l.Missing = append(l.Missing, m.Host)
			default:
				l.Ends = append(l.Ends, ends(kinds, m)...)
			}
		}
		slices.Sort(l.Missing)
		l.Missing = slices.Compact(l.Missing)
		return l
	}
	for _, l := range f.Links {
		if p := part(OfLink, l.Name, l.Endpoints); len(p.Missing) > 0 {
			out = append(out, p)
		}
	}
	var changed map[resource.Addr]bool // NICs
	for _, n := range f.Networks {
		p := part(OfNetwork, n.Name, n.Members)
		if len(p.Missing) == 0 {
			continue
		}
		if changed == nil {
			changed = changedInCommon(f.Name, kinds, hosts)
		}
		if slices.ContainsFunc(p.Ends, func(a resource.Addr) bool { return changed[a] }) {
			out = append(out, p)
		}
	}
	return out
}

// ends returns the resources of a NIC.
func ends(kinds resource.Kinds, r fabric.NICRef) (out []resource.Addr) {
	for _, k := range kinds {
		if k.NIC {
			out = append(out, resource.Addr{Host: r.Host, Kind: k.Name, Name: r.NIC})
		}
	}
	return out
}

// changedInCommon returns the NICs of which a plan would change what all members of their network must agree on.
// Restoring a drifted value does not count as such a change: the members already agree on it.
func changedInCommon(fabricName string, kinds resource.Kinds, hosts []HostInput) map[resource.Addr]bool {
	out := map[resource.Addr]bool{}
	for _, in := range hosts {
		if in = in.whole(); in.Excluded || in.Snapshot == nil {
			continue
		}
		own := ownership(fabricName, kinds, in, in.Resources)
		undone, _ := own.undo()
		for _, r := range in.Resources {
			kind, ok := kinds.Lookup(r.Addr.Kind)
			if !ok || kind.Common == nil {
				continue
			}
			d, _ := kind.Plan(in.Snapshot, r.Spec) // planHost reports the error
			own.drift(d.Changes)
			changes := slices.DeleteFunc(d.Changes, func(c resource.Change) bool { return c.Drift })
			device := kind.Device(in.Snapshot, r.Spec)
			for _, a := range undone {
				if a.Resource.Addr.Kind == kind.Name && a.Resource.Addr.Name == device {
					changes = append(changes, a.Changes...)
				}
			}
			out[r.Addr] = slices.ContainsFunc(changes, func(c resource.Change) bool { return kind.Common(in.Snapshot, r.Spec, c) })
		}
	}
	return out
}

// endsOf returns the NICs at the ends that stay as they are.
func endsOf(left []LeftOut) map[resource.Addr]bool {
	out := map[resource.Addr]bool{}
	for _, l := range left {
		for _, a := range l.Ends {
			out[a] = !l.Half || out[a]
		}
	}
	return out
}

// share is a host's share of what is left out.
type share struct {
	changed []resource.Addr // resources with changes
	nics    []string        // the NICs with changes, also of what depends on them
	undone  []resource.Atom // what is no longer declared, but is the other half of such changes
}

// hold returns the actions that undo what is no longer declared, without the halves of changes that are left out.
func (s share) hold(undo []Action) (out []Action) {
	for _, a := range undo {
		had := len(a.Changes)
		a.Changes = slices.DeleteFunc(slices.Clone(a.Changes), func(c resource.Change) bool { return slices.Contains(s.undone, c.Atom) })
		if had == 0 || len(a.Changes) > 0 {
			out = append(out, a)
		}
	}
	return out
}

// partly makes a resource that covers several NICs leave the left-out NICs as they are. It reports whether this
// leaves out any change.
func (s share) partly(snap *facts.Snapshot, kind resource.Kind, r *resource.Resource) bool {
	if kind.Without == nil || len(s.nics) == 0 {
		return false
	}
	whole, _ := kind.Plan(snap, r.Spec)
	r.Spec = kind.Without(r.Spec, s.nics)
	rest, err := kind.Plan(snap, r.Spec)
	return err == nil && !slices.Equal(whole.Changes, rest.Changes)
}

// leaveOut returns the host's share. undo are the actions that undo what is no longer declared.
func (o *owned) leaveOut(ends map[resource.Addr]bool, undo []Action) (out share) {
	nics := o.dependent(ends)
	if len(nics) == 0 {
		return share{}
	}
	for _, r := range o.wanted {
		on, left := nics[r.Addr]
		if !left {
			continue
		}
		kind, _ := o.kinds.Lookup(r.Addr.Kind)
		d, err := kind.Plan(o.in.Snapshot, r.Spec)
		if err != nil {
			continue // planHost reports it
		}
		changes := len(d.Changes)
		adds := slices.ContainsFunc(d.Changes, func(c resource.Change) bool { return c.From == "" })
		for _, a := range undo {
			if a.Resource.Addr.Kind != kind.Name {
				continue
			}
			for _, c := range a.Changes {
				half := adds // an old value whose replacement is left out
				switch {
				case kind.Device != nil: // an attribute of the NIC
					half = a.Resource.Addr.Name == kind.Device(o.in.Snapshot, r.Spec)
				case kind.DeviceOf != nil: // an old route over the same NICs
					device := kind.DeviceOf(o.in.Snapshot, c.Atom)
					half = adds && (device == "" || slices.Contains(o.devices(on), device))
				}
				if half {
					out.undone = append(out.undone, c.Atom)
					changes++
				}
			}
		}
		if changes > 0 {
			out.changed = append(out.changed, r.Addr)
			out.nics = append(out.nics, on...)
		}
	}
	slices.Sort(out.nics)
	out.nics = slices.Compact(out.nics)
	return out
}

// devices returns the devices of NICs.
func (o *owned) devices(nics []string) (out []string) {
	for _, r := range o.wanted {
		if kind, _ := o.kinds.Lookup(r.Addr.Kind); kind.Device != nil && slices.Contains(nics, r.Addr.Name) {
			out = append(out, kind.Device(o.in.Snapshot, r.Spec))
		}
	}
	return out
}

// dependent returns the resources that depend on the NICs at the ends, each with these NICs: the NICs themselves, what
// comes after one of them, and what is needed by such resources alone. Resources that cover several NICs are not among them.
func (o *owned) dependent(ends map[resource.Addr]bool) map[resource.Addr][]string {
	out := map[resource.Addr][]string{}
	whole := slices.DeleteFunc(slices.Clone(o.wanted), func(r resource.Resource) bool {
		kind, ok := o.kinds.Lookup(r.Addr.Kind)
		return !ok || kind.Without != nil
	})
	for _, r := range whole {
		if ends[r.Addr] {
			out[r.Addr] = []string{r.Addr.Name}
		}
		for _, a := range r.After {
			if on, is := out[a]; is {
				out[r.Addr] = append(out[r.Addr], on...)
			}
		}
	}
	if len(out) == 0 {
		return nil
	}
	for _, r := range slices.Backward(whole) {
		if kind, _ := o.kinds.Lookup(r.Addr.Kind); kind.NIC {
			continue
		}
		var on []string
		others := false
		for _, user := range whole {
			if slices.Contains(user.After, r.Addr) {
				on = append(on, out[user.Addr]...)
				others = others || out[user.Addr] == nil
			}
		}
		if on != nil && !others {
			out[r.Addr] = append(out[r.Addr], on...)
		}
	}
	return out
}
