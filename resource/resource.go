// Package resource is the vocabulary of changes, for all packages that plan, make, record, back up or revert them: resources and
// their specs, changes, ownership records, histories, items of backups, the journal of an installation, and the interfaces
// that kinds implement. Kinds is the table of kinds, whose types Erase hides.
package resource

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"time"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
)

// Addr names a resource in the fabric.
type Addr struct {
	Host string `json:"host"`
	Kind string `json:"kind"`
	Name string `json:"name"`
}

// String is host.kind.name, as messages and plans write it.
func (a Addr) String() string { return a.Host + "." + a.Kind + "." + a.Name }

// Resource is one wanted thing on one host. Spec is the kind's own Spec, as JSON.
type Resource struct {
	Addr  Addr            `json:"addr"`
	Spec  json.RawMessage `json:"spec"`
	After []Addr          `json:"after,omitempty"` // same host
	Pos   fabric.Pos      `json:"pos,omitzero"`
	// Payload is used on the operator's machine only; nil if no file is sent.
	Payload *Payload `json:"-"`
}

// Payload is a local file that is sent to a host before the change that installs it.
type Payload struct {
	Path   string
	SHA256 string // the digest that the file must have; "" allows any
	Relay  string // the host that gets the file first and forwards it; "" sends it from this machine
	// Attribute is the attribute of the changes that install the file.
	Attribute string
	Origin    string // where to download the file, for messages about a missing one
}

// NeededBy says whether one of the changes installs the payload.
func (p *Payload) NeededBy(changes []Change) bool {
	return p != nil && slices.ContainsFunc(changes, func(c Change) bool { return c.Attribute == p.Attribute })
}

// New returns a wanted thing on a host. It panics if the spec cannot be encoded, which none of our types
// can cause.
func New(host, kind, name string, pos fabric.Pos, spec any, after ...Addr) Resource {
	addr := Addr{Host: host, Kind: kind, Name: name}
	return Resource{Addr: addr, Spec: encode(spec), After: after, Pos: pos}
}

func encode(spec any) json.RawMessage {
	raw, err := json.Marshal(spec)
	if err != nil {
		panic(fmt.Sprintf("encode spec: %v", err))
	}
	return raw
}

// Disruption says how a change disturbs traffic. Higher is worse.
type Disruption int

// The disruptions, as plans print them.
const (
	Live Disruption = iota
	LinkFlap
	DriverReload
	Reboot
)

var disruptions = []string{"live", "link flap", "driver reload", "reboot"}

// String names the disruption as plans print it.
func (d Disruption) String() string {
	if d < Live || int(d) >= len(disruptions) {
		return fmt.Sprintf("unknown disruption %d", int(d))
	}
	return disruptions[d]
}

// MarshalText writes the disruption as String does.
func (d Disruption) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalJSON reads the text, or the number that earlier builds wrote into files on hosts. Anything else is an
// error: a number below Live would pass for a harmless change.
func (d *Disruption) UnmarshalJSON(raw []byte) error {
	var number int
	if json.Unmarshal(raw, &number) != nil {
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return err
		}
		number = slices.Index(disruptions, text)
	}
	if number < 0 || number >= len(disruptions) {
		return fmt.Errorf("unknown disruption %s", raw)
	}
	*d = Disruption(number)
	return nil
}

// The stages of a change. A transaction makes the runtime changes first, and the persistent ones after the
// outcome was proven, so that a reset before then boots the old state.
const (
	StageRuntime = ""
	StagePersist = "persist"
	// StageKeys comes before both, in a transaction of its own, because other changes are derived from what it makes. Changes
	// of its kinds are undone in the persist stage, after the changes that were derived from them.
	StageKeys = "keys"
	// StageStack comes before all, in a transaction of its own, because a snapshot of the network cannot undo
	// the work of a package manager. An interrupted stage is reported, and the next apply completes it.
	StageStack = "stack"
)

// ErrMadeElsewhere is the error of an Apply whose changes another host has made meanwhile, in a home that the hosts share. Nothing is
// left to do, and what was made does not belong to this host.
var ErrMadeElsewhere = errors.New("another host has made it meanwhile")

// Rank orders the stages.
func Rank(stage string) int {
	return slices.Index([]string{StageStack, StageKeys, StageRuntime, StagePersist}, stage)
}

