package resource

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
)

// Atom names one value on a host that fabricform may set and revert: the kind, the thing, and which value
// of it, separated by spaces, such as "nic ens1f0 mtu" or "nic ens1f0 address 10.0.0.1/24". It uses the
// names of the host, not those of the files, so that a renamed block still owns its changes, and a conflict
// of two fabrics over one thing is found.
type Atom string

// NewAtom joins the parts, which hold no spaces.
func NewAtom(kind string, parts ...string) Atom {
	return Atom(kind + " " + strings.Join(parts, " "))
}

// Kind is the resource kind of the atom.
func (a Atom) Kind() string { return a.part(0) }

// Thing is what the value belongs to, such as the interface.
func (a Atom) Thing() string { return a.part(1) }

// Owner names what the value belongs to, with its kind: nic.eth1.
func (a Atom) Owner() string { return a.Kind() + "." + a.Thing() }

// Value says which value of the thing the atom is.
func (a Atom) Value() string { return a.part(2) }

func (a Atom) part(i int) string {
	parts := strings.SplitN(string(a), " ", 3)
	if i >= len(parts) {
		return ""
	}
	return parts[i]
}

// Change returns a change of the atom's value.
func (a Atom) Change(from, to string) Change {
	return Change{Attribute: a.Value(), From: from, To: to, Atom: a}
}

// Owned is a host's record of one atom. An empty string means absent.
type Owned struct {
	Earlier string `json:"earlier"` // before our first change
	Ours    string `json:"ours"`    // what we set last
}

// StillOurs says whether a live value is the one that we set. It ignores the kind of white space, because
// sysctls always print lists with tabs.
func (o Owned) StillOurs(live string) bool {
	return slices.Equal(strings.Fields(live), strings.Fields(o.Ours))
}

// Adopted says whether the value was there before the first apply, and is as it was then: it stays when its block goes.
func (o Owned) Adopted() bool { return o.Earlier != "" && o.StillOurs(o.Earlier) }

// Member is one host of a fabric's roster.
type Member struct {
	Name    string `json:"name"`
	Address string `json:"address"`
}

// Valid says whether a fabric file could declare the host.
func (m Member) Valid() bool {
	return fabric.IsName(m.Name) && !strings.HasPrefix(m.Address, "-") &&
		!strings.ContainsFunc(m.Address, func(r rune) bool { return r == ' ' || !unicode.IsPrint(r) })
}

// HistoryEntry is one change of a host in its history.
type HistoryEntry struct {
	Time    time.Time `json:"time"`
	Command string    `json:"command"` // "apply", "destroy", RollbackCommand or RevertCommand
	Who     string    `json:"who"`     // user@machine of the operator
	Plan    string    `json:"plan"`    // id of the plan
	Source  string    `json:"source"`  // commit and digest of the files; "" of a revert
	Build   string    `json:"build"`
	Boot    string    `json:"boot,omitempty"` // the host's boot ID when the entry was written
	Changes int       `json:"changes"`        // on this host
	// Adopted is how many values the record adopted.
	Adopted int    `json:"adopted,omitempty"`
	Why     string `json:"why,omitempty"` // the reason of a revert
	Failed  string `json:"failed,omitempty"`
	// Kept and Overwritten are what a revert did with the changes of others.
	Kept        []Change `json:"kept,omitempty"`
	Overwritten []Change `json:"overwritten,omitempty"`
}

// Commands of entries that the host writes by itself.
const (
	RollbackCommand = "rollback" // a committed transaction was rolled back
	RevertCommand   = "revert"   // an open one was
)

// Reverts reports whether the entry undid the changes of an earlier entry of the same plan, if there
// is one.
func (e HistoryEntry) Reverts() bool {
	return e.Command == RollbackCommand || e.Command == RevertCommand
}

// OnlyAdopts reports whether the host was not changed, so that there is nothing to roll back.
func (e HistoryEntry) OnlyAdopts() bool { return e.Changes == 0 && e.Adopted > 0 }

// Applied finds the entry of a plan whose changes were made, and were not rolled back since.
func (r *Record) Applied(plan string) (last HistoryEntry, ok bool) {
	for _, e := range r.History {
		switch {
		case e.Plan != plan:
		case e.Reverts():
			ok = ok && e.Failed != ""
		case e.Changes > 0 || e.Failed == "": // otherwise an earlier build wrote it, of changes that were rolled back
			last, ok = e, true
		}
	}
	return last, ok
}

// Reverted returns the latest entry if it is a revert that found changes of others; otherwise nil.
func (r *Record) Reverted() *HistoryEntry {
	if n := len(r.History); n > 0 && r.History[n-1].Command == RevertCommand &&
		len(r.History[n-1].Kept)+len(r.History[n-1].Overwritten) > 0 {
		return &r.History[n-1]
	}
	return nil
}

