//go:build linux

package helper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host/clock"
	"github.com/fabricform/fabricform/resource"
)

// records reads the ownership records of all fabrics on this host, sorted by fabric.
func (s *server) records(ctx context.Context) ([]resource.Record, error) {
	found, err := s.host.Records(ctx)
	if err != nil {
		return nil, err
	}
	histories, err := s.store.Histories()
	if err != nil {
		return nil, err
	}
	out := make([]resource.Record, 0, len(found))
	for _, name := range slices.Sorted(maps.Keys(found)) {
		var r resource.Record
		if err := json.Unmarshal(found[name], &r); err != nil {
			return nil, fmt.Errorf("read ownership record of fabric %q: %w; restore the file in /var/lib/fabricform from a backup, or "+
				"remove it: fabricform then no longer knows what it changed on this host", name, err)
		}
		if r.Version != resource.RecordVersion || r.Fabric != name {
			return nil, fmt.Errorf("ownership record %q has version %d of fabric %q, but this build supports version %d: use the "+
				"release that wrote it", name, r.Version, r.Fabric, resource.RecordVersion)
		}
		if all, has := histories[name]; has {
			r.History = all
		}
		delete(histories, name)
		out = append(out, r)
	}
	for _, name := range slices.Sorted(maps.Keys(histories)) { // of fabrics that own nothing here any more
		out = append(out, resource.Record{Version: resource.RecordVersion, Fabric: name, History: histories[name]})
	}
	return out, nil
}

// record returns one fabric's record. It is empty if the fabric owns nothing here yet.
func (s *server) record(ctx context.Context, fabric string) (*resource.Record, error) {
	all, err := s.records(ctx)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].Fabric == fabric {
			return &all[i], nil
		}
	}
	return &resource.Record{Version: resource.RecordVersion, Fabric: fabric}, nil
}

// save stores the record, without the history, which is beside the transactions.
func (s *server) save(r *resource.Record) error {
	if len(r.Atoms) == 0 && len(r.Roster) == 0 {
		return s.host.SaveRecord(r.Fabric, nil)
	}
	lean := *r
	lean.History = nil
	text, err := json.MarshalIndent(lean, "", " ")
	if err != nil {
		return fmt.Errorf("store ownership record: %w", err)
	}
	return s.host.SaveRecord(r.Fabric, text)
}

// note adds changes to the fabric's record before they are made.
func (s *server) note(ctx context.Context, fabric string, changes []resource.Change) error {
	if fabric == "" {
		return errors.New("act: the request names no fabric")
	}
	r, err := s.record(ctx, fabric)
	if err != nil {
		return err
	}
	r.Note(changes)
	return s.save(r)
}

// forget removes changes from the fabric's record that were not made by this host after all.
func (s *server) forget(ctx context.Context, fabric string, changes []resource.Change) error {
	r, err := s.record(ctx, fabric)
	if err != nil {
		return err
	}
	for _, c := range changes {
		delete(r.Atoms, c.Atom)
	}
	return s.save(r)
}

// undo restores the values that a fabric changed.
func (s *server) undo(ctx context.Context, p calls.UndoParams) (calls.ActResult, error) {
	return runInTurn(ctx, &s.acting, s.kinds.PatienceFor(p.Changes),
		func(ctx context.Context) (calls.ActResult, error) { return s.undoNow(ctx, p) })
}

// undoNow restores atoms one after another, or those that the kind removes together, and removes each from the record once it is restored.
func (s *server) undoNow(ctx context.Context, p calls.UndoParams) (calls.ActResult, error) {
	r, err := s.record(ctx, p.Fabric)
	if err != nil {
		return calls.ActResult{}, err
	}
	for i, c := range p.Changes {
		if err := s.store.Live(p.Tx.ID, p.Tx.Token); err != nil {
			return calls.ActResult{}, errors.Join(err, s.save(r))
		}
		if err := s.giveBack(ctx, c, p.Changes[i+1:], r, p.Management); err != nil {
			return calls.ActResult{}, errors.Join(err, s.save(r))
		}
		delete(r.Atoms, c.Atom)
	}
	for _, a := range p.Forget {
		delete(r.Atoms, a)
	}
	return calls.ActResult{Changes: p.Changes}, s.save(r)
}

