// Package resource is the vocabulary that planner, providers and agent share: addresses of
// resources, what is wanted, the changes between wanted and found, and the provider seam.
package resource

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"slices"

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
	// Payload is for the operator's side alone; nil: nothing is sent.
	Payload *Payload `json:"-"`
}

// Payload is a local file that a host gets before a change that installs it is made.
type Payload struct {
	Path   string
	SHA256 string // that the file must have; "": any
	Relay  string // the host that gets it first, and hands it on; "": it comes from here
	// Attribute is that of the changes which install it.
	Attribute string
	Origin    string // where the file comes from, for who lacks it
}

// NeededBy says whether one of the changes installs the payload.
func (p *Payload) NeededBy(changes []Change) bool {
	return p != nil && slices.ContainsFunc(changes, func(c Change) bool { return c.Attribute == p.Attribute })
}

// New is a wanted thing on a host. Its spec is a type of ours, and those always encode.
func New(host, kind, name string, pos fabric.Pos, spec any, after ...Addr) Resource {
	addr := Addr{Host: host, Kind: kind, Name: name}
	raw, err := json.Marshal(spec)
	if err != nil {
		panic(fmt.Sprintf("encode spec of %s: %v", addr, err))
	}
	return Resource{Addr: addr, Spec: raw, After: after, Pos: pos}
}

// Disruption says what traffic feels of a change. Higher is worse.
type Disruption int

// The disruptions, as plans print them.
const (
	Live Disruption = iota
	LinkFlap
	DriverReload
	Reboot
)

// String names the disruption as plans print it.
func (d Disruption) String() string {
	return [...]string{"live", "link flap", "driver reload", "reboot"}[d]
}

// The stages of a change. A transaction makes the runtime's first, and those of persist once the
// outcome was proven, so that a reset before then boots the old state.
const (
	StageRuntime = ""
	StagePersist = "persist"
	// StageStack is before both, in a transaction of its own: what a package manager did is not undone
	// by a snapshot of the network. It is done on a host, or found unfinished and named.
	StageStack = "stack"
)

// Rank orders the stages.
func Rank(stage string) int {
	return slices.Index([]string{StageStack, StageRuntime, StagePersist}, stage)
}

// MissingDriver is why a resource cannot be planned yet: what it stands on comes with the driver
// stack. Where the same plan installs a stack, it is planned anew after that.
type MissingDriver struct{ Why string }

func (e *MissingDriver) Error() string { return e.Why }

// Change is one attribute's difference. Empty From: it is absent now. Empty To: it is removed.
type Change struct {
	Attribute  string     `json:"attribute"`
	From       string     `json:"from,omitempty"`
	To         string     `json:"to,omitempty"`
	Stage      string     `json:"stage,omitempty"` // StageStack, StageRuntime or StagePersist
	Disruption Disruption `json:"disruption,omitempty"`
	Atom       Atom       `json:"atom,omitempty"`  // what is owned once the change is made
	Drift      bool       `json:"drift,omitempty"` // we had set it, and something else changed it since
	// Address is the host's own address that the change adds or removes.
	Address netip.Addr `json:"address,omitzero"`
	// Downs is the device that the change takes down. Connections through it end, although nothing is removed.
	Downs string `json:"downs,omitempty"`
	// Takes is why the change is refused where From is not what we made; "": it may be anybody's.
	Takes string `json:"takes,omitempty"`
}

// String is the change on one line.
func (c Change) String() string {
	switch {
	case c.From == "":
		return fmt.Sprintf("%s %s is missing", c.Attribute, c.To)
	case c.To == "":
		return fmt.Sprintf("%s %s is too much", c.Attribute, c.From)
	}
	return fmt.Sprintf("%s is %s, wanted %s", c.Attribute, c.From, c.To)
}

// Removes says whether the change takes something away: a connection that stood on it ends.
func (c Change) Removes() bool { return c.To == "" || c.Downs != "" }

// Difference is what a kind has to say about one wanted thing on one host.
type Difference struct {
	Exists  bool
	Changes []Change
	Touches string // how the changes touch the operator's own connection; "": they do not
	Seen    string // digest of the facts that the changes were computed from
	Notes   []string
}

// Staged is a kind whose changes are not of the runtime stage.
type Staged interface {
	Stage() string
}

// Noter is a kind that has to say something about a wanted thing that is no change, such as what it
// cannot do of it.
type Noter[T any] interface {
	Notes(got *T) []string
}

// Absent is a status that is observed on a host where nothing of the resource is, and nothing is to be.
type Absent interface {
	Absent() bool
}