// RecordVersion is the format of the record; a helper refuses versions that it does not know.
const RecordVersion = 1

// Record lists the changes of one fabric on one host, and is stored on that host. It is written before the
// change is made. A record of a change that was never made does no harm, because only values that are still
// ours are reverted.
type Record struct {
	Version int            `json:"version"`
	Fabric  string         `json:"fabric"`
	Roster  []Member       `json:"roster,omitempty"`  // the fabric's hosts, when it was last applied here
	History []HistoryEntry `json:"history,omitempty"` // the oldest first; kept in a file of its own, and added when the record is read
	Atoms   map[Atom]Owned `json:"atoms,omitempty"`
}

// Note records changes that are about to be made.
func (r *Record) Note(changes []Change) {
	if r.Atoms == nil {
		r.Atoms = map[Atom]Owned{}
	}
	for _, c := range changes {
		if c.Atom == "" {
			continue
		}
		o, known := r.Atoms[c.Atom]
		if !known {
			o.Earlier = c.From
		}
		o.Ours = c.To
		r.Atoms[c.Atom] = o
	}
}

// Adopt records values that the first apply of their blocks found as declared. What we have changed keeps its earlier value.
func (r *Record) Adopt(values map[Atom]string) {
	for a, value := range values {
		if _, known := r.Atoms[a]; !known {
			r.Note([]Change{a.Change(value, value)})
		}
	}
}

// CheckAnswer returns an error unless a plan can be made from a host's answer: the snapshot holds the parts that the kinds of
// the resources and of the record's atoms read, and the record names only atoms that this build can restore. A host may
// answer anything, so this is an error of that host alone.
func (k Kinds) CheckAnswer(snap *facts.Snapshot, want []Resource, mine Record) error {
	read := map[string]bool{}
	for _, r := range want {
		read[r.Addr.Kind] = true
	}
	for _, a := range slices.Sorted(maps.Keys(mine.Atoms)) {
		kind, _ := k.Lookup(a.Kind())
		if kind.Undo == nil || a.Thing() == "" || kind.Names != nil && !kind.Names(a) {
			return fmt.Errorf("its record of fabric %q names %.80q, which this build cannot restore: use the build that wrote it",
				mine.Fabric, a)
		}
		read[a.Kind()] = true
	}
	for _, kind := range k {
		if read[kind.Name] && kind.Whole != nil {
			if err := kind.Whole(snap); err != nil {
				return err
			}
		}
	}
	return nil
}

// Namer is an Undoer that says which atoms it has. Without it, every atom of its kind that names a thing is one.
type Namer interface {
	Names(a Atom) bool
}

// Asker is an Undoer with changes that need a permission of the operator, also when a rollback makes them.
type Asker interface {
	// Asks returns the -allow value that the change needs, and the reason; "" if it needs none.
	Asks(snap *facts.Snapshot, c Change) (allow, why string)
}

// Knower is an Undoer that may be unable to know an atom's value, such as while a directory of users does not answer. Undo does not
// treat such an atom as absent.
type Knower interface {
	// Known returns an error if the snapshot does not say whether the atom is there.
	Known(snap *facts.Snapshot, a Atom) error
}

// Stepper is an Undoer that sets some values in several steps.
type Stepper interface {
	// Between reports whether a live value is neither the earlier one nor ours, but one that our own change has left: an interrupted
	// change, or one whose value the driver completes.
	Between(a Atom, o Owned, live string) bool
}

// JointUndoer is an Undoer that removes several atoms at once, where one by one would make what is in between count: a network manager
// that reads its files after each of them acts on those that are left.
type JointUndoer interface {
	// ApplyUndos removes the atoms.
	ApplyUndos(ctx context.Context, h host.Host, snap *facts.Snapshot, atoms []Atom) error
}

// Adopter is an Undoer whose things may be on a host before their first apply, which then adopts them.
type Adopter[S, T any] interface {
	// Present returns the live values that the wanted thing sets. There is no difference from the wanted thing.
	Present(want S, got *T) map[Atom]string
}

// Undoer is an optional interface of providers whose changes can be undone.
type Undoer[S any] interface {
	// Claims says whether the wanted thing sets the atom.
	Claims(snap *facts.Snapshot, want S, a Atom) bool
	// Undo returns the change that reverts the atom to an earlier value; to is "" if the change removes the atom.
	// From is the live value, as changes write it; "" if the atom is absent. touches says how the change touches
	// the operator's own connection; "" if it does not.
	Undo(snap *facts.Snapshot, a Atom, to string) (c Change, touches string)
	// ApplyUndo sets the atom to an earlier value; "" removes it.
	ApplyUndo(ctx context.Context, h host.Host, snap *facts.Snapshot, a Atom, to string) error
}