// UndoStage returns the stage in which a change of the kind is undone.
func (k Kind) UndoStage() string {
	if k.Stage == StageKeys {
		return StagePersist
	}
	return k.Stage
}

// MissingDriver says that a resource cannot be planned yet, because it needs a driver. If the same plan
// installs a driver stack, the resource is planned again after that.
type MissingDriver struct{ Why string }

func (e *MissingDriver) Error() string { return e.Why }

// Change is the difference of one attribute. An empty From means that the attribute is absent now, an empty
// To that the change removes it.
type Change struct {
	Attribute  string     `json:"attribute"`
	From       string     `json:"from,omitempty"`
	To         string     `json:"to,omitempty"`
	Stage      string     `json:"stage,omitempty"` // StageStack, StageKeys, StageRuntime or StagePersist
	Disruption Disruption `json:"disruption,omitempty"`
	Atom       Atom       `json:"atom,omitempty"`  // the fabric owns it once the change is made
	Drift      bool       `json:"drift,omitempty"` // we had set the value, and something else has changed it since
	// Address is the address of the host that the change adds or removes.
	Address netip.Addr `json:"address,omitzero"`
	// Downs is the device that the change takes down. Connections through it end.
	Downs string `json:"downs,omitempty"`
	// Refusal is the reason to refuse the change if we did not set From; "" allows to overwrite any value.
	Refusal string `json:"takes,omitempty"`
	// Salted is true if To is a digest with a salt that is new each time the files are loaded.
	Salted bool `json:"salted,omitempty"`
}

// Unsalted returns the change without such a digest: it differs in every plan, although nothing has changed.
func (c Change) Unsalted() Change {
	if _, rest, is := facts.CutDigest(c.To); is && c.Salted {
		c.To = fabric.Sensitive + "," + rest
	}
	return c
}

// String writes the change on one line.
func (c Change) String() string {
	switch {
	case c.From == "":
		return fmt.Sprintf("%s %s is missing", c.Attribute, c.To)
	case c.To == "":
		return fmt.Sprintf("unexpected %s %s", c.Attribute, c.From)
	}
	return fmt.Sprintf("%s is %s, wanted %s", c.Attribute, c.From, c.To)
}

// Removes says whether the change removes something or takes a device down, which ends connections over it.
func (c Change) Removes() bool { return c.To == "" || c.Downs != "" }

// Difference compares one wanted thing with its host.
type Difference struct {
	Exists  bool
	Changes []Change
	Touches string // how the changes touch the operator's own connection; "" if they do not
	Seen    string // digest of the facts that the changes were computed from
	Notes   []string
	Present map[Atom]string // that of Adopter; nil if there is a change
}

// Staged is a kind whose changes belong to another stage than StageRuntime.
type Staged interface {
	Stage() string
}

// Noter is a kind with remarks on a wanted thing, such as a part of it that the kind cannot do.
type Noter[T any] interface {
	Notes(got *T) []string
}

// Absent is a status that can say that the resource does not exist on the host.
type Absent interface {
	Absent() bool
}

// Checker is a kind that can ask the host's own programs whether they accept the wanted configuration. It
// writes only to a staged copy.
type Checker[S any] interface {
	Check(ctx context.Context, h host.Host, want S) error
}

// Provider implements one kind of resource. S is its Spec (wanted), T its Status (found). Observe and Diff
// are pure; Apply makes exactly the given changes.
type Provider[S, T any] interface {
	// Observe reads the status of the wanted thing from a snapshot; nil if it is absent. An error means that
	// the thing cannot be identified (no NIC matches, or two do).
	Observe(snap *facts.Snapshot, want S) (*T, error)
	// Diff returns no change if got is as wanted. got may be nil.
	Diff(want S, got *T) []Change
	Apply(ctx context.Context, h host.Host, want S, changes []Change) error
}

// Patience is how long one action of a kind may take, unless the kind is Slow: it makes netlink requests, which take
// milliseconds, and writes files; a NIC takes some seconds to start, and to detect duplicate addresses.
const Patience = 30 * time.Second

// Titled names what an atom belongs to as the files do, if atoms name it in another way.
type Titled interface{ Title(a Atom) string }

