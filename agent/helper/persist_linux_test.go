package helper

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/checkpoint"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// reader is this machine, read only, whose records stay in memory.
type reader struct {
	host.Host
	records map[string][]byte
}

func (r reader) Records(_ context.Context) (map[string][]byte, error) { return r.records, nil }

func (r reader) SaveRecord(name string, text []byte) error {
	if delete(r.records, name); text != nil {
		r.records[name] = text
	}
	return nil
}

// notes is a kind that writes files into a folder; the spec is a file's name. It fails, or the power
// does, where fault says so. changed is what it was told last that the transaction changes.
type notes struct {
	dir     string
	fault   *func(name string) error
	changed *[]resource.Atom
}

const noteStage = "noted"

func (n notes) Stage() string               { return resource.StagePersist }
func (n notes) Restorer() resource.Restorer { return n }
func (n notes) Name() string                { return "notes" }

func (n notes) Observe(_ *facts.Snapshot, name string) (*string, error) {
	text, err := os.ReadFile(filepath.Join(n.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	s := string(text)
	return &s, err
}

func (n notes) Diff(name string, got *string) []resource.Change {
	if got != nil {
		return nil
	}
	return []resource.Change{{Attribute: name, To: noteStage, Stage: resource.StagePersist, Atom: resource.NewAtom("note", "file", name)}}
}

func (n notes) Apply(ctx context.Context, _ host.Host, name string, _ []resource.Change) error {
	*n.changed = resource.Changed(ctx)
	if err := (*n.fault)(name); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(n.dir, name), []byte(noteStage), 0o600)
}

func (n notes) Save(_ context.Context, _ host.Reader, atoms []resource.Atom) (json.RawMessage, error) {
	return json.Marshal(atoms)
}

func (n notes) Again(_ context.Context, _ host.Reader, part json.RawMessage) (json.RawMessage, error) {
	return part, nil
}

func (n notes) Items(json.RawMessage) ([]resource.Item, error) { return nil, nil }

func (n notes) Merge(part, _ json.RawMessage, _ map[string]bool) (json.RawMessage, []string, error) {
	return part, nil, nil
}

func (n notes) Restore(ctx context.Context, _ host.Host, part json.RawMessage) ([]string, error) {
	if ctx.Err() != nil {
		return []string{"a round that was to come"}, nil
	}
	*n.changed = resource.Changed(ctx)
	var atoms []resource.Atom
	if err := json.Unmarshal(part, &atoms); err != nil {
		return nil, err
	}
	for _, a := range atoms {
		if err := os.Remove(filepath.Join(n.dir, a.Value())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return nil, nil
}

// stage is a host with an open and prepared transaction whose persist stage writes three files.
type stage struct {
	*server
	tx    calls.TxRef
	files string
	fault func(string) error
	told  []resource.Atom // see notes
	boot  string
	later time.Duration
}

var names = []string{"first", "second", "third"}

// adopted is an atom that the transaction's record only forgets.
const adopted = resource.Atom("note file adopted")

func newStage(t *testing.T) *stage {
	t.Helper()
	h, err := host.Open()
	if err != nil {
		t.Fatal(err)
	}
	x := &stage{files: t.TempDir(), boot: "boot-1", fault: func(string) error { return nil }}
	clock := func() (checkpoint.Moment, error) {
		return checkpoint.Moment{Boot: x.boot, Uptime: time.Minute + x.later, Wall: time.Now()}, nil
	}
	x.server = &server{host: reader{h, map[string][]byte{}}, kinds: resource.Kinds{resource.Erase("note", notes{x.files, &x.fault, &x.told})},
		store: checkpoint.NewStore(t.TempDir(), clock)}
	opened, err := x.store.Begin(checkpoint.Request{Fabric: "f"})
	if err != nil {
		t.Fatal(err)
	}
	x.tx = calls.TxRef{ID: opened.ID, Token: opened.Token}
	var steps []calls.TxStep
	var atoms []resource.Atom
	for _, n := range names {
		spec, err := json.Marshal(n)
		if err != nil {
			t.Fatal(err)
		}
		r := resource.Resource{Addr: resource.Addr{Host: "h", Kind: "note", Name: n}, Spec: spec}
		steps = append(steps, calls.TxStep{Act: &calls.ActParams{Fabric: "f", Resource: r, Changes: notes{}.Diff(n, nil)}})
		atoms = append(atoms, resource.NewAtom("note", "file", n))
	}
	snap, err := checkpoint.TakeBackup(t.Context(), x.host, x.kinds, append(atoms, adopted), nil)
	if err != nil {
		t.Fatal(err)
	}
	snap.Stays = []resource.Atom{adopted}
	if snap.Forward, err = json.Marshal(steps); err != nil {
		t.Fatal(err)
	}
	if _, err = x.store.SaveBackup(x.tx.ID, x.tx.Token, snap); err == nil {
		_, err = x.store.Prepare(x.tx.ID, x.tx.Token, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// written are the files that are there.
func (x *stage) written(t *testing.T) (out []string) {
	t.Helper()
	for _, n := range names {
		if _, err := os.Stat(filepath.Join(x.files, n)); err == nil {
			out = append(out, n)
		}
	}
	return out
}

func (x *stage) is(t *testing.T, state checkpoint.State, files ...string) {
	t.Helper()
	got, err := x.store.Read(x.tx.ID)
	if err != nil || got.State != state {
		t.Errorf("the transaction is %v, wanted %s (%v)", got, state, err)
	}
	if d := cmp.Diff(strings.Join(files, ", "), strings.Join(x.written(t), ", ")); d != "" {
		t.Error(d)
	}
}

func TestPersistStageTellsStepByStep(t *testing.T) {
	x := newStage(t)
	r, err := x.txPersist(t.Context(), calls.TxPersist{TxRef: x.tx})
	if err != nil || r.Failed != nil || len(r.Done) != 3 {
		t.Fatalf("%+v, %v", r, err)
	}
	x.is(t, checkpoint.Persisting, names...)
	if n := len(x.host.(reader).records["f"]); n == 0 {
		t.Error("nothing was noted as ours")
	}
}

func TestPersistStageStopsAtAFailureAndGoesBack(t *testing.T) {
	x := newStage(t)
	x.fault = func(name string) error {
		if name == "third" {
			return &agent.Error{Stale: true, Message: "no space left"}
		}
		return nil
	}
	r, err := x.txPersist(t.Context(), calls.TxPersist{TxRef: x.tx})
	if err != nil || r.Failed == nil || !r.Failed.Stale || len(r.Done) != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	x.is(t, checkpoint.Persisting, "first", "second")
	if _, err := x.txRevert(t.Context(), calls.TxRevert{TxRef: x.tx, Why: "it failed"}); err != nil {
		t.Fatal(err)
	}
	x.is(t, checkpoint.Reverted)
}

// TestPersistStageKnowsWhatTheTransactionChanges: so does the revert. What the record only forgets, such as what was adopted, is not among it.
func TestPersistStageKnowsWhatTheTransactionChanges(t *testing.T) {
	x := newStage(t)
	want := []resource.Atom{"note file first", "note file second", "note file third"}
	if _, err := x.txPersist(t.Context(), calls.TxPersist{TxRef: x.tx}); err != nil || !slices.Equal(x.told, want) {
		t.Errorf("%v, %v", x.told, err)
	}
	x.told = nil
	if _, err := x.txRevert(t.Context(), calls.TxRevert{TxRef: x.tx, Why: "it failed"}); err != nil || !slices.Equal(x.told, want) {
		t.Errorf("a revert: %v, %v", x.told, err)
	}
}

func TestPersistStageOfAPartialTransactionWritesNothing(t *testing.T) {
	x := newStage(t)
	if r, err := x.txPersist(t.Context(), calls.TxPersist{TxRef: x.tx, Partial: true}); err != nil || r.Failed != nil || len(r.Done) != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	x.boot = "boot-2" // and stays so over a reset
	if _, err := x.txFinishInterrupted(t.Context(), struct{}{}); err != nil {
		t.Fatal(err)
	}
	x.is(t, checkpoint.Committed)
}

// The power fails before each write, and before the first: the next contact ends what was proven.
func TestResetWithinThePersistStageRollsForward(t *testing.T) {
	for i, at := range names {
		t.Run("before the "+at, func(t *testing.T) {
			x := newStage(t)
			gone := errors.New("the power failed")
			x.fault = func(name string) error {
				if name == at {
					return gone
				}
				return nil
			}
			if r, err := x.txPersist(t.Context(), calls.TxPersist{TxRef: x.tx}); err != nil || r.Failed == nil || r.Failed.Message != gone.Error() {
				t.Fatalf("the fault did not come: %+v, %v", r, err)
			}
			x.is(t, checkpoint.Persisting, names[:i:i]...)
			x.boot, x.fault = "boot-2", func(string) error { return nil }
			r, err := x.txFinishInterrupted(t.Context(), struct{}{})
			if err != nil || r.Ended == nil || r.Ended.State != checkpoint.Committed {
				t.Fatalf("%+v, %v", r, err)
			}
			x.is(t, checkpoint.Committed, names...)
			if again, err := x.txFinishInterrupted(t.Context(), struct{}{}); err != nil || again.Ended != nil {
				t.Errorf("reverted twice: %+v, %v", again, err)
			}
		})
	}
}

// TestAnExpiredLeaseIsSettledByWhoeverComesNext: fault 37. No guardian runs in this test.
func TestAnExpiredLeaseIsSettledByWhoeverComesNext(t *testing.T) {
	for name, look := range map[string]func(x *stage) (*calls.TxInfo, error){
		"plan": func(x *stage) (*calls.TxInfo, error) {
			r, err := x.snapshot(t.Context(), calls.SnapshotParams{})
			return &r.Transactions[0], err
		},
		"pending": func(x *stage) (*calls.TxInfo, error) {
			all, err := x.txList(t.Context(), struct{}{})
			return &all[0], err
		},
		"apply": func(x *stage) (*calls.TxInfo, error) {
			r, err := x.txFinishInterrupted(t.Context(), struct{}{})
			return r.Ended, err
		},
	} {
		for state, undecided := range map[checkpoint.State]bool{checkpoint.Prepared: false, checkpoint.Persisting: true} {
			t.Run(name+" "+string(state), func(t *testing.T) {
				x := newStage(t)
				if undecided {
					if r, err := x.txPersist(t.Context(), calls.TxPersist{TxRef: x.tx}); err != nil || r.Failed != nil {
						t.Fatal(r, err)
					}
				}
				x.later = checkpoint.DefaultLease / 2
				if all, err := x.txList(t.Context(), struct{}{}); err != nil || all[0].State != state || all[0].EndedNow {
					t.Fatalf("before the lease expired: %+v, %v", all, err)
				}
				x.later = checkpoint.DefaultLease + time.Second
				got, err := look(x)
				if err != nil || got == nil || !got.EndedNow || got.State != checkpoint.Reverted || got.Undecided != undecided {
					t.Fatalf("%+v, %v", got, err)
				}
				x.is(t, checkpoint.Reverted)
				if all, err := x.txList(t.Context(), struct{}{}); err != nil || all[0].EndedNow {
					t.Errorf("reverted twice: %+v, %v", all, err)
				}
			})
		}
	}
}

func TestResetBeforeThePersistStageIsTheOldState(t *testing.T) {
	x := newStage(t)
	x.boot = "boot-2"
	r, err := x.txFinishInterrupted(t.Context(), struct{}{})
	if err != nil || r.Ended == nil || r.Ended.State != checkpoint.Reverted {
		t.Fatalf("%+v, %v", r, err)
	}
	x.is(t, checkpoint.Reverted)
	if _, err := x.txPersist(t.Context(), calls.TxPersist{TxRef: x.tx}); err == nil || !strings.Contains(err.Error(), "too late") {
		t.Errorf("a client that comes back after the reset: %v", err)
	}
}

// A roll forward that cannot be done now keeps the transaction, for the next contact.
func TestRollForwardIsTriedAgain(t *testing.T) {
	x := newStage(t)
	full := true
	x.fault = func(string) error {
		if full {
			return &agent.Error{Stale: true, Message: "no space left on device"}
		}
		return nil
	}
	if _, err := x.txPersist(t.Context(), calls.TxPersist{TxRef: x.tx}); err != nil {
		t.Fatal(err)
	}
	x.boot = "boot-2"
	// The error is reported as it is, and not as a stale plan: there is no plan.
	_, err := x.txFinishInterrupted(t.Context(), struct{}{})
	var told *agent.Error
	if !errors.As(err, &told) || told.Stale || told.Message != "finish the transaction that a reset interrupted: no space left on device; fix the cause, or run `fabricform rollback`" {
		t.Fatalf("got %v", err)
	}
	x.is(t, checkpoint.Persisting)
	full = false
	if _, err := x.txFinishInterrupted(t.Context(), struct{}{}); err != nil {
		t.Fatal(err)
	}
	x.is(t, checkpoint.Committed, names...)
}

// Anybody may roll back a transaction that cannot be rolled forward: its holder is gone.
func TestRollForwardThatFailsIsRolledBack(t *testing.T) {
	x := newStage(t)
	x.fault = func(name string) error {
		if name == "second" {
			return errors.New("no space left on device")
		}
		return nil
	}
	if _, err := x.txPersist(t.Context(), calls.TxPersist{TxRef: x.tx}); err != nil {
		t.Fatal(err)
	}
	x.boot = "boot-2"
	if _, err := x.txFinishInterrupted(t.Context(), struct{}{}); err == nil {
		t.Fatal("it was rolled forward")
	}
	x.is(t, checkpoint.Persisting, "first")
	if _, err := x.txRevert(t.Context(), calls.TxRevert{TxRef: calls.TxRef{ID: x.tx.ID}, Why: "asked"}); err != nil {
		t.Fatal(err)
	}
	x.is(t, checkpoint.Reverted)
}

// A client without an open transaction that allows changes cannot change anything.
func TestActNeedsALiveTransaction(t *testing.T) {
	note := func(x *stage, tx calls.TxRef) error {
		spec, err := json.Marshal("fourth")
		if err != nil {
			t.Fatal(err)
		}
		_, err = x.act(t.Context(), calls.ActParams{Fabric: "f", Tx: tx, Changes: notes{}.Diff("fourth", nil),
			Resource: resource.Resource{Addr: resource.Addr{Host: "h", Kind: "note", Name: "fourth"}, Spec: spec}})
		return err
	}
	x := newStage(t)
	for _, c := range []struct {
		name string
		tx   calls.TxRef
		want string
	}{
		{"none", calls.TxRef{}, "transaction"},
		{"another's", calls.TxRef{ID: x.tx.ID, Token: "guessed"}, "taken over by another client"},
		{"prepared", x.tx, "the transaction is prepared"},
	} {
		if err := note(x, c.tx); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, err := x.txRevert(t.Context(), calls.TxRevert{TxRef: x.tx, Why: "asked"}); err != nil {
		t.Fatal(err)
	}
	if err := note(x, x.tx); !errors.Is(err, checkpoint.ErrTooLate) {
		t.Errorf("reverted: %v", err)
	}
	if _, err := os.Stat(filepath.Join(x.files, "fourth")); err == nil {
		t.Error("it was written")
	}
}

// TestAnOpenTransactionIsItsHolders: nobody else ends it while its lease runs.
func TestAnOpenTransactionIsItsHolders(t *testing.T) {
	x := newStage(t)
	for _, token := range []string{"", "guess"} {
		_, err := x.txRevert(t.Context(), calls.TxRevert{TxRef: calls.TxRef{ID: x.tx.ID, Token: token}, Why: "another's"})
		var refused *agent.Error
		if !errors.As(err, &refused) || !refused.Held || strings.Contains(refused.Message, x.tx.Token) {
			t.Errorf("token %q: %v", token, err)
		}
	}
	x.is(t, checkpoint.Prepared)
	if _, err := x.txRevert(t.Context(), calls.TxRevert{TxRef: x.tx, Why: "mine"}); err != nil {
		t.Fatal(err)
	}
	x.is(t, checkpoint.Reverted)
}

// TestAStepThatComesTooLateSaysWhoEndedTheTransaction: with a copy of its tokens, another operator may end it or take it over.
func TestAStepThatComesTooLateSaysWhoEndedTheTransaction(t *testing.T) {
	x := newStage(t)
	x.connection.SSH = "192.0.2.7 5000 192.0.2.1 22"
	if _, err := x.txRevert(t.Context(), calls.TxRevert{TxRef: x.tx, Why: "rollback by bo@desk", User: "bo@desk"}); err != nil {
		t.Fatal(err)
	}
	want := regexp.MustCompile(`too late.*: rollback by bo@desk from 192\.0\.2\.7 at \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d`)
	if err := x.store.Live(x.tx.ID, x.tx.Token); err == nil || !want.MatchString(err.Error()) {
		t.Errorf("act: %v", err)
	}
	if _, err := x.txPersist(t.Context(), calls.TxPersist{TxRef: x.tx}); err == nil || !want.MatchString(err.Error()) {
		t.Errorf("persist: %v", err)
	}
	x = newStage(t)
	x.connection.SSH = "192.0.2.7 5000 192.0.2.1 22"
	if _, err := x.txTakeOver(t.Context(), calls.TxTakeOver{TxRef: x.tx, User: "bo@desk"}); err != nil {
		t.Fatal(err)
	}
	if err := x.store.Live(x.tx.ID, x.tx.Token); err == nil || !strings.HasSuffix(err.Error(), "taken over by another client: bo@desk from 192.0.2.7") {
		t.Errorf("act: %v", err)
	}
}

// TestAWayBackGoesToItsEnd: a revert completes even if the connection that asked for it ends
// meanwhile.
func TestAWayBackGoesToItsEnd(t *testing.T) {
	x := newStage(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if i, err := x.txRevert(ctx, calls.TxRevert{TxRef: x.tx, Why: "it is asked for"}); err != nil || i.State != checkpoint.Reverted {
		t.Errorf("%+v, %v", i, err)
	}
}
