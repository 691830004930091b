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
	inCharge = "in charge"
	keepsOff = "hands off"
)

// Charge lists the NICs that the taker must release now, sorted.
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

// Observe finds the NICs that the taker manages and that a missing file of ours will configure: a file for the
// taker, or one that keeps the taker away from the next boot on.
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
		if l.Written() && !slices.Contains(want.LeftOut, l.Name) && (l.By() == taker || l.By().Fences) && !there(snap, l) && slices.Contains(netmanager.Part.Of(snap).InCharge, l.Link.Name) {
			got.NICs = append(got.NICs, l.Link.Name)
		}
	}
	slices.Sort(got.NICs)
	return got, nil
}

// there reports whether our file for a NIC exists.
func there(snap *facts.Snapshot, l netmanager.Link) bool {
	f, is := snap.Files[l.Manager.File(l)]
	return is && netmanager.Ours(f.Text, l.Fabric) && (l.Manager.Holds == nil || l.Manager.Holds(l, f.Text))
}

// taker is the manager that also takes NICs without a file.
var taker = netmanager.All[slices.IndexFunc(netmanager.All, func(m *netmanager.Manager) bool { return m.Manage != nil })]

// Without does not release the NICs.
func (handsOff) Without(want Spec, nics []string) Spec { return want.without(nics) }

func (handsOff) Diff(_ Spec, got *Charge) []resource.Change {
	var out []resource.Change
	if got == nil {
		return nil
	}
	for _, netdev := range got.NICs {
		out = append(out, resource.Change{Attribute: taker.String() + " on " + netdev, From: inCharge, To: keepsOff, Atom: resource.NewAtom(KindManager, netdev, "charge")})
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

// manage makes the taker manage a NIC, or release it until the next boot, and waits for the effect.
func manage(ctx context.Context, h host.Host, netdev string, yes bool) error {
	if err := taker.Manage(ctx, h, netdev, yes); err != nil {
		return err
	}
	return await(ctx, h, func(snap *facts.Snapshot) string {
		if slices.Contains(netmanager.Part.Of(snap).InCharge, netdev) != yes {
			if yes {
				return fmt.Sprintf("%s does not manage %s yet", taker, netdev)
			}
			return fmt.Sprintf("%s still manages %s", taker, netdev)
		}
		return ""
	})
}

// handBack makes the taker manage NICs again that it configures by our file.
func handBack(ctx context.Context, h host.Host, snap *facts.Snapshot, want Spec) error {
	ls, err := links(snap, want)
	if err != nil {
		return err
	}
	for _, l := range ls {
		if l.Written() && there(snap, l) && l.By() == taker && !slices.Contains(netmanager.Part.Of(snap).InCharge, l.Link.Name) {
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

// live says whether the taker manages the NIC; "" if the taker does not run.
func (handsOff) live(snap *facts.Snapshot, a resource.Atom) string {
	m := netmanager.Part.Of(snap)
	switch {
	case !slices.Contains(m.Active, taker.Name):
		return ""
	case slices.Contains(m.InCharge, a.Thing()):
		return inCharge
	}
	return keepsOff
}

// Undo never affects the operator's connection. Only changes of the NIC itself can do that.
func (p handsOff) Undo(snap *facts.Snapshot, a resource.Atom, to string) (resource.Change, string) {
	return a.Change(p.live(snap, a), to), ""
}

func (handsOff) Revert(ctx context.Context, h host.Host, _ *facts.Snapshot, a resource.Atom, to string) error {
	return manage(ctx, h, a.Thing(), to == inCharge)
}

// Keeper returns the keeper of the NICs' managers.
func (handsOff) Keeper() resource.Keeper { return chargeKeeper{} }

type chargeKeeper struct{}

func (chargeKeeper) Room() string { return KindManager }

// Save notes for each NIC whether the taker manages it.
func (chargeKeeper) Save(ctx context.Context, r host.Reader, atoms []resource.Atom) (json.RawMessage, error) {
	var netdevs []string
	for _, a := range atoms {
		netdevs = append(netdevs, a.Thing())
	}
	return readCharge(ctx, r, netdevs)
}

func readCharge(ctx context.Context, r host.Reader, netdevs []string) (json.RawMessage, error) {
	snap, err := resource.Gather(ctx, r, handsOff{})
	if err != nil {
		return nil, err
	}
	now := map[string]string{}
	for _, netdev := range netdevs {
		now[netdev] = handsOff{}.live(snap, chargeAtom(netdev))
	}
	return json.Marshal(now)
}

func chargeAtom(netdev string) resource.Atom { return resource.NewAtom(KindManager, netdev, "charge") }

func decodeCharge(part json.RawMessage) (was map[string]string, err error) {
	if err := json.Unmarshal(part, &was); err != nil {
		return nil, fmt.Errorf("decode the backup of managed NICs: %w", err)
	}
	return was, nil
}

// Again reads the same NICs.
func (chargeKeeper) Again(ctx context.Context, r host.Reader, part json.RawMessage) (json.RawMessage, error) {
	was, err := decodeCharge(part)
	if err != nil {
		return nil, err
	}
	return readCharge(ctx, r, slices.Collect(maps.Keys(was)))
}

// Items has an item for each NIC, unless the taker does not run.
func (chargeKeeper) Items(part json.RawMessage) ([]resource.Item, error) {
	was, err := decodeCharge(part)
	var out []resource.Item
	for _, netdev := range slices.Sorted(maps.Keys(was)) {
		if s := was[netdev]; s != "" {
			out = append(out, resource.Item{Key: netdev, State: s, Shown: s, Device: netdev, As: resource.Change{Attribute: "charge", Atom: chargeAtom(netdev)}})
		}
	}
	return out, err
}

// Take copies the NICs that the keys name.
func (chargeKeeper) Take(part, now json.RawMessage, keys map[string]bool) (json.RawMessage, []string, error) {
	was, err := decodeCharge(part)
	if err != nil {
		return nil, nil, err
	}
	live, err := decodeCharge(now)
	if err != nil {
		return nil, nil, err
	}
	for netdev := range was {
		if keys[netdev] {
			was[netdev] = live[netdev]
		}
	}
	out, err := json.Marshal(was)
	return out, nil, err
}

// Restore makes the taker manage or release the NICs as before.
func (chargeKeeper) Restore(ctx context.Context, h host.Host, part json.RawMessage) (left []string, err error) {
	was, err := decodeCharge(part)
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
			left = append(left, taker.String()+" is not "+was[netdev]+" on "+netdev)
		}
	}
	return left, err
}