// Slow is a kind whose actions wait for programs of the host, such as a network manager. After its Patience, an action
// counts as stuck. Patience does not apply to the stack stage: installations are watched for progress.
type Slow interface {
	Patience() time.Duration
}

// Fencer is a kind that can change the path of the operator's own connection. Touches says how the changes
// touch that path; "" if they do not.
type Fencer[S, T any] interface {
	Touches(snap *facts.Snapshot, want S, changes []Change) string
}

// Wired is a kind whose resources are the declared NICs of the same names. A change may interrupt the
// traffic of their links.
type Wired[S, T any] interface {
	// Device names the found NIC's device, as atoms do.
	Device(got *T) string
	// Common says whether a change of the NIC alters what all members of its network must agree on.
	Common(want S, got *T, c Change) bool
	// Undone returns the wanted thing for a plan that first makes these changes of the device, which undo what is no
	// longer declared.
	Undone(want S, changes []Change) S
}

// Partial is a kind whose resources cover several NICs of a host.
type Partial[S any] interface {
	// Without returns the wanted thing with its share of the named NICs left as it is on the host.
	Without(want S, nics []string) S
}

// Booter is a kind whose things set the values of other kinds when the host boots, such as files of network managers.
type Booter interface{ Boots() }

// Placed is a kind whose things lead over devices, such as routes.
type Placed interface {
	// DeviceOf names the device over which a thing on the host leads; "" if this is not known.
	DeviceOf(snap *facts.Snapshot, a Atom) string
}

// SpecError says that a spec is not one of this build's.
type SpecError struct {
	Kind string
	Err  error
}

func (e *SpecError) Error() string { return fmt.Sprintf("decode spec of %s: %v", e.Kind, e.Err) }

func (e *SpecError) Unwrap() error { return e.Err }

// Kind is a provider with its types erased.
type Kind struct {
	Name  string
	Stage string // of all its changes
	NIC   bool   // it is Wired
	Local bool   // it is Local
	Boots bool   // it is a Booter
	// Device, Common and Undone are those of Wired: "" and false if the NIC is not found.
	Device func(snap *facts.Snapshot, spec json.RawMessage) string
	Common func(snap *facts.Snapshot, spec json.RawMessage, c Change) bool
	Undone func(spec json.RawMessage, changes []Change) json.RawMessage
	// DeviceOf is that of Placed; nil if things of the kind lead over no device.
	DeviceOf func(snap *facts.Snapshot, a Atom) string
	// Without is that of Partial; nil if a resource of the kind is made as a whole.
	Without func(spec json.RawMessage, nics []string) json.RawMessage
	// Gather is nil if the common facts of a snapshot are enough for the kind.
	Gather func(ctx context.Context, r host.Reader, snap *facts.Snapshot, specs []json.RawMessage, atoms []Atom, patient bool) error
	Plan   func(snap *facts.Snapshot, spec json.RawMessage) (Difference, error)
	Apply  func(ctx context.Context, h host.Host, spec json.RawMessage, changes []Change) error
	Check  func(ctx context.Context, h host.Host, spec json.RawMessage) error // nil if there is no program to ask

	// Claims, Undo and ApplyUndo are nil if changes of the kind cannot be undone.
	Claims    func(snap *facts.Snapshot, spec json.RawMessage, a Atom) bool
	Undo      func(snap *facts.Snapshot, a Atom, to string) (c Change, touches string, err error)
	ApplyUndo func(ctx context.Context, h host.Host, snap *facts.Snapshot, a Atom, to string) error

	// ApplyUndos is that of JointUndoer; nil if atoms are undone one by one.
	ApplyUndos func(ctx context.Context, h host.Host, snap *facts.Snapshot, atoms []Atom) error

	Between func(a Atom, o Owned, live string) bool // that of Stepper; nil if each change is one step

	Asks func(snap *facts.Snapshot, c Change) (allow, why string) // that of Asker; nil if no change needs a permission

	Names func(a Atom) bool // that of Namer; nil if every atom of the kind is one
	// Whole returns an error unless the snapshot holds the kind's part; nil if the kind has none.
	Whole func(snap *facts.Snapshot) error

	Title func(Atom) string // nil if things have the names of the files

	Import func(ctx context.Context, r host.Reader, d *Draft) error // that of Importer; nil if the kind finds nothing by itself

	Restorer Restorer // nil if changes of the kind cannot be restored exactly

	Slow time.Duration // how long one action may take; 0 means Patience
}