// Checker is a kind that can ask the host's own programs whether they would take what is wanted. It
// changes nothing but a staged copy.
type Checker[S any] interface {
	Check(ctx context.Context, h host.Host, want S) error
}

// Provider is one kind of resource: S is its Spec (wanted), T its Status (found). Observe and Diff
// are pure; Apply makes exactly the changes that it is given.
type Provider[S, T any] interface {
	// Observe reads the status of the wanted thing out of a snapshot; nil when it is absent. An
	// error means that it cannot be told apart (no NIC, or two, match).
	Observe(snap *facts.Snapshot, want S) (*T, error)
	// Diff is empty when got is as wanted. got may be nil.
	Diff(want S, got *T) []Change
	Apply(ctx context.Context, h host.Host, want S, changes []Change) error
}

// Fencer is a kind that can change the path of the operator's own connection. The answer is empty,
// or says how the changes touch that path.
type Fencer[S, T any] interface {
	Touches(snap *facts.Snapshot, want S, changes []Change) string
}

// Wired is a kind whose resources are the declared NICs of the same names: a change of one may break
// what its links carry.
type Wired interface {
	Wired()
}

// Kind is a provider with its types erased.
type Kind struct {
	Name  string
	Stage string // of all its changes
	NIC   bool   // it is Wired
	// Gather is nil where every snapshot holds what the kind looks at.
	Gather func(ctx context.Context, r host.Reader, snap *facts.Snapshot, specs []json.RawMessage, atoms []Atom, patient bool) error
	Plan   func(snap *facts.Snapshot, spec json.RawMessage) (Difference, error)
	Apply  func(ctx context.Context, h host.Host, spec json.RawMessage, changes []Change) error
	Check  func(ctx context.Context, h host.Host, spec json.RawMessage) error // nil: nobody is to be asked

	// The rest is nil where nothing of the kind can be given back.
	Claims func(snap *facts.Snapshot, spec json.RawMessage, a Atom) bool
	Undo   func(snap *facts.Snapshot, a Atom, to string) (c Change, touches string, err error)
	Revert func(ctx context.Context, h host.Host, snap *facts.Snapshot, a Atom, to string) error

	Keeper Keeper // nil where there is no exact way back
}

// Erase hides a provider's types; the one place where that happens.
func Erase[S, T any](name string, p Provider[S, T]) Kind {
	decode := func(raw json.RawMessage) (S, error) {
		var s S
		if err := json.Unmarshal(raw, &s); err != nil {
			return s, fmt.Errorf("decode spec of %s: %w", name, err)
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
			if f, ok := p.(Fencer[S, T]); ok && len(d.Changes) > 0 {
				d.Touches = f.Touches(snap, s, d.Changes)
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
	if g, ok := p.(Gatherer[S]); ok {
		k.Gather = func(ctx context.Context, r host.Reader, snap *facts.Snapshot, specs []json.RawMessage, atoms []Atom, patient bool) error {
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
	if o, ok := p.(Owner[S]); ok {
		k.Claims = func(snap *facts.Snapshot, raw json.RawMessage, a Atom) bool {
			s, err := decode(raw)
			return err == nil && o.Claims(snap, s, a)
		}
		k.Undo = func(snap *facts.Snapshot, a Atom, to string) (c Change, touches string, err error) {
			if err := check(snap); err != nil {
				return Change{}, "", err
			}
			c, touches = o.Undo(snap, a, to)
			c.Stage = k.Stage
			return c, touches, nil
		}
		k.Revert = o.Revert
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
	_, k.NIC = p.(Wired)
	if s, ok := p.(Staged); ok {
		k.Stage = s.Stage()
	}
	if kept, ok := p.(Kept); ok {
		k.Keeper = kept.Keeper()
	}
	return k
}

// Stable is an optional interface of providers: what of a status a plan depends on, without what
// moves by itself, such as a carrier.
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

// StepLog is where a kind's Apply tells what it does. Safe for concurrent use: a program's output and
// its errors come side by side.
type StepLog interface {
	// Step announces a program before it starts. Its error is a reason not to start it.
	Step(what string) error
	// Write keeps what a program prints. It never fails: the program would be ended by its closed output.
	io.Writer
}

type logKey struct{}

// WithLog has what a kind's Apply tells on its way go to log.
func WithLog(ctx context.Context, log StepLog) context.Context {
	return context.WithValue(ctx, logKey{}, log)
}

// Log is where Apply tells what it does; never nil.
func Log(ctx context.Context) StepLog {
	if w, ok := ctx.Value(logKey{}).(StepLog); ok {
		return w
	}
	return silent{io.Discard}
}

// silent is the log of who asked for none.
type silent struct{ io.Writer }

func (silent) Step(string) error { return nil }
