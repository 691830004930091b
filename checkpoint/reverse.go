//go:build linux

package checkpoint

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// ManagementPath is how the operator reaches the host: what a revert must restore exactly, whatever others changed.
type ManagementPath struct {
	Devices []string   `json:"devices,omitempty"`
	Client  netip.Addr `json:"client,omitzero"`
	Unknown bool       `json:"unknown,omitempty"` // everything may be part of it
}

func (p *ManagementPath) has(i resource.Item) bool {
	return p.Unknown || slices.Contains(p.Devices, i.Device) || p.Client.IsValid() && i.To.IsValid() && i.To.Contains(p.Client)
}

// Reverse says what Restore would do now. It changes nothing.
func (b *Backup) Reverse(ctx context.Context, r host.Reader, kinds resource.Kinds) (Reversal, error) {
	_, rev, err := b.reverse(ctx, r, kinds)
	return rev, err
}

// reverse returns the backup to restore: this one, with what others changed and what stays.
func (b *Backup) reverse(ctx context.Context, r host.Reader, kinds resource.Kinds) (*Backup, Reversal, error) {
	to, rev := *b, Reversal{}
	to.Parts = nil
	for i, p := range b.Parts {
		k, ok := kinds.RestorerOf(p.Name)
		if !ok {
			return nil, rev, fmt.Errorf("this helper cannot restore the changes of %s", p.Name)
		}
		now, err := k.Again(ctx, r, p.Data)
		if err != nil {
			return nil, rev, err
		}
		m := merge{backup: b}
		var errs [4]error
		m.before, errs[0] = itemsOf(k, p.Data)
		m.now, errs[1] = itemsOf(k, now)
		if part := b.Committed.part(i, p.Name); part != nil {
			m.committed, errs[2] = itemsOf(k, part)
		}
		switch part := b.Prepared.part(i, p.Name); {
		case b.WasCommitted:
		case kinds.Persists(p.Name):
			m.untouched = b.Unwritten
		case part != nil:
			m.prepared, errs[3] = itemsOf(k, part)
		}
		if err := errors.Join(errs[:]...); err != nil {
			return nil, rev, err
		}
		data, err := m.merge(k, p.Data, now, &rev)
		if err != nil {
			return nil, rev, err
		}
		to.Parts = append(to.Parts, BackupPart{p.Name, data})
		if by, ok := k.(resource.Bystanders); ok {
			links, err := r.Links(ctx)
			if err != nil {
				return nil, rev, err
			}
			rev.Disturbed = append(rev.Disturbed, by.Disturbed(links, rev.Changes, b.Atoms)...)
		}
	}
	return &to, rev, nil
}

// part returns the data of the restorer with that name, which is the i-th; nil if there is none.
func (b *Backup) part(i int, name string) json.RawMessage {
	if b == nil || i >= len(b.Parts) || b.Parts[i].Name != name {
		return nil
	}
	return b.Parts[i].Data
}

func itemsOf(k resource.Restorer, part json.RawMessage) (map[string]*resource.Item, error) {
	list, err := k.Items(part)
	out := map[string]*resource.Item{}
	for _, i := range list {
		out[i.Key] = &i
	}
	return out, err
}

// merge compares the states of one part.
type merge struct {
	backup                 *Backup
	before, committed, now map[string]*resource.Item // committed is nil if the state at the commit is not known
	prepared               map[string]*resource.Item // when our changes were made; nil if that is not known, or after a commit
	untouched              bool                      // the transaction has changed nothing in this part yet
}

// merge returns the part to restore, and adds what it means to rev.
func (m *merge) merge(k resource.Restorer, part, now json.RawMessage, rev *Reversal) (json.RawMessage, error) {
	foreign := map[string]bool{}
	for key := range m.keys() {
		if m.foreign(key) && m.stays(key) {
			foreign[key] = true
		}
	}
	out := part
	if m.untouched { // a file that we did not write stays as it is, even in the order of its lines
		out = now
	} else if len(foreign) > 0 || m.committed != nil { // without both, the part is restored as it is
		var lost []string
		var err error
		if out, lost, err = k.Merge(part, now, foreign); err != nil {
			return nil, err
		}
		for _, key := range lost {
			delete(foreign, key)
		}
	}
	to, err := itemsOf(k, out)
	if err != nil {
		return nil, err
	}
	resource.Hide(m.before, m.prepared, m.committed, m.now, to)
	for _, key := range slices.Sorted(maps.Keys(m.keys())) {
		was, is := m.now[key], to[key]
		for _, i := range []*resource.Item{was, is} {
			if i != nil && i.Sensitive {
				rev.hidden = append(rev.hidden, i.State)
			}
		}
		own := was == nil || was.Own
		if other := cmp.Or(is, m.baseline(key)); other != nil && was == nil {
			own = other.Own
		}
		switch {
		case own:
		case foreign[key]:
			rev.Kept = append(rev.Kept, resource.Between(m.baseline(key), was))
		case !equal(was, is):
			c := resource.Between(was, is)
			if m.foreign(key) && (was != nil || m.prepared != nil) { // otherwise the kernel may have removed it because of our change
				c.Drift = true
				rev.Overwritten = append(rev.Overwritten, c)
			}
			rev.Changes = append(rev.Changes, c)
		}
	}
	return out, nil
}

func (m *merge) keys() map[string]bool {
	out := map[string]bool{}
	for _, items := range []map[string]*resource.Item{m.before, m.committed, m.now} {
		for key := range items {
			out[key] = true
		}
	}
	return out
}

func equal(a, b *resource.Item) bool {
	return a == nil && b == nil || a != nil && b != nil && a.State == b.State
}

// baseline is the state of an item when the transaction was done with it.
func (m *merge) baseline(key string) *resource.Item {
	switch {
	case m.committed != nil:
		return m.committed[key]
	case m.prepared != nil:
		return m.prepared[key]
	}
	return m.before[key]
}

// foreign reports whether somebody else changed the item: after a commit, and when our changes were made, what differs from
// the state then. Earlier, it is what differs from the backup and is not of the transaction; the kernel may also have
// changed such an item.
func (m *merge) foreign(key string) bool {
	was, now := m.before[key], m.now[key]
	switch {
	case equal(was, now):
		return false
	case m.committed != nil:
		return !equal(m.committed[key], now)
	case m.untouched:
		return true
	case m.prepared != nil:
		return !equal(m.prepared[key], now)
	case m.backup.WasCommitted || m.backup.Path == nil: // by an earlier build, which did not store what to compare with
		return false
	}
	// What the transaction took away, such as a member of a bond, is only among the atoms of before.
	return !slices.ContainsFunc([]*resource.Item{was, now}, func(i *resource.Item) bool { return i != nil && i.Named(m.backup.Atoms) })
}

// stays reports whether the change of a foreign item stays. When a lease expires, nobody can be asked. Then only two kinds
// of things stay: those that were absent before and that we did not make, unless they are on the operator's path, and files
// that we did not write.
func (m *merge) stays(key string) bool {
	now := m.now[key]
	if m.committed != nil {
		return !m.backup.Foreign
	}
	return m.untouched || m.before[key] == nil && m.prepared[key] == nil && !now.Own && !m.backup.Path.has(*now)
}