// Patience returns how long one action of the kind may take.
func (k Kind) Patience() time.Duration { return cmp.Or(k.Slow, Patience) }

// Erase hides the types of a provider. No other function does.
func Erase[S, T any](name string, p Provider[S, T]) Kind {
	decode := func(raw json.RawMessage) (S, error) {
		var s S
		if err := json.Unmarshal(raw, &s); err != nil {
			return s, &SpecError{name, err}
		}
		return s, nil
	}
	check := func(snap *facts.Snapshot) error {
		if g, ok := p.(Parted); ok {
			return g.Part().Check(snap)
		}
		return nil
	}
	k := Kind{
		Name: name,
		Plan: func(snap *facts.Snapshot, raw json.RawMessage) (Difference, error) {
			s, err := decode(raw)
			if err != nil {
				return Difference{}, err
			}
			if err := check(snap); err != nil {
				return Difference{}, err
			}
			got, err := p.Observe(snap, s)
			if err != nil {
				return Difference{}, err
			}
			d := Difference{Exists: got != nil, Changes: p.Diff(s, got), Seen: digest(p, got)}
			if a, ok := any(got).(Absent); ok && got != nil {
				d.Exists = !a.Absent()
			}
			if n, ok := p.(Noter[T]); ok && got != nil {
				d.Notes = n.Notes(got)
			}
			if a, ok := p.(Adopter[S, T]); ok && got != nil && len(d.Changes) == 0 {
				d.Present = a.Present(s, got)
			}
			if f, ok := p.(Fencer[S, T]); ok && len(d.Changes) > 0 {
				d.Touches = snap.Fenced(func(snap *facts.Snapshot) string { return f.Touches(snap, s, d.Changes) })
			}
			return d, nil
		},
		Apply: func(ctx context.Context, h host.Host, raw json.RawMessage, changes []Change) error {
			s, err := decode(raw)
			if err != nil {
				return err
			}
			return p.Apply(ctx, h, s, changes)
		},
	}
	_, k.Local = p.(Local)
	_, k.Boots = p.(Booter)
	if g, ok := p.(Parted); ok {
		k.Whole = g.Part().Check
	}
	if a, ok := p.(Asker); ok {
		k.Asks = a.Asks
	}
	if n, ok := p.(Namer); ok {
		k.Names = n.Names
	}
	if i, ok := p.(Importer); ok {
		k.Import = i.Import
	}
	if g, ok := p.(Gatherer[S]); ok {
		k.Gather = func(ctx context.Context, r host.Reader, snap *facts.Snapshot, specs []json.RawMessage,
			atoms []Atom, patient bool) error {
			look := Look[S]{Snapshot: snap, Atoms: atoms, Patient: patient}
			for _, raw := range specs {
				s, err := decode(raw)
				if err != nil {
					return err
				}
				look.Wants = append(look.Wants, s)
			}
			return g.Gather(ctx, r, look)
		}
	}
	if o, ok := p.(Undoer[S]); ok {
		k.Claims = func(snap *facts.Snapshot, raw json.RawMessage, a Atom) bool {
			s, err := decode(raw)
			return err == nil && o.Claims(snap, s, a)
		}
		k.Undo = func(snap *facts.Snapshot, a Atom, to string) (c Change, touches string, err error) {
			if err := check(snap); err != nil {
				return Change{}, "", err
			}
			if n, ok := p.(Knower); ok {
				if err := n.Known(snap, a); err != nil {
					return Change{}, "", err
				}
			}
			c, _ = o.Undo(snap, a, to)
			touches = snap.Fenced(func(snap *facts.Snapshot) string { _, why := o.Undo(snap, a, to); return why })
			c.Stage = k.UndoStage()
			return c, touches, nil
		}
		k.ApplyUndo = o.ApplyUndo
	}
	if j, ok := p.(JointUndoer); ok {
		k.ApplyUndos = j.ApplyUndos
	}
	if s, ok := p.(Stepper); ok {
		k.Between = s.Between
	}
	if c, ok := p.(Checker[S]); ok {
		k.Check = func(ctx context.Context, h host.Host, raw json.RawMessage) error {
			s, err := decode(raw)
			if err != nil {
				return err
			}
			return c.Check(ctx, h, s)
		}
	}
	if t, ok := p.(Titled); ok {
		k.Title = t.Title
	}
	if s, ok := p.(Slow); ok {
		k.Slow = s.Patience()
	}
	if w, ok := p.(Wired[S, T]); ok {
		k.NIC = true
		observe := func(snap *facts.Snapshot, raw json.RawMessage) (s S, got *T) {
			s, err := decode(raw)
			if err == nil {
				got, _ = p.Observe(snap, s) // Plan reports the error
			}
			return s, got
		}
		k.Device = func(snap *facts.Snapshot, raw json.RawMessage) string {
			if _, got := observe(snap, raw); got != nil {
				return w.Device(got)
			}
			return ""
		}
		k.Common = func(snap *facts.Snapshot, raw json.RawMessage, c Change) bool {
			s, got := observe(snap, raw)
			return got != nil && w.Common(s, got, c)
		}
		k.Undone = func(raw json.RawMessage, changes []Change) json.RawMessage {
			s, err := decode(raw)
			if err != nil {
				return raw // Plan reports the error
			}
			return encode(w.Undone(s, changes))
		}
	}
	if d, ok := p.(Placed); ok {
		k.DeviceOf = d.DeviceOf
	}
	if w, ok := p.(Partial[S]); ok {
		k.Without = func(raw json.RawMessage, nics []string) json.RawMessage {
			s, err := decode(raw)
			if err != nil {
				return raw // Plan reports the error
			}
			return encode(w.Without(s, nics))
		}
	}
	if s, ok := p.(Staged); ok {
		k.Stage = s.Stage()
	}
	if r, ok := p.(Restorable); ok {
		k.Restorer = r.Restorer()
	}
	return k
}

