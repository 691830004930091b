package persist

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/netmanager"
	"github.com/fabricform/fabricform/resource"
)

// KindManager is a network manager that is asked to keep off NICs until its file is written.
// One that takes every NIC waits for DHCP on it, and then takes all addresses away: what the runtime stage
// makes would not stay until it is proven. A NIC that it is told not to manage stays up, and nothing on it changes when it may again.
const KindManager = "manager"

// The values of a NIC, as changes write them.
const (
	inCharge = "in charge"
	keepsOff = "hands off"
)

// Charge is the NICs that the taker must keep off now, sorted.
type Charge struct{ NICs []string }

type handsOff struct{}

// Gather reads the same as what is kept, of which its own part is a share.
func (handsOff) Gather(ctx context.Context, r host.Reader, look resource.Look[Spec]) error {
	if len(look.Wants) > 0 {
		return provider{}.Gather(ctx, r, resource.Look[Spec]{Snapshot: look.Snapshot, Wants: look.Wants})
	}
	netmanager.Gather(ctx, r, look.Snapshot)
	return nil
}

// Part is who configures links.
func (handsOff) Part() facts.AnyPart { return netmanager.Part }

// Observe finds the NICs that it is in charge of, and that a file of ours configures which is not there yet:
// its own, or one that keeps it off from the next boot on.
func (handsOff) Observe(snap *facts.Snapshot, want Spec) (*Charge, error) {
	got := &Charge{}
	if nobody(snap) {
		return got, nil
	}
	ls, err := links(snap, want)
	if err != nil {
		return got, nil //nolint:nilerr // what is kept tells of it
	}
	for _, l := range ls {
		if l.Written() && (l.By() == taker || l.By().Fences) && !there(snap, l) && slices.Contains(netmanager.Part.Of(snap).InCharge, l.Link.Name) {
			got.NICs = append(got.NICs, l.Link.Name)
		}
	}
	slices.Sort(got.NICs)
	return got, nil
}

// there says whether our file for a NIC is.
func there(snap *facts.Snapshot, l netmanager.Link) bool {
	f, is := snap.Files[l.Manager.File(l)]
	return is && netmanager.Ours(f.Text, l.Fabric) && (l.Manager.Holds == nil || l.Manager.Holds(l, f.Text))
}

// taker is the manager that takes NICs that no file names.
var taker = netmanager.All[slices.IndexFunc(netmanager.All, func(m *netmanager.Manager) bool { return m.Manage != nil })]

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

func (handsOff) Apply(ctx context.Context, h host.Host, _ Spec, changes []resource.Change) error {
	for _, c := range changes {
		if err := manage(ctx, h, c.Atom.Thing(), false); err != nil {
			return err
		}
	}
	return nil
}

// manage makes the taker look after a NIC, or keep off it until the next boot, and waits until it does.
func manage(ctx context.Context, h host.Host, netdev string, yes bool) error {
	if err := taker.Manage(ctx, h, netdev, yes); err != nil {
		return err
	}
	return await(ctx, h, func(snap *facts.Snapshot) string {
		if slices.Contains(netmanager.Part.Of(snap).InCharge, netdev) != yes {
			return fmt.Sprintf("%s does not say yet whether it manages %s: %t", taker, netdev, yes)
		}
		return ""
	})
}

// handBack puts the taker in charge again of NICs that it configures by our file.
func handBack(ctx context.Context, h host.Host, snap *facts.Snapshot, want Spec) error {
	ls, err := links(snap, want)
	if err != nil {
		return err
	}
	for _, l := range ls {
		if l.Written() && l.By() == taker && !slices.Contains(netmanager.Part.Of(snap).InCharge, l.Link.Name) {
			if err := manage(ctx, h, l.Link.Name, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// Claims is for the wanted NICs.
func (handsOff) Claims(snap *facts.Snapshot, want Spec, a resource.Atom) bool {
	return slices.ContainsFunc(want.NICs, func(n netmanager.NIC) bool {
		l, err := snap.Find(n.Select)
		return err == nil && l.Name == a.Thing()
	})
}

// live is who is in charge; nobody is where the taker does not run.
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

// Undo is guarded elsewhere: a NIC that carries the operator's connection is guarded by what would change on it.
func (p handsOff) Undo(snap *facts.Snapshot, a resource.Atom, to string) (resource.Change, string) {
	return a.Change(p.live(snap, a), to), ""
}

func (handsOff) Revert(ctx context.Context, h host.Host, _ *facts.Snapshot, a resource.Atom, to string) error {
	return manage(ctx, h, a.Thing(), to == inCharge)
}

// Keeper is the way back of who is in charge.
func (handsOff) Keeper() resource.Keeper { return chargeKeeper{} }

type chargeKeeper struct{}

func (chargeKeeper) Room() string { return KindManager }

// Snapshot notes who is in charge, by NIC.
func (chargeKeeper) Snapshot(_ context.Context, r host.Reader, atoms []resource.Atom) (json.RawMessage, error) {
	snap, err := resource.Gather(context.Background(), r, handsOff{})
	if err != nil {
		return nil, err
	}
	was := map[string]string{}
	for _, a := range atoms {
		was[a.Thing()] = handsOff{}.live(snap, a)
	}
	return json.Marshal(was)
}

// Restore puts who was in charge back into it.
func (chargeKeeper) Restore(ctx context.Context, h host.Host, part json.RawMessage) (left []string, err error) {
	var was map[string]string
	if err := json.Unmarshal(part, &was); err != nil {
		return nil, fmt.Errorf("decode snapshot of who is in charge: %w", err)
	}
	snap, err := resource.Gather(ctx, h, handsOff{})
	if err != nil {
		return nil, err
	}
	for _, netdev := range slices.Sorted(maps.Keys(was)) {
		now := handsOff{}.live(snap, resource.NewAtom(KindManager, netdev, "charge"))
		if now == was[netdev] || now == "" || was[netdev] == "" {
			continue // one that does not run any more takes care of itself when it starts
		}
		if e := manage(ctx, h, netdev, was[netdev] == inCharge); e != nil {
			err = errors.Join(err, e)
			left = append(left, taker.String()+" is not "+was[netdev]+" on "+netdev)
		}
	}
	return left, err
}
