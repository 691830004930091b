package persist

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/netmanager"
	"github.com/fabricform/fabricform/resource"
)

// KindManager is the kind that makes a network manager release NICs until its file is written. A manager that
// takes every NIC waits for DHCP on it, and then removes all addresses, so the runtime changes would be lost before
// they are proven. A released NIC stays up, and nothing on it changes when the manager takes it again.
const KindManager = "manager"

// Values of a NIC in changes and ownership records.
const (
	inCharge  = "in charge"
	unmanaged = "hands off"
)

// Charge lists the NICs that the claimer must release now, sorted.
type Charge struct{ NICs []string }

type handsOff struct{}

// Gather reads the same facts as the kind of the persistent files, which include those of this kind.
func (handsOff) Gather(ctx context.Context, r host.Reader, look resource.Look[Spec]) error {
	if len(look.Wants) > 0 {
		return provider{}.Gather(ctx, r, resource.Look[Spec]{Snapshot: look.Snapshot, Wants: look.Wants})
	}
	netmanager.Gather(ctx, r, look.Snapshot)
	return nil
}

// Part holds the managers and the links that they configure.
func (handsOff) Part() facts.AnyPart { return netmanager.Part }

// Observe finds the NICs that the claimer manages and that a missing file of ours will configure: a file for the
// taker, or one that keeps the claimer away from the next boot on.
func (handsOff) Observe(snap *facts.Snapshot, want Spec) (*Charge, error) {
	got := &Charge{}
	if nobody(snap) {
		return got, nil
	}
	ls, err := links(snap, want)
	if err != nil {
		return got, nil //nolint:nilerr // the kind of the persistent files reports it
	}
	for _, l := range ls {
		if l.Continues != "" && asDeclared(snap, l) {
			continue // it goes on with this profile
		}
		if l.Device != nil {
			continue // NetworkManager finds it as others made it, and has no profile of its own for it
		}
		if l.Written() && !slices.Contains(want.LeftOut, l.Name) && (l.By() == claimer || l.By().Excludes) && !there(snap, l) &&
			slices.Contains(netmanager.Part.Of(snap).InCharge, l.Link.Name) {
			got.NICs = append(got.NICs, l.Link.Name)
		}
	}
	slices.Sort(got.NICs)
	return got, nil
}

// asDeclared reports whether a link has the declared addresses, and no others but link-local ones and those that expire, and whether it is in a bond
// already if it is to be.
func asDeclared(snap *facts.Snapshot, l netmanager.Link) bool {
	if l.Master != nil && l.Link.Master == 0 {
		return false
	}
	want := slices.Clone(l.Addresses)
	for _, a := range snap.Addrs {
		if a.Index != l.Link.Index || a.Scope != 0 || a.Dynamic {
			continue
		}
		i := slices.Index(want, a.Prefix)
		if i < 0 {
			return false
		}
		want = slices.Delete(want, i, i+1)
	}
	return len(want) == 0
}

// there reports whether our file for a NIC exists.
func there(snap *facts.Snapshot, l netmanager.Link) bool {
	f, is := snap.Files[l.Manager.File(l)]
	return is && netmanager.Ours(f.Text, l.Fabric) && (l.Manager.Holds == nil || l.Manager.Holds(l, f.Text))
}

// claimer is the manager that also takes NICs without a file.
var claimer = netmanager.All[slices.IndexFunc(netmanager.All, func(m *netmanager.Manager) bool { return m.Manage != nil })]

// Without does not release the NICs.
func (handsOff) Without(want Spec, nics []string) Spec { return want.without(nics) }

func (handsOff) Diff(_ Spec, got *Charge) []resource.Change {
	var out []resource.Change
	if got == nil {
		return nil
	}
	for _, netdev := range got.NICs {
		out = append(out, resource.Change{Attribute: claimer.String() + " on " + netdev, From: inCharge, To: unmanaged,
			Atom: resource.NewAtom(KindManager, netdev, "charge")})
	}
	return out
}

// managerPatience is how long one action may wait for a network manager.
const managerPatience = 5 * time.Minute

func (handsOff) Patience() time.Duration { return managerPatience }

func (handsOff) Apply(ctx context.Context, h host.Host, _ Spec, changes []resource.Change) error {
	for _, c := range changes {
		if err := manage(ctx, h, c.Atom.Thing(), false); err != nil {
			return err
		}
	}
	return nil
}