// Stable is an optional interface of providers. It returns the part of a status that a plan depends on,
// without values that change by themselves, such as the carrier.
type Stable[T any] interface {
	Stable(got *T) any
}

func digest[T any](provider any, got *T) string {
	var seen any = got
	if s, ok := provider.(Stable[T]); ok && got != nil {
		seen = s.Stable(got)
	}
	raw, err := json.Marshal(seen)
	if err != nil {
		panic(fmt.Sprintf("encode status: %v", err)) // our own types always encode
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8])
}

// Kinds is the table of kinds, in the order in which kinds depend on each other.
type Kinds []Kind

// Lookup returns the kind of that name.
func (k Kinds) Lookup(name string) (Kind, bool) {
	for _, kind := range k {
		if kind.Name == name {
			return kind, true
		}
	}
	return Kind{}, false
}

// PatienceFor returns how long an action that undoes these changes may take: as long as the slowest of their kinds.
func (k Kinds) PatienceFor(changes []Change) time.Duration {
	out := Patience
	for _, c := range changes {
		if kind, ok := k.Lookup(c.Atom.Kind()); ok {
			out = max(out, kind.Patience())
		}
	}
	return out
}

// StepLog receives the steps of a kind's Apply. It is safe for concurrent use, because a program writes to
// its output and its errors at the same time.
type StepLog interface {
	// Step announces a program before it starts. If Step returns an error, the program must not start.
	Step(what string) error
	// Write logs the output of a program. It never fails, because a closed output would end the program.
	io.Writer
}

type logKey struct{}

// WithLog sends the steps of a kind's Apply to log.
func WithLog(ctx context.Context, log StepLog) context.Context {
	return context.WithValue(ctx, logKey{}, log)
}

// Log returns the log of an Apply; it is never nil.
func Log(ctx context.Context) StepLog {
	if w, ok := ctx.Value(logKey{}).(StepLog); ok {
		return w
	}
	return silent{io.Discard}
}

type changedKey struct{}

// WithChanged says which values the transaction makes, changes or removes in which a persist stage or a restore runs.
func WithChanged(ctx context.Context, atoms []Atom) context.Context {
	return context.WithValue(ctx, changedKey{}, atoms)
}

// Changed returns the values that the transaction makes, changes or removes; nil elsewhere than in a persist stage and in a restore.
func Changed(ctx context.Context) []Atom {
	atoms, _ := ctx.Value(changedKey{}).([]Atom)
	return atoms
}

// silent is the log of callers that want none.
type silent struct{ io.Writer }

func (silent) Step(string) error { return nil }