// giveBack restores one atom, and with it those of the later changes that its kind removes together.
func (s *server) giveBack(ctx context.Context, c resource.Change, later []resource.Change, r *resource.Record, management bool) error {
	kind, ok := s.kinds.Lookup(c.Atom.Kind())
	if !ok || kind.Undo == nil {
		return fmt.Errorf("this helper cannot restore %q", c.Atom)
	}
	todo := []resource.Change{c}
	for _, l := range later {
		if kind.ApplyUndos != nil && l.Atom.Kind() == kind.Name && c.To == "" && l.To == "" {
			todo = append(todo, l)
		}
	}
	var atoms []resource.Atom
	for _, c := range todo {
		atoms = append(atoms, c.Atom)
	}
	snap, err := resource.Kinds{kind}.Gather(ctx, s.host, resource.Query{Connection: s.connection, Atoms: atoms})
	if err != nil {
		return err
	}
	var left []resource.Atom
	for _, c := range todo {
		is, err := mayUndo(kind, snap, c, r.Atoms[c.Atom], management)
		if err != nil {
			return err
		}
		if is {
			left = append(left, c.Atom)
		}
	}
	switch {
	case len(left) == 0:
		return nil
	case kind.ApplyUndos != nil && c.To == "":
		return kind.ApplyUndos(ctx, s.host, snap, left)
	}
	return kind.ApplyUndo(ctx, s.host, snap, c.Atom, c.To)
}

// mayUndo compares the atom with the plan; is is false if it is restored already.
func mayUndo(kind resource.Kind, snap *facts.Snapshot, c resource.Change, owned resource.Owned, management bool) (is bool, err error) {
	now, touches, err := kind.Undo(snap, c.Atom, c.To)
	if err != nil {
		return false, err
	}
	switch live := now.From; {
	case live == c.To:
		return false, nil // restored together with something else, such as the routes of a bounced link, or the trust of a NIC with its last DSCP
	case live != c.From && live != "" && (kind.Between == nil || !kind.Between(c.Atom, owned, live)):
		return false, &agent.Error{Stale: true, Message: fmt.Sprintf("%s changed since the plan was made (from %[3]s to %[2]s); plan again",
			c.Atom, live, c.From)}
	}
	if touches != "" && !management {
		return false, errors.New(touches)
	}
	return true, nil
}

// enrol stores the adopted values, the roster and the history entry, if the fabric owns something here.
func (s *server) enrol(ctx context.Context, p calls.EnrolParams) (struct{}, error) {
	return runInTurn(ctx, &s.acting, resource.Patience, func(ctx context.Context) (struct{}, error) { return s.enrolNow(ctx, p) })
}

func (s *server) enrolNow(ctx context.Context, p calls.EnrolParams) (struct{}, error) {
	r, err := s.record(ctx, p.Fabric)
	if err != nil {
		return struct{}{}, err
	}
	if err := s.store.AdoptHistory(p.Fabric, r.History); err != nil {
		return struct{}{}, err
	}
	r.Adopt(p.Adopt)
	if r.Roster = p.Roster; len(r.Atoms) == 0 {
		r.Roster = p.Vanished
	}
	if p.Applied != nil {
		if err := s.store.KeepApplied(p.Applied); err != nil {
			return struct{}{}, err
		}
	}
	if err := s.save(r); err != nil || p.Entry == nil {
		return struct{}{}, err
	}
	if p.Entry.Boot, err = clock.BootID(); err != nil {
		return struct{}{}, err
	}
	return struct{}{}, s.store.Enter(p.Fabric, *p.Entry)
}