// manage makes the claimer manage a NIC, or release it until the next boot, and waits for the effect.
func manage(ctx context.Context, h host.Host, netdev string, yes bool) error {
	if err := claimer.Manage(ctx, h, netdev, yes); err != nil {
		return err
	}
	return await(ctx, h, func(snap *facts.Snapshot) string {
		if slices.Contains(netmanager.Part.Of(snap).InCharge, netdev) != yes {
			if yes {
				return fmt.Sprintf("%s does not manage %s yet", claimer, netdev)
			}
			return fmt.Sprintf("%s still manages %s", claimer, netdev)
		}
		return ""
	})
}

// handBack makes the claimer manage NICs again that it configures by our file.
func handBack(ctx context.Context, h host.Host, snap *facts.Snapshot, want Spec) error {
	ls, err := links(snap, want)
	if err != nil {
		return err
	}
	for _, l := range ls {
		if l.Written() && there(snap, l) && l.By() == claimer && !slices.Contains(netmanager.Part.Of(snap).InCharge, l.Link.Name) {
			if err := manage(ctx, h, l.Link.Name, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// Claims reports whether the atom is one of the wanted NICs.
func (handsOff) Claims(snap *facts.Snapshot, want Spec, a resource.Atom) bool {
	return slices.ContainsFunc(want.NICs, func(n netmanager.NIC) bool {
		l, err := snap.Find(n.Select)
		return err == nil && l.Name == a.Thing()
	})
}

// live says whether the claimer manages the NIC; "" if the claimer does not run.
func (handsOff) live(snap *facts.Snapshot, a resource.Atom) string {
	m := netmanager.Part.Of(snap)
	switch {
	case !slices.Contains(m.Active, claimer.Name):
		return ""
	case slices.Contains(m.InCharge, a.Thing()):
		return inCharge
	}
	return unmanaged
}

// Undo never affects the operator's connection. Only changes of the NIC itself can do that.
func (p handsOff) Undo(snap *facts.Snapshot, a resource.Atom, to string) (resource.Change, string) {
	return a.Change(p.live(snap, a), to), ""
}

func (handsOff) ApplyUndo(ctx context.Context, h host.Host, _ *facts.Snapshot, a resource.Atom, to string) error {
	return manage(ctx, h, a.Thing(), to == inCharge)
}

// Restorer returns the restorer of the NICs' managers.
func (handsOff) Restorer() resource.Restorer {
	return chargeRestorer{resource.ValueRestorer[string]{Of: "managed NICs", Read: readCharge, Lists: chargeItems}}
}

// chargeRestorer has one value for each NIC: whether the claimer manages it; "" if the claimer does not run.
type chargeRestorer struct{ resource.ValueRestorer[string] }

func (chargeRestorer) Name() string { return KindManager }

// Save notes for each NIC whether the claimer manages it.
func (k chargeRestorer) Save(ctx context.Context, r host.Reader, atoms []resource.Atom) (json.RawMessage, error) {
	var netdevs []string
	for _, a := range atoms {
		netdevs = append(netdevs, a.Thing())
	}
	return k.Backup(ctx, r, netdevs)
}

func readCharge(ctx context.Context, r host.Reader, netdevs []string) (map[string]string, error) {
	snap, err := resource.Gather(ctx, r, handsOff{})
	if err != nil {
		return nil, err
	}
	now := map[string]string{}
	for _, netdev := range netdevs {
		now[netdev] = handsOff{}.live(snap, chargeAtom(netdev))
	}
	return now, nil
}

func chargeAtom(netdev string) resource.Atom { return resource.NewAtom(KindManager, netdev, "charge") }

func chargeItems(netdev, charge string) []resource.Item {
	if charge == "" {
		return nil
	}
	as := resource.Change{Attribute: "charge", Atom: chargeAtom(netdev)}
	return []resource.Item{{Key: netdev, State: charge, Shown: charge, Device: netdev, As: as}}
}

// Restore makes the claimer manage or release the NICs as before.
func (k chargeRestorer) Restore(ctx context.Context, h host.Host, part json.RawMessage) (left []string, err error) {
	was, err := k.Decode(part)
	if err != nil {
		return nil, err
	}
	snap, err := resource.Gather(ctx, h, handsOff{})
	if err != nil {
		return nil, err
	}
	for _, netdev := range slices.Sorted(maps.Keys(was)) {
		now := handsOff{}.live(snap, chargeAtom(netdev))
		if now == was[netdev] || now == "" || was[netdev] == "" {
			continue // a manager that does not run needs no change
		}
		if e := manage(ctx, h, netdev, was[netdev] == inCharge); e != nil {
			err = errors.Join(err, e)
			left = append(left, claimer.String()+" is not "+was[netdev]+" on "+netdev)
		}
	}
	return left, err
}
