package apply

import (
	"bytes"
	cmp2 "cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/checkpoint"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/transport"
	"github.com/fabricform/fabricform/validators"
)

// toyHost is a host in memory: one value, which a toy kind sets, a port of link rail0, and transactions
// as the real helper has them. fails says by method why the host answers with an error.
type toyHost struct {
	mu       sync.Mutex
	value    string
	kept     string // from before the transaction
	dark     bool   // the port has no carrier once the value was set
	forgets  bool   // another program undoes the value at once
	down     bool   // nobody gets in any more
	held     bool   // by somebody else
	mute     bool   // it answers, and says nothing of itself
	empty    bool   // it answers with an empty snapshot
	mtu      int    // beyond 1500, of the port
	fails    map[string]error
	says     map[string]json.RawMessage // answers of methods that are not carried out
	cut      map[string]bool            // methods that are carried out, and whose answer is lost with the host
	late     map[string]bool            // methods that take a second
	hangs    string                     // a method that does not return until its helper is killed, and is not carried out
	killed   chan struct{}              // closed by a revert over a new connection, which kills the earlier helper
	running  string                     // the method that runs now
	overlaps []string                   // methods that were asked for while another one ran
	file     string                     // what tx.persist writes
	stack    string                     // what stack.start installs
	key      string                     // what the host makes itself
	tx       calls.TxInfo
	past     []toyTx          // earlier transactions, the oldest first
	reversed calls.TxReversed // what a rollback would do
	found    calls.TxInfo     // the changes of others that a revert finds
	asks     []calls.TxRevert // for a committed transaction
	history  []resource.HistoryEntry
	atoms    map[resource.Atom]resource.Owned // of its record
	adopts   []map[resource.Atom]string       // what each enrol has for the record
	opened   int
	// guardians is how many guardians a transaction has; 0 as from earlier builds.
	guardians int
	tells     bool              // why it has reverted
	roster    []resource.Member // in the record; only a test sets the first one
	records   []resource.Record // of other fabrics
	asked     []string
	params    string // of the method that is asked
	on        func(method string)
	connects  []net.Conn
	beats     int
}

// toyTx is a transaction that ended, and the value from before it.
type toyTx struct {
	calls.TxInfo
	kept string
}

// keptToys is how many transactions a host keeps.
const keptToys = 5

func (h *toyHost) snapshot() *facts.Snapshot {
	lit := !h.dark || h.value == "1"
	return &facts.Snapshot{Sysctls: map[string]string{"toy": h.value, "file": h.file, "stack": h.stack, "key": h.key}, Links: []host.Link{{Name: "eth0", Up: true, Carrier: lit, MTU: 1500 + h.mtu}}}
}

// serve answers a method. The caller holds the lock.
func (h *toyHost) serve(method string, raw json.RawMessage) (any, error) {
	switch method {
	case "tx.finish":
		return calls.TxFinished{}, nil
	case "snapshot":
		if h.mute {
			return nil, nil
		}
		if h.empty {
			return calls.SnapshotResult{Snapshot: &facts.Snapshot{}}, nil
		}
		return calls.SnapshotResult{Snapshot: h.snapshot(), Records: append([]resource.Record{{Fabric: "f", Roster: h.roster, History: h.history, Atoms: h.atoms}}, h.records...), Transactions: h.kepts(), Guardians: h.guardians}, nil
	case "stack.start":
		var p calls.StackOrder
		err := json.Unmarshal(raw, &p)
		h.stack = "2"
		return calls.StackState{Job: &resource.Installation{ID: p.ID, State: resource.JobDone}}, err
	case "tx.ready":
		if h.held {
			return calls.TxReady{Held: &calls.TxInfo{Fabric: "g", State: checkpoint.Armed}}, nil
		}
		return calls.TxReady{}, nil
	case "tx.open":
		var p calls.TxOpen
		err := json.Unmarshal(raw, &p)
		if h.tx.ID != "" {
			h.past = append(h.past, toyTx{h.tx, h.kept})
			h.past = h.past[max(len(h.past)-keptToys, 0):]
		}
		h.opened++
		h.kept, h.tx = h.value, calls.TxInfo{TxRef: calls.TxRef{ID: fmt.Sprint(h.opened), Token: "t"}, Fabric: p.Fabric, Plan: p.Plan, State: checkpoint.Armed, Run: p.Client, Hosts: p.Hosts, Since: time.Now(), Holder: checkpoint.Holder{User: p.User}}
		return h.tx, err
	case "act":
		var p calls.ActParams
		err := json.Unmarshal(raw, &p)
		if p.Resource.Addr.Kind == keyKind.Name {
			h.key = "k" + p.Resource.Addr.Host
			return calls.ActResult{Changes: p.Changes}, err
		}
		if h.value = p.Changes[0].To; h.forgets {
			h.value = h.kept
		}
		return calls.ActResult{Changes: p.Changes}, err
	case "tx.prepare":
		if h.tx.State == checkpoint.Reverted { // a real host refuses a step that comes too late, too
			return nil, errors.New("the transaction has reverted")
		}
		h.tx.State = checkpoint.Prepared
	case "tx.persist":
		var p calls.TxPersist
		if err := json.Unmarshal(raw, &p); err != nil {
			return nil, err
		}
		if h.tx.State = checkpoint.Persisting; !p.Partial {
			h.file = "2"
		}
		return calls.TxPersisted{TxInfo: h.tx}, nil
	case "tx.commit":
		h.tx.State = checkpoint.Committed
	case "tx.reversal":
		var p calls.TxReversal
		err := json.Unmarshal(raw, &p)
		return h.reversal(p.ID), err
	case "tx.revert":
		if h.hangs != "" {
			h.hangs = ""
			close(h.killed)
		}
		var p calls.TxRevert
		if err := json.Unmarshal(raw, &p); err != nil {
			return nil, err
		}
		e := resource.HistoryEntry{Command: resource.RevertCommand, Plan: h.tx.Plan, Changes: 1}
		if p.RollBack && p.Digest != "" && p.Digest != h.reversal(p.ID).Digest {
			return nil, &agent.Error{Stale: true, Message: "the host changed since the rollback was shown"}
		}
		if p.RollBack {
			h.asks, e.Command = append(h.asks, p), resource.RollbackCommand
		}
		h.value, h.file = h.before(p.ID), ""
		if n := slices.IndexFunc(h.kepts(), func(i calls.TxInfo) bool { return i.ID == p.ID }); n >= 0 && strings.HasSuffix(h.kepts()[n].Plan, "-keys") {
			h.key = ""
		}
		for i := range h.past {
			if h.past[i].ID == p.ID {
				h.past[i].State, e.Plan = checkpoint.Reverted, h.past[i].Plan
				h.history = append(h.history, e)
				return h.past[i].TxInfo, nil
			}
		}
		h.tx.State, h.history = checkpoint.Reverted, append(h.history, e)
		if h.tells {
			h.tx.Why = p.Why
		}
		h.tx.Kept, h.tx.Overwritten = h.found.Kept, h.found.Overwritten
	case "tx.list":
		return h.kepts(), nil
	case "enrol":
		var p calls.EnrolParams
		err := json.Unmarshal(raw, &p)
		h.adopts = append(h.adopts, p.Adopt)
		if p.Entry != nil {
			h.history = append(h.history, *p.Entry)
		}
		if h.roster != nil {
			h.roster = p.Vanished // as on a host on which the fabric owns nothing
		}
		return struct{}{}, err
	}
	return h.tx, nil // of a beat, too
}

// kepts are the transactions that the host keeps.
func (h *toyHost) kepts() []calls.TxInfo {
	out := []calls.TxInfo{}
	for _, t := range h.past {
		out = append(out, t.TxInfo)
	}
	if h.tx.ID != "" {
		out = append(out, h.tx)
	}
	return out
}

// before returns the value from before a transaction.
func (h *toyHost) before(id string) string {
	for _, t := range h.past {
		if t.ID == id {
			return t.kept
		}
	}
	return h.kept
}

// reversal says what a rollback would do.
func (h *toyHost) reversal(id string) calls.TxReversed {
	out := h.reversed
	if out.Digest == "" {
		out.Digest, out.Changes = "d", []resource.Change{{Attribute: "value", From: h.value, To: h.before(id), Atom: "toy r0 value"}}
	}
	return out
}

func (h *toyHost) handlers() map[string]agent.Handler {
	out := map[string]agent.Handler{}
	for _, method := range []string{"snapshot", "act", "enrol", "tx.finish", "tx.ready", "tx.open", "tx.beat", "tx.prepare", "tx.persist", "tx.commit", "tx.reversal", "tx.revert", "tx.list", "tx.takeover", "stack.start"} {
		out[method] = func(_ context.Context, raw json.RawMessage) (any, error) {
			h.mu.Lock()
			defer h.mu.Unlock()
			if method == "tx.beat" {
				h.beats++
			}
			if method != "tx.beat" && method != "snapshot" {
				h.asked = append(h.asked, method)
				if h.running != "" {
					h.overlaps = append(h.overlaps, method+" during "+h.running)
				}
				h.running = method
				defer func() { h.running = "" }()
			}
			h.params = string(raw)
			if h.on != nil {
				h.on(method)
			}
			if h.late[method] {
				h.mu.Unlock()
				time.Sleep(time.Second)
				h.mu.Lock()
			}
			if err := h.fails[method]; err != nil {
				return nil, err
			}
			if h.says[method] != nil {
				return h.says[method], nil
			}
			if h.hangs == method {
				h.running = ""
				h.mu.Unlock()
				<-h.killed
				h.mu.Lock()
				return nil, errors.New("killed")
			}
			answer, err := h.serve(method, raw)
			if h.cut[method] {
				h.down = true
				for _, c := range h.connects {
					c.Close()
				}
			}
			return answer, err
		}
	}
	return out
}

// dial is a new connection with a helper of its own.
func (h *toyHost) dial() (io.ReadWriteCloser, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.down {
		return nil, errors.New("connection refused")
	}
	near, far := net.Pipe()
	h.connects = append(h.connects, far)
	go func() { _ = agent.Serve(context.Background(), far, far, "b", h.handlers()) }() // ends with the pipe
	return near, nil
}

// toyKind wants a value; its resources are NICs, so that carriers and pings are measured around them.
var toyKind = resource.Kind{Name: "toy", NIC: true, Asks: func(_ *facts.Snapshot, c resource.Change) (allow, why string) {
	if c.To == "guarded" {
		return "toys", "a guarded value comes back"
	}
	return "", ""
}, Plan: func(snap *facts.Snapshot, raw json.RawMessage) (resource.Difference, error) {
	var want string
	if err := json.Unmarshal(raw, &want); err != nil {
		return resource.Difference{}, err
	}
	d := resource.Difference{Exists: true, Seen: snap.Sysctls["toy"]}
	if got := snap.Sysctls["toy"]; got != want {
		d.Changes = []resource.Change{{Attribute: "value", From: got, To: want}}
	}
	return d, nil
}}

// fileKind wants a file, which is written in the persist stage.
var fileKind = resource.Kind{Name: "file", Stage: resource.StagePersist, Plan: func(snap *facts.Snapshot, _ json.RawMessage) (resource.Difference, error) {
	d := resource.Difference{Exists: true, Seen: snap.Sysctls["file"]}
	if got := snap.Sysctls["file"]; got != "2" {
		d.Changes = []resource.Change{{Attribute: "text", From: got, To: "2", Stage: resource.StagePersist}}
	}
	return d, nil
}}

// stackKind wants a driver stack.
var stackKind = resource.Kind{Name: "stack", Stage: resource.StageStack, Plan: func(snap *facts.Snapshot, _ json.RawMessage) (resource.Difference, error) {
	d := resource.Difference{Exists: true, Seen: snap.Sysctls["stack"]}
	if got := snap.Sysctls["stack"]; got != "2" {
		d.Changes = []resource.Change{{Attribute: "package", From: got, To: "2", Stage: resource.StageStack}}
	}
	return d, nil
}}

// foundKind wants what every host has before its first apply.
var foundKind = resource.Kind{Name: "found", Plan: func(*facts.Snapshot, json.RawMessage) (resource.Difference, error) {
	return resource.Difference{Exists: true, Present: map[resource.Atom]string{"found it": "5"}}, nil
}}

// keyKind wants a key, from which the value is derived that is wanted on all hosts.
var keyKind = resource.Kind{Name: "key", Stage: resource.StageKeys, Plan: func(snap *facts.Snapshot, _ json.RawMessage) (resource.Difference, error) {
	d := resource.Difference{Exists: snap.Sysctls["key"] != "", Seen: snap.Sysctls["key"]}
	if !d.Exists {
		d.Changes = []resource.Change{{Attribute: "key", To: "made in this apply", Stage: resource.StageKeys}}
	}
	return d, nil
}}

// joined are the resources of a host of which the hosts make keys.
func (y *toys) joined(_ *fabric.Fabric, h *fabric.Host, snaps map[string]*facts.Snapshot) []resource.Resource {
	if !y.keys {
		return nil
	}
	out := []resource.Resource{{Addr: resource.Addr{Host: h.Name, Kind: "key", Name: "k"}, Spec: json.RawMessage(`""`)}}
	want := ""
	for _, name := range []string{"a", "b"} {
		if snaps[name] == nil || snaps[name].Sysctls["key"] == "" {
			return out
		}
		want += snaps[name].Sysctls["key"]
	}
	return append(out, resource.Resource{Addr: resource.Addr{Host: h.Name, Kind: "toy", Name: "r0"}, Spec: json.RawMessage(`"` + want + `"`)})
}

// toys are hosts a and b, joined by link rail0, on which the files want the value 2.
type toys struct {
	t      *testing.T
	hosts  map[string]*toyHost
	fabric *fabric.Fabric
	heard  *heard
	state  string
	wants  string // the value; "" is 2
	found  bool   // the hosts have what foundKind wants
	lasts  bool   // the files want a file, too
	stacks bool   // the files want a driver stack, too
	keys   bool   // the files want keys, and what is derived from them instead of the value
	chosen map[string]bool
	half   bool // half links are allowed
}

func newToys(t *testing.T) *toys {
	f := &fabric.Fabric{Name: "f", Links: []*fabric.Link{{Name: "rail0", Endpoints: []fabric.NICRef{{Host: "a", NIC: "r0"}, {Host: "b", NIC: "r0"}}}}}
	y := &toys{t: t, hosts: map[string]*toyHost{}, fabric: f, heard: &heard{}, state: t.TempDir()}
	y.add("a")
	y.add("b")
	return y
}

// add adds a host.
func (y *toys) add(name string) {
	y.hosts[name] = &toyHost{value: "1", fails: map[string]error{}, cut: map[string]bool{}, late: map[string]bool{}, killed: make(chan struct{})}
	y.fabric.Hosts = append(y.fabric.Hosts, &fabric.Host{Name: name, NICs: []*fabric.NIC{{Host: name, Name: "r0", Netdev: "eth0", Up: true}}})
}

func (y *toys) options() SessionOptions {
	return SessionOptions{Build: "b", User: "anna@desk", Invocation: fabric.Invocation{Flags: []string{"-lab", "-var=n=1"}, Path: "f.hcl"}, Parallelism: 2, Tokens: storeIn(y.state), Chosen: y.chosen, HalfLinks: y.half,
		Dial: func(_ context.Context, to transport.Target) (io.ReadWriteCloser, error) {
			return y.hosts[to.Name].dial()
		},
		Resources: Resources{Kinds: resource.Kinds{toyKind, fileKind, stackKind, keyKind, foundKind},
			Desired: func(_ *fabric.Fabric, h *fabric.Host) []resource.Resource {
				out := []resource.Resource{{Addr: resource.Addr{Host: h.Name, Kind: "toy", Name: "r0"}, Spec: json.RawMessage(`"` + cmp2.Or(y.wants, "2") + `"`)}}
				if y.keys {
					out = nil
				}
				if y.lasts {
					out = append(out, resource.Resource{Addr: resource.Addr{Host: h.Name, Kind: "file", Name: "f"}, Spec: json.RawMessage(`"2"`)})
				}
				if y.found {
					out = append(out, resource.Resource{Addr: resource.Addr{Host: h.Name, Kind: "found", Name: "f"}, Spec: json.RawMessage(`"5"`)})
				}
				if y.stacks {
					out = append(out, resource.Resource{Addr: resource.Addr{Host: h.Name, Kind: "stack", Name: "s"}, Spec: json.RawMessage(`"2"`)})
				}
				return out
			},
			Derived:  func(*fabric.Fabric, *fabric.Host, *facts.Snapshot, []resource.Record) []resource.Resource { return nil },
			Joined:   y.joined,
			Looks:    func(*fabric.Fabric, *fabric.Host) []resource.Resource { return nil },
			Compared: func(*fabric.Host) []resource.Resource { return nil }}}
}

// run is an apply without its live checks.
func (y *toys) run(ctx context.Context, o Options) *Report {
	so := y.options()
	so.Changing = true
	return y.runIn(ctx, Open(ctx, y.fabric, so), o)
}

// runSaved is run with a saved plan.
func (y *toys) runSaved(ctx context.Context, saved *planner.Saved) *Report {
	y.t.Helper()
	s, err := OpenSaved(ctx, saved, y.options())
	if err != nil {
		y.t.Fatal(err)
	}
	return y.runIn(ctx, s, Options{})
}

// save makes a plan of the hosts that are chosen (nil: all), and reads it back from the text of its file.
func (y *toys) save(ctx context.Context, chosen map[string]bool) *planner.Saved {
	y.t.Helper()
	o := y.options()
	o.Chosen = chosen
	s := Open(ctx, y.fabric, o)
	defer s.Close()
	text, err := s.Save(s.Propose(ctx)).Encode()
	if err != nil {
		y.t.Fatal(err)
	}
	saved, err := planner.ReadSaved(bytes.NewReader(text), o.Build)
	if err != nil {
		y.t.Fatal(err)
	}
	return saved
}

func (y *toys) runIn(ctx context.Context, s *Session, o Options) *Report {
	defer s.Close()
	o.Allowed, o.Unverified = resource.LinkFlap, !o.CheckRollback
	if o.Lease == 0 {
		o.Lease = 10 * time.Second
	}
	if o.OnFailure == "" {
		o.OnFailure = RollbackAll
	}
	return Run(ctx, s, o, y.heard)
}

// interrupt cancels while a host carries a method out, whose answer comes a second later.
func (y *toys) interrupt(host, method string, cancel func()) {
	h := y.hosts[host]
	h.late[method] = true
	h.on = func(m string) {
		if m == method {
			cancel()
		}
	}
}

// values are what the hosts have now, and fates how the report says that they ended.
func (y *toys) values() (out string) {
	for _, name := range []string{"a", "b"} {
		out += y.hosts[name].value
	}
	return out
}

func fatesOf(r *Report) string {
	var out []string
	for _, h := range r.Outcomes {
		out = append(out, h.Host+" "+string(h.Fate))
	}
	return strings.Join(out, ", ")
}

// count is how often a host was asked for a method.
func (h *toyHost) count(method string) (n int) {
	for _, m := range h.asked {
		if m == method {
			n++
		}
	}
	return n
}

// TestTheEngineKeepsItsPromise: all hosts commit or none, with each policy and each way to fail.
func TestTheEngineKeepsItsPromise(t *testing.T) {
	broken := errors.New("the driver refuses")
	for _, c := range []struct {
		name    string
		set     func(y *toys, cancel func())
		options Options
		ending  Ending
		values  string // of a and b, afterwards
		fates   string
		says    string // in the error
	}{
		{name: "all commit", ending: Done, values: "22", fates: "a committed, b committed"},
		{name: "one fails and all go back", ending: RolledBack, values: "11", fates: "a reverted, b reverted", says: "the driver refuses",
			set: func(y *toys, _ func()) { y.hosts["b"].fails["act"] = broken }},
		{name: "a host's command can be pasted", ending: RolledBack, values: "11", fates: "a reverted, b reverted", says: "run `fabricform rollback -lab -var=n=1 f.hcl`",
			set: func(y *toys, _ func()) { y.hosts["b"].fails["act"] = errors.New("run `fabricform rollback`") }},
		{name: "one fails and goes back alone", options: Options{OnFailure: RollbackHost}, ending: RolledBack, values: "21", fates: "a committed, b reverted",
			says: "the driver refuses\nbecause of -on-failure rollback-host, link rail0 may be changed at one end only, and not work: rolled back on b, changed on a",
			set:  func(y *toys, _ func()) { y.hosts["b"].fails["act"] = broken }},
		{name: "one fails and what was done stays", options: Options{OnFailure: Stop}, ending: Failed, values: "21", fates: "a committed, b committed", says: "apply stopped",
			set: func(y *toys, _ func()) {
				acted := make(chan struct{}) // on a, before it fails on b
				y.hosts["a"].on = func(method string) {
					if method == "act" {
						close(acted)
					}
				}
				y.hosts["b"].on = func(method string) {
					if method == "act" {
						<-acted
					}
				}
				y.hosts["b"].fails["act"] = broken
			}},
		{name: "a change that does not stay", ending: RolledBack, values: "11", fates: "a reverted, b reverted", says: "did not stay",
			set: func(y *toys, _ func()) { y.hosts["b"].forgets = true }},
		{name: "a carrier is lost", ending: RolledBack, values: "11", fates: "a reverted, b reverted", says: "the changes broke checks that passed before: carrier eth0 of b on rail0",
			set: func(y *toys, _ func()) { y.hosts["b"].dark = true }},
		{name: "a port goes down that the files take down", ending: Done, values: "22", fates: "a committed, b committed",
			set: func(y *toys, _ func()) { y.hosts["b"].dark, y.fabric.Hosts[1].NICs[0].Up = true, false }},
		{name: "no new connection gets in", ending: RolledBack, values: "11", fates: "a reverted, b reverted", says: "no longer accepts a new connection",
			set: func(y *toys, _ func()) {
				y.hosts["b"].on = func(method string) {
					if method == "act" {
						y.hosts["b"].down = true
					}
				}
			}},
		{name: "what lasts cannot be written", ending: RolledBack, values: "11", fates: "a reverted, b reverted", says: "no space",
			set: func(y *toys, _ func()) { y.hosts["a"].fails["tx.persist"] = errors.New("no space") }},
		{name: "a host is lost in its commit", ending: OutcomeUnknown, values: "22", fates: "a committed, b lost",
			set: func(y *toys, _ func()) { y.hosts["b"].cut["tx.commit"] = true }},
		{name: "another operator ends the transaction", ending: RolledBack, values: "11", fates: "a reverted, b reverted", says: "host b had already reverted: rollback by bo@desk from 192.0.2.7 at 2026-11-22T10:00:00Z\nhost b: ",
			set: func(y *toys, _ func()) {
				b := y.hosts["b"]
				b.on = func(method string) {
					if method != "act" {
						return
					}
					b.tx.State, b.tx.Why = checkpoint.Reverted, "rollback by bo@desk from 192.0.2.7 at 2026-11-22T10:00:00Z"
					for _, c := range b.connects { // its helper is stopped first
						c.Close()
					}
					b.fails["act"] = errors.New("stopped")
				}
			}},
		{name: "a host moved since the plan was made", ending: RolledBack, values: "11", fates: "a reverted, b reverted", says: "moved since",
			set: func(y *toys, _ func()) {
				y.hosts["b"].fails["act"] = &agent.Error{Stale: true, Message: "it moved since the plan was made"}
			}},
		{name: "somebody else's transaction", ending: Held, values: "11", says: "run `fabricform pending -lab -var=n=1 f.hcl`",
			set: func(y *toys, _ func()) { y.hosts["b"].held = true }},
		{name: "a step that never returns", ending: RolledBack, values: "11", fates: "a reverted, b reverted", says: "host b: the step is stuck: no answer to act within 45s",
			set: func(y *toys, _ func()) { y.hosts["b"].hangs = "act" }},
		{name: "a step that never returns, and the others stay", options: Options{OnFailure: RollbackHost}, ending: RolledBack, values: "21", fates: "a committed, b reverted", says: "the step is stuck",
			set: func(y *toys, _ func()) { y.hosts["b"].hangs = "act" }},
		{name: "an interrupt, and a step that never returns", ending: RolledBack, values: "11", fates: "a reverted, b reverted", says: "interrupted",
			set: func(y *toys, cancel func()) {
				y.hosts["b"].hangs = "act"
				y.interrupt("a", "act", cancel)
			}},
		{name: "a preparation that never returns", ending: RolledBack, values: "11", fates: "a reverted, b reverted", says: "no answer to tx.prepare within 30s",
			set: func(y *toys, _ func()) { y.hosts["b"].hangs = "tx.prepare" }},
		{name: "files that are never written", ending: RolledBack, values: "11", fates: "a reverted, b reverted", says: "no answer to tx.persist within 10m0s",
			set: func(y *toys, _ func()) {
				y.lasts = true
				y.hosts["b"].hangs = "tx.persist"
			}},
		{name: "a snapshot that never comes", ending: RolledBack, values: "11", fates: "a reverted, b reverted", says: "not all hosts could be read again: host b: no answer to snapshot within 1m0s",
			set: func(y *toys, _ func()) {
				y.hosts["b"].on = func(method string) {
					if method == "act" {
						y.hosts["b"].hangs = "snapshot"
					}
				}
			}},
		{name: "a check that never ends", ending: RolledBack, values: "11", fates: "a reverted, b reverted", says: "checks that passed before the changes could not be made again: carrier eth0 of ",
			set: func(y *toys, _ func()) {
				b, reads := y.hosts["b"], 0
				b.on = func(method string) {
					if method == "act" {
						reads = 1
					} else if method == "snapshot" && reads > 0 {
						if reads++; reads == 3 { // the first one proves that the host is as declared
							b.hangs = "snapshot"
						}
					}
				}
			}},
		{name: "a stuck host that nobody reaches any more", ending: OutcomeUnknown, values: "11", fates: "a reverted, b lost", says: "the step is stuck",
			set: func(y *toys, _ func()) {
				y.hosts["b"].hangs = "act"
				y.hosts["b"].on = func(method string) { y.hosts["b"].down = y.hosts["b"].down || method == "act" }
			}},
		{name: "an interrupt while a transaction is opened", ending: Failed, values: "11", says: "nothing was changed on any host: interrupted",
			set: func(y *toys, cancel func()) { y.interrupt("a", "tx.open", cancel) }},
		{name: "an interrupt while the second transaction is opened", ending: Failed, values: "11", says: "nothing was changed on any host: interrupted",
			set: func(y *toys, cancel func()) { y.interrupt("b", "tx.open", cancel) }},
		{name: "an interrupt in a change", ending: RolledBack, values: "11", fates: "a reverted, b reverted", says: "interrupted",
			set: func(y *toys, cancel func()) { y.interrupt("a", "act", cancel) }},
		{name: "an interrupt while nothing is written", ending: Done, values: "22", fates: "a committed, b committed",
			set: func(y *toys, cancel func()) { y.interrupt("a", "tx.persist", cancel) }},
		{name: "an interrupt while files are written", ending: RolledBack, values: "11", fates: "a reverted, b reverted", says: "interrupted",
			set: func(y *toys, cancel func()) {
				y.lasts = true
				y.interrupt("a", "tx.persist", cancel)
			}},
		{name: "an interrupt right after a host refused to prepare", ending: RolledBack, values: "11", fates: "a reverted, b reverted", says: "interrupted\nhost b: the disk is full",
			set: func(y *toys, cancel func()) {
				refused := make(chan struct{})
				y.hosts["b"].fails["tx.prepare"] = errors.New("the disk is full")
				y.hosts["b"].on = func(method string) {
					if method == "tx.prepare" {
						close(refused)
					}
				}
				y.hosts["a"].on = func(method string) {
					if method == "tx.prepare" {
						<-refused
						time.Sleep(time.Second) // b's answer arrives
						cancel()
					}
				}
			}},
		{name: "an interrupt in the commits", ending: Done, values: "22", fates: "a committed, b committed",
			set: func(y *toys, cancel func()) { y.interrupt("a", "tx.commit", cancel) }},
		{name: "an interrupt in the histories", ending: Done, values: "22", fates: "a committed, b committed",
			set: func(y *toys, cancel func()) { y.interrupt("a", "enrol", cancel) }},
		{name: "an interrupt before the live checks", options: Options{CheckRollback: true}, ending: Failed, values: "22", fates: "a committed, b committed", says: "interrupted; the changes are committed, but not verified: run `fabricform verify -lab -var=n=1 f.hcl`",
			set: func(y *toys, cancel func()) { y.interrupt("a", "enrol", cancel) }},
		{name: "an interrupt before the plan", ending: Failed, values: "11", says: "interrupted; nothing was changed",
			set: func(y *toys, cancel func()) { y.interrupt("a", "tx.finish", cancel) }},
		{name: "an interrupt while the hosts are read", ending: Failed, values: "11", says: "interrupted; nothing was changed",
			set: func(y *toys, cancel func()) { y.interrupt("a", "snapshot", cancel) }},
		{name: "an interrupt while hosts are asked whether they are ready", ending: Failed, values: "11", says: "nothing was changed on any host: interrupted",
			set: func(y *toys, cancel func()) { y.interrupt("a", "tx.ready", cancel) }},
		{name: "an interrupt while all go back", ending: RolledBack, values: "11", fates: "a reverted, b reverted", says: "the driver refuses",
			set: func(y *toys, cancel func()) {
				y.hosts["b"].fails["act"] = broken
				y.interrupt("a", "tx.revert", cancel)
			}},
		{name: "an interrupt while a transaction that the other host refused goes back", ending: Failed, values: "11", says: "nothing was changed on any host: host b: the disk is full",
			set: func(y *toys, cancel func()) {
				y.hosts["b"].fails["tx.open"] = errors.New("the disk is full")
				y.interrupt("a", "tx.revert", cancel)
			}},
		{name: "a refusal", ending: Failed, values: "11", says: "not today",
			set: func(y *toys, _ func()) { y.heard.refusal = errors.New("not today") }},
		{name: "a host that does not answer is left out", ending: HostsUnreachable, values: "21", fates: "a committed, b untouched",
			set: func(y *toys, _ func()) { y.fabric.Links, y.hosts["b"].down = nil, true }},
		{name: "a host that says nothing of itself is left out", ending: HostsUnreachable, values: "21", fates: "a committed, b untouched",
			set: func(y *toys, _ func()) { y.fabric.Links, y.hosts["b"].mute = nil, true }},
		{name: "a host whose snapshot is empty is left out", ending: HostsUnreachable, values: "21", fates: "a committed, b untouched",
			set: func(y *toys, _ func()) { y.fabric.Links, y.hosts["b"].empty = nil, true }},
		{name: "a host that says nothing of itself any more", ending: RolledBack, values: "11", fates: "a reverted, b reverted", says: "not all hosts could be read again: host b: ",
			set: func(y *toys, _ func()) {
				y.hosts["b"].on = func(method string) { y.hosts["b"].mute = y.hosts["b"].mute || method == "act" }
			}},
		{name: "a host that never finishes is left out", ending: HostsUnreachable, values: "21", fates: "a committed, b untouched",
			set: func(y *toys, _ func()) { y.fabric.Links, y.hosts["b"].hangs = nil, "tx.finish" }},
		{name: "a host that never sends its snapshot is left out", ending: HostsUnreachable, values: "21", fates: "a committed, b untouched",
			set: func(y *toys, _ func()) { y.fabric.Links, y.hosts["b"].hangs = nil, "snapshot" }},
		{name: "a host that never says whether it is ready", ending: Failed, values: "11", says: "nothing was changed on any host: host b: no answer to tx.ready within 2m0s",
			set: func(y *toys, _ func()) { y.hosts["b"].hangs = "tx.ready" }},
		{name: "a host that never opens its transaction", ending: Failed, values: "11", says: "nothing was changed on any host: host b: no answer to tx.open within 2m0s",
			set: func(y *toys, _ func()) { y.hosts["b"].hangs = "tx.open" }},
		{name: "a history that is never written", ending: Failed, values: "22", fates: "a committed, b committed",
			says: "the committed changes stand, but not every host has recorded them: write the roster and the history on host b: no answer to enrol within 45s. Run `fabricform apply -lab -var=n=1 f.hcl` again",
			set:  func(y *toys, _ func()) { y.hosts["b"].hangs = "enrol" }},
		{name: "an installation that never starts", ending: Failed, values: "11", fates: "a committed, b unfinished", says: "driver stacks are incomplete on b",
			set: func(y *toys, _ func()) { y.stacks, y.hosts["b"].hangs = true, "stack.start" }},
		{name: "an interrupt while one goes back alone", options: Options{OnFailure: RollbackHost}, ending: RolledBack, values: "11", fates: "a reverted, b reverted", says: "the driver refuses",
			set: func(y *toys, cancel func()) {
				y.hosts["b"].fails["act"] = broken
				y.interrupt("b", "tx.revert", cancel)
			}},
		{name: "a failed check leads back", options: Options{CheckRollback: true}, ending: CheckFailed, values: "11", fates: "a reverted, b reverted",
			set: func(y *toys, _ func()) { y.hosts["b"].mtu = 9000 }},
		{name: "a failed check leads back, whatever host is unreachable", options: Options{CheckRollback: true}, ending: CheckFailed, values: "11", fates: "a reverted, b reverted, c untouched",
			set: func(y *toys, _ func()) {
				y.add("c")
				y.hosts["b"].mtu, y.hosts["c"].down = 9000, true
			}},
		{name: "a failed check leads back, whatever an unchanged host refuses", options: Options{CheckRollback: true}, ending: CheckFailed, values: "11", fates: "a reverted, b reverted, c untouched",
			set: func(y *toys, _ func()) {
				y.add("c")
				y.hosts["b"].mtu, y.hosts["c"].value, y.hosts["c"].fails["tx.list"] = 9000, "2", errors.New("the disk is full")
			}},
		{name: "an interrupt while a failed check leads back", options: Options{CheckRollback: true}, ending: CheckFailed, values: "11", fates: "a reverted, b reverted",
			set: func(y *toys, cancel func()) {
				y.hosts["b"].mtu = 9000
				y.interrupt("a", "tx.revert", cancel)
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y := newToys(t)
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour) // without a limit of its own, a silent host would never end the test
				defer cancel()
				if c.set != nil {
					c.set(y, cancel)
				}
				r := y.run(ctx, c.options)
				time.Sleep(time.Second) // late answers end
				synctest.Wait()
				if r.Ending != c.ending {
					t.Errorf("ending %d, want %d: %v", r.Ending, c.ending, r.Err)
				}
				if got := y.values(); got != c.values {
					t.Errorf("values %s, want %s", got, c.values)
				}
				if got := fatesOf(r); got != c.fates {
					t.Errorf("fates %q, want %q", got, c.fates)
				}
				if c.says == "" && r.Err != nil && r.Ending < Failed || c.says != "" && (r.Err == nil || !strings.Contains(r.Err.Error(), c.says)) {
					t.Errorf("error: %v", r.Err)
				}
				if r.Err != nil && strings.Contains(r.Err.Error(), context.Canceled.Error()) {
					t.Errorf("an interrupt cut a call: %v", r.Err)
				}
				for name, h := range y.hosts {
					if len(h.overlaps) > 0 {
						t.Errorf("host %s was asked for %v", name, h.overlaps)
					}
					if h.hangs != "" {
						close(h.killed)
					}
					if h.tx.State.Open() && h.tx.ID != "" && c.ending != OutcomeUnknown {
						t.Errorf("host %s has a transaction that only its lease can end: %s", name, h.tx.State)
					}
					if h.file != "" && h.value == "1" {
						t.Errorf("host %s reverted, but its file still exists", name)
					}
					if r.Ending == Held || y.heard.refusal != nil {
						if slices.Contains(h.asked, "tx.open") || slices.Contains(h.asked, "act") {
							t.Errorf("host %s was asked for %v", name, h.asked)
						}
					}
				}
			})
		})
	}
}

// TestLeasesAreRenewedWhileOtherHostsOpen: a host may take longer than a lease to open its transaction, and must not end
// those of the others.
func TestLeasesAreRenewedWhileOtherHostsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newToys(t)
		a, renewed := y.hosts["a"], 0
		y.hosts["b"].on = func(method string) {
			if method == "tx.open" {
				time.Sleep(time.Minute)
				a.mu.Lock()
				defer a.mu.Unlock()
				renewed = a.beats
			}
		}
		if r := y.run(t.Context(), Options{Lease: 5 * time.Second}); r.Ending != Done || renewed < 50 {
			t.Errorf("ending %d, %v; host a was renewed %d times in the minute in which host b opened its transaction", r.Ending, r.Err, renewed)
		}
	})
}

// TestAReportNamesTheChangesOfOthersThatARevertFound: after a failed apply, as after a rollback.
func TestAReportNamesTheChangesOfOthersThatARevertFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newToys(t)
		kept, overwritten := []resource.Change{{Attribute: "address", To: "10.0.0.7/24"}}, []resource.Change{{Attribute: "mtu", From: "1400", To: "1500"}}
		y.hosts["a"].found = calls.TxInfo{Kept: kept, Overwritten: overwritten}
		y.hosts["b"].fails["act"] = errors.New("the driver refuses")
		r := y.run(t.Context(), Options{})
		if fatesOf(r) != "a reverted, b reverted" {
			t.Fatalf("fates %s", fatesOf(r))
		}
		if a := r.Outcomes[0]; !slices.Equal(a.Kept, kept) || !slices.Equal(a.Overwritten, overwritten) || len(a.Outcomes) != 1 {
			t.Errorf("%+v", a)
		}
	})
}

// TestASilentHostHoldsUpNoOther: host b answers every call but one, and its connection works.
func TestASilentHostHoldsUpNoOther(t *testing.T) {
	for _, c := range []struct {
		method string
		glance bool
		do     func(ctx context.Context, y *toys, s *Session) error
		says   string // of b
	}{
		{"snapshot", true, func(context.Context, *toys, *Session) error { return nil }, "no answer to snapshot within 1m0s"},
		{"tx.list", false, func(ctx context.Context, _ *toys, s *Session) error {
			all, err := s.Transactions(ctx)
			if len(all["a"]) == 0 {
				return errors.New("a's transaction is not listed")
			}
			return err
		}, "no answer to tx.list within 1m0s"},
		{"tx.list", false, func(ctx context.Context, y *toys, s *Session) error {
			r := Rollback(ctx, s, RollbackOptions{Allowed: resource.LinkFlap, HalfLinks: true}, y.heard)
			if r.Ending != HostsUnreachable || y.values() != "12" {
				return fmt.Errorf("ending %d, values %s: %w", r.Ending, y.values(), r.Err)
			}
			return r.Err
		}, "no answer to tx.list within 1m0s"},
		{"tx.reversal", false, func(ctx context.Context, y *toys, s *Session) error {
			r := Rollback(ctx, s, RollbackOptions{Allowed: resource.LinkFlap}, y.heard)
			if r.Err == nil || r.Err.Error() != "nothing was rolled back: host b: no answer to tx.reversal within 3m15s" || y.values() != "22" {
				return fmt.Errorf("values %s: %w", y.values(), r.Err)
			}
			return nil
		}, "no answer to tx.reversal within 3m15s"},
		{"tx.list", false, func(ctx context.Context, y *toys, s *Session) error {
			fates, err := s.undoPlan(ctx, "f", y.hosts["a"].tx.Plan, "anna", []string{"a", "b"}, "a check failed")
			if err == nil || err.Error() != "nothing was rolled back, because not every host can be: host b: no answer to tx.list within 1m0s" || len(fates) > 0 || y.values() != "22" {
				return fmt.Errorf("values %s, fates %v: %w", y.values(), fates, err)
			}
			return nil
		}, "no answer to tx.list within 1m0s"},
	} {
		t.Run(c.method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				y := newToys(t)
				y.applyOn(ctx, "2")
				b := y.hosts["b"]
				b.hangs = c.method
				o := y.options()
				o.Glance = c.glance
				s := Open(ctx, y.fabric, o)
				defer s.Close()
				if err := c.do(ctx, y, s); err != nil {
					t.Error(err)
				}
				if got := s.Unreachable(); len(got) != 1 || got["b"] != c.says {
					t.Errorf("unreachable: %v", got)
				}
				if !slices.Contains(s.Hosts(), "a") {
					t.Error("host a is not reachable any more")
				}
				close(b.killed)
			})
		})
	}
}

// TestAnUnknownAtomIsAProblemOfItsHost: an atom that no build of this version can have written leaves its host out, with its
// link, and every other host is changed.
func TestAnUnknownAtomIsAProblemOfItsHost(t *testing.T) {
	for _, atom := range []resource.Atom{"bogus x y", "", " ", "toy", "toy  value"} {
		synctest.Test(t, func(t *testing.T) {
			y := newToys(t)
			y.lasts, y.hosts["b"].atoms = true, map[resource.Atom]resource.Owned{atom: {Ours: "1"}}
			r := y.run(t.Context(), Options{})
			if r.Ending != HostsUnreachable || r.Err != nil || len(r.Plan.Problems()) > 0 || y.hosts["a"].file != "2" || y.hosts["b"].file != "" || y.values() != "11" {
				t.Errorf("%q: ending %d, %v, problems %v, values %s", atom, r.Ending, r.Err, r.Plan.Problems(), y.values())
			}
			want := fmt.Sprintf("its record of fabric \"f\" names %q, which this build cannot restore: use the build that wrote it", atom)
			if why := r.Plan.Unreachable(); len(why) != 1 || why["b"] != want {
				t.Errorf("%q: %v", atom, why)
			}
		})
	}
}

// TestTheOrderOfAnApply: nothing is final before all hosts passed the gate, and histories come last.
func TestTheOrderOfAnApply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newToys(t)
		if r := y.run(t.Context(), Options{}); r.Ending != Done {
			t.Fatal(r.Err)
		}
		for name, h := range y.hosts {
			if d := cmp.Diff([]string{"tx.finish", "tx.ready", "tx.open", "act", "tx.prepare", "tx.persist", "tx.commit", "enrol"}, h.asked); d != "" {
				t.Errorf("host %s: %s", name, d)
			}
			if len(h.history) != 1 || h.history[0].Changes != 1 || h.history[0].Who != "anna@desk" {
				t.Errorf("host %s has the history %+v", name, h.history)
			}
		}
		if d := cmp.Diff([]string{"plan: 2", "asked for 2", "walk: a committed", "walk: b committed", "note: Live checks skipped (-no-verify): nothing was verified."}, y.heard.lines); d != "" {
			t.Error(d)
		}
		if left, err := storeIn(y.state).all(""); err != nil || len(left) != 0 {
			t.Errorf("tokens are left: %v, %v", left, err)
		}
	})
}

// TestAnApplyAdoptsBeforeItChanges: in the transaction, so that a revert restores the record; at the end on hosts that it does not change; and not
// at the end of an apply that was rolled back.
func TestAnApplyAdoptsBeforeItChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		adopted := map[resource.Atom]string{"found it": "5"}
		y := newToys(t)
		y.found, y.hosts["b"].value = true, "2"
		if r := y.run(t.Context(), Options{}); r.Ending != Done {
			t.Fatal(r.Err)
		}
		for name, want := range map[string][]string{"a": {"tx.finish", "tx.ready", "tx.open", "enrol", "act", "tx.prepare", "tx.persist", "tx.commit", "enrol"}, "b": {"tx.finish", "enrol"}} {
			h := y.hosts[name]
			if d := cmp.Diff(want, h.asked); d != "" {
				t.Errorf("host %s: %s", name, d)
			}
			for _, got := range h.adopts {
				if d := cmp.Diff(adopted, got); d != "" {
					t.Errorf("host %s: %s", name, d)
				}
			}
		}
		if want := "note: ✓ a, b: 1 value each adopted, as before the first apply"; !slices.Contains(y.heard.lines, want) {
			t.Errorf("it does not say what is adopted: %q", y.heard.lines)
		}
		for name, want := range map[string][2]int{"a": {1, 1}, "b": {0, 1}} {
			if h := y.hosts[name].history; len(h) != 1 || [2]int{h[0].Changes, h[0].Adopted} != want {
				t.Errorf("host %s has the history %+v", name, h)
			}
		}
		y = newToys(t)
		y.found, y.hosts["a"].value, y.hosts["b"].value = true, "2", "2"
		if r := y.run(t.Context(), Options{}); r.Ending != Done || !maps.Equal(r.Adopted, map[string]int{"a": 1, "b": 1}) {
			t.Errorf("an apply that only adopts: %v, %v, %v", r.Ending, r.Err, r.Adopted)
		}
		if r := y.rollback(t.Context(), RollbackOptions{}); r.Err == nil || !strings.Contains(r.Err.Error(), "An apply that only adopted changed nothing: ") {
			t.Errorf("the rollback of an apply that only adopts: %v", r.Err)
		}
		y = newToys(t)
		y.found, y.hosts["a"].fails["act"] = true, errors.New("no")
		if r := y.run(t.Context(), Options{}); r.Ending != RolledBack {
			t.Fatal(r.Ending, r.Err)
		}
		if strings.Contains(strings.Join(y.heard.lines, "\n"), "adopted") {
			t.Errorf("an apply that was rolled back adopts: %q", y.heard.lines)
		}
		if h := y.hosts["a"]; len(h.adopts) != 2 || len(h.adopts[0]) != 1 || h.adopts[1] != nil {
			t.Errorf("host a, which was rolled back, was to adopt %v", h.adopts)
		}
		y = newToys(t)
		y.found, y.hosts["a"].fails["enrol"] = true, errors.New("no space")
		if r := y.run(t.Context(), Options{}); r.Ending != RolledBack || y.values() != "11" || slices.Contains(y.hosts["a"].asked, "act") {
			t.Errorf("without a record: ending %d, %v, values %s", r.Ending, r.Err, y.values())
		}
	})
}

// TestHostsThatChangeInWavesAdoptOnce: the first wave's records are those of all hosts that adopt.
func TestHostsThatChangeInWavesAdoptOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newToys(t)
		y.found = true
		for _, h := range y.fabric.Hosts {
			h.Slurm = &fabric.Slurm{Wave: 1}
		}
		so := y.options()
		so.Scheduler, so.Changing = &cluster{}, true
		if r := y.runIn(t.Context(), Open(t.Context(), y.fabric, so), Options{}); r.Ending != Done || !maps.Equal(r.Adopted, map[string]int{"a": 1, "b": 1}) {
			t.Fatal(r.Ending, r.Err, r.Adopted)
		}
		for name, h := range y.hosts {
			changes, adopted := 0, 0
			for _, e := range h.history {
				changes, adopted = changes+e.Changes, adopted+e.Adopted
			}
			if changes != 1 || adopted != 1 {
				t.Errorf("host %s has the history %+v", name, h.history)
			}
		}
	})
}

// TestASavedPlanIsAppliedOnceAndAsItWas: hosts that moved since are left as they are.
func TestASavedPlanIsAppliedOnceAndAsItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newToys(t)
		y.fabric.Links = nil
		saved := y.save(t.Context(), nil)
		y.hosts["b"].value = "7"
		r := y.runSaved(t.Context(), saved)
		if r.Ending != Stale || r.Err != nil || y.values() != "27" {
			t.Errorf("ending %d, %v, values %s", r.Ending, r.Err, y.values())
		}
		for _, h := range r.Plan.Hosts {
			if (h.Name == "b") != (len(h.Stale) > 0) {
				t.Errorf("host %s is stale: %q", h.Name, h.Stale)
			}
		}
		if slices.Contains(y.hosts["b"].asked, "enrol") {
			t.Error("the roster was written on a host that was left out")
		}
		y.hosts["a"].value, y.hosts["b"].value = "1", "1"
		r = y.runSaved(t.Context(), saved)
		if r.Ending != Stale || r.Err == nil || !strings.Contains(r.Err.Error(), "this plan was already applied at") || r.Plan != nil || y.values() != "11" {
			t.Errorf("again: ending %d, %v, values %s", r.Ending, r.Err, y.values())
		}
	})
}

// TestAStaleHostStaysSkippedAfterDriverStacks: the plan for the rest is made again once the stacks are installed.
func TestAStaleHostStaysSkippedAfterDriverStacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newToys(t)
		y.stacks, y.fabric.Links = true, nil
		saved := y.save(t.Context(), nil)
		y.hosts["b"].value = "7"
		r := y.runSaved(t.Context(), saved)
		if r.Ending != Stale || r.Err != nil || y.values() != "27" || y.hosts["a"].stack+y.hosts["b"].stack != "2" {
			t.Errorf("ending %d, %v, values %s, stacks %q and %q", r.Ending, r.Err, y.values(), y.hosts["a"].stack, y.hosts["b"].stack)
		}
	})
}

// TestASavedPlanTouchesNoHostThatItDoesNotHold: fault 27. Such a host is not even asked.
func TestASavedPlanTouchesNoHostThatItDoesNotHold(t *testing.T) {
	for _, c := range []struct {
		name   string
		save   func(y *toys, ctx context.Context) *planner.Saved
		ending Ending
	}{
		{"b was unreachable when the plan was made", func(y *toys, ctx context.Context) *planner.Saved {
			y.hosts["b"].down = true
			defer func() { y.hosts["b"].down = false }()
			return y.save(ctx, nil)
		}, HostsUnreachable},
		{"b was not chosen", func(y *toys, ctx context.Context) *planner.Saved {
			return y.save(ctx, map[string]bool{"a": true})
		}, Done},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y := newToys(t)
				y.fabric.Links = nil
				saved := c.save(y, t.Context())
				y.hosts["a"].asked, y.hosts["b"].asked = nil, nil
				r := y.runSaved(t.Context(), saved)
				if r.Ending != c.ending || r.Err != nil || y.values() != "21" {
					t.Errorf("ending %d, want %d: %v, values %s", r.Ending, c.ending, r.Err, y.values())
				}
				if asked := y.hosts["b"].asked; len(asked) > 0 {
					t.Errorf("b was asked for %v", asked)
				}
				if why := r.Plan.Unreachable()["b"]; (why != "") != (c.ending == HostsUnreachable) || why != "" && !strings.Contains(why, "unreachable when the plan was saved") {
					t.Errorf("b is unreachable: %q", why)
				}
			})
		})
	}
}

// TestACableHasTwoEnds: without one end nothing of the link is changed at the other, the rest is applied, and all that is
// left out is named. The toy value belongs to the link, the file does not.
func TestACableHasTwoEnds(t *testing.T) {
	away := func(y *toys) { y.hosts["b"].down = true }
	drifted := func(y *toys) { y.hosts["b"].value = "7" }
	link := []planner.LeftOut{{Kind: planner.OfLink, Name: "rail0", Missing: []string{"b"}, Ends: []resource.Addr{{Host: "a", Kind: "toy", Name: "r0"}}}}
	half := slices.Clone(link)
	half[0].Half = true
	inPlan := slices.Clone(link)
	inPlan[0].Saved = true
	for _, c := range []struct {
		name      string
		before    func(y *toys) // the plan is saved; nil: no plan is saved
		then      func(y *toys)
		halfSaved bool // plan -allow=half-links
		half      bool // apply -allow=half-links
		ending    Ending
		values    string
		file      string // of a
		left      []planner.LeftOut
	}{
		{name: "b is unreachable", then: away, ending: HostsUnreachable, values: "11", file: "2", left: link},
		{name: "b is unreachable, and half links are allowed", then: away, half: true, ending: HostsUnreachable, values: "21", file: "2", left: half},
		{name: "b was unreachable when the plan was saved", before: away, then: func(y *toys) { y.hosts["b"].down = false }, ending: HostsUnreachable, values: "11", file: "2", left: inPlan},
		{name: "the saved plan does not show half a link", before: away, half: true, ending: HostsUnreachable, values: "11", file: "2", left: inPlan},
		{name: "the saved plan shows half a link", before: away, halfSaved: true, half: true, ending: HostsUnreachable, values: "21", file: "2", left: half},
		{name: "the permission is not saved", before: away, halfSaved: true, ending: HostsUnreachable, values: "11", file: "2", left: link},
		{name: "b is lost between plan and apply", before: func(*toys) {}, then: away, ending: HostsUnreachable, values: "11", file: "2", left: link},
		{name: "b is lost between plan and apply, and half links are allowed", before: func(*toys) {}, then: away, half: true, ending: HostsUnreachable, values: "21", file: "2", left: half},
		{name: "b drifted", before: func(*toys) {}, then: drifted, ending: Stale, values: "17", file: "2", left: link},
		{name: "b drifted, and half links are allowed", before: func(*toys) {}, then: drifted, half: true, ending: Stale, values: "27", file: "2", left: half},
		{name: "b is not chosen", before: nil, then: func(y *toys) { y.chosen = map[string]bool{"a": true} }, ending: Done, values: "21", file: "2"},
		{name: "b is lost after the transactions were opened", ending: RolledBack, values: "11", then: func(y *toys) {
			y.hosts["b"].on = func(method string) { y.hosts["b"].down = y.hosts["b"].down || method == "act" }
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y := newToys(t)
				y.lasts = true
				var saved *planner.Saved
				if c.before != nil {
					c.before(y)
					y.half = c.halfSaved
					saved = y.save(t.Context(), nil)
				}
				if c.then != nil {
					c.then(y)
				}
				y.half = c.half
				var r *Report
				if saved != nil {
					r = y.runSaved(t.Context(), saved)
				} else {
					r = y.run(t.Context(), Options{})
				}
				if r.Ending != c.ending || y.values() != c.values || y.hosts["a"].file != c.file {
					t.Errorf("ending %d, want %d: %v; values %s, want %s; the file of a is %q", r.Ending, c.ending, r.Err, y.values(), c.values, y.hosts["a"].file)
				}
				if d := cmp.Diff(c.left, r.Plan.LeftOut); d != "" {
					t.Error(d)
				}
				for _, h := range r.Plan.Hosts {
					held := h.Name == "a" && len(c.left) > 0 && !c.left[0].Half
					if held != slices.Equal(h.LeftOut, link[0].Ends) {
						t.Errorf("host %s: left out are %v", h.Name, h.LeftOut)
					}
				}
			})
		})
	}
}

// TestWhatWasLeftOutIsNotExpectedByAConfirm: the hosts are compared with what the apply made.
func TestWhatWasLeftOutIsNotExpectedByAConfirm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newToys(t)
		y.lasts = true
		y.hosts["b"].down = true
		if r := y.run(t.Context(), Options{Manual: true, Lease: time.Minute}); r.Ending != HostsUnreachable || r.Err != nil {
			t.Fatalf("ending %d, %v", r.Ending, r.Err)
		}
		if r := Confirm(t.Context(), y.fabric, y.options(), "", y.heard); r.Ending != Done || fatesOf(r) != "a committed" || y.values() != "11" || y.hosts["a"].file != "2" {
			t.Errorf("ending %d, %v, fates %q, values %s", r.Ending, r.Err, fatesOf(r), y.values())
		}
	})
}

// TestWhatWasLeftOutIsNotChecked: a check of a link that was left out would fail without a fault, so it is
// skipped and rolls nothing back.
func TestWhatWasLeftOutIsNotChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newToys(t)
		y.lasts = true
		saved := y.save(t.Context(), nil)
		y.hosts["b"].value, y.hosts["b"].mtu = "7", 9000
		s, err := OpenSaved(t.Context(), saved, y.options())
		if err != nil {
			t.Fatal(err)
		}
		r := y.runIn(t.Context(), s, Options{CheckRollback: true})
		if r.Ending != Stale || r.Err != nil || y.hosts["a"].file != "2" {
			t.Errorf("ending %d, %v, the file of a is %q", r.Ending, r.Err, y.hosts["a"].file)
		}
		skipped := map[validators.SubjectKind]bool{}
		for _, v := range r.Results {
			if v.Subject.Kind == validators.SubjectLink || v.Check == validators.CheckNCCL && v.Host == "a" {
				skipped[v.Subject.Kind] = true
				if v.Skipped != validators.NotApplied {
					t.Errorf("checked: %+v", v)
				}
			}
		}
		if !skipped[validators.SubjectLink] || !skipped[validators.SubjectHost] {
			t.Errorf("the link or its host is not named: %+v", r.Results)
		}
	})
}

// TestWhatIsRemovedNeedsNoOtherEnd: a destroy.
func TestWhatIsRemovedNeedsNoOtherEnd(t *testing.T) {
	y := newToys(t)
	y.hosts["b"].down = true
	o := y.options()
	o.Destroy = true
	s := Open(t.Context(), y.fabric, o)
	defer s.Close()
	if p := s.Propose(t.Context()); len(p.LeftOut) > 0 {
		t.Errorf("left out: %v", p.LeftOut)
	}
}

// TestASavedPlanNamesItsFilesFromEverywhere: apply may run in another directory than plan.
func TestASavedPlanNamesItsFilesFromEverywhere(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	by := fabric.Invocation{Flags: []string{"-var=n=1", "-var-file=site.fabricvars"}, Path: "f.hcl"}
	s := &Session{Fabric: &fabric.Fabric{Name: "f"}}
	saved := s.Save(&planner.Plan{Fabric: "f", Invocation: by})
	want := fabric.Invocation{Flags: []string{"-var=n=1", "-var-file=" + filepath.Join(here, "site.fabricvars")}, Path: filepath.Join(here, "f.hcl")}
	if d := cmp.Diff(want, saved.Plan.Invocation); d != "" {
		t.Error(d)
	}
	if by.Flags[1] != "-var-file=site.fabricvars" {
		t.Errorf("the plan that was saved has now %q", by.Flags)
	}
}

// TestPlanEndings: hosts that changed since the plan was saved come before problems and unreachable hosts.
func TestPlanEndings(t *testing.T) {
	stale, refused := planner.HostPlan{Name: "s", Stale: []string{"mtu"}}, planner.HostPlan{Name: "p", Problems: []planner.Problem{{Message: "no"}}}
	away := planner.HostPlan{Name: "u", Unreachable: "refused"}
	for want, hosts := range map[Ending][]planner.HostPlan{Stale: {away, refused, stale}, Failed: {away, refused}, HostsUnreachable: {away}, Done: {{Name: "d"}}} {
		if got := PlanEnding(&planner.Plan{Hosts: hosts}); got != want {
			t.Errorf("ending %d, want %d", got, want)
		}
	}
}

// TestASavedPlanIsForTheHostsThatItWasMadeOn: the real ones, or those of one lab.
func TestASavedPlanIsForTheHostsThatItWasMadeOn(t *testing.T) {
	for _, c := range []struct{ saved, lab, says string }{
		{"", "pair", "made for the declared hosts, not for lab \"pair\": run it without -lab"},
		{"pair", "", "made for lab \"pair\", not for the declared hosts: run it with -lab=pair"},
		{"pair", "other", "made for lab \"pair\", not for lab \"other\": run it with -lab=pair"},
	} {
		y := newToys(t)
		saved := y.save(t.Context(), nil)
		saved.Lab = c.saved
		o := y.options()
		o.Tokens.Lab = c.lab
		if _, err := OpenSaved(t.Context(), saved, o); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("a plan of %q on %q: %v", c.saved, c.lab, err)
		}
	}
}

// TestWhatWaitsIsConfirmedOnAllHostsOrNone: with the tokens that the apply left.
func TestWhatWaitsIsConfirmedOnAllHostsOrNone(t *testing.T) {
	for _, c := range []struct {
		name   string
		set    func(y *toys)
		ending Ending
		values string
		fates  string
	}{
		{"all are as they were made", nil, Done, "22", "a committed, b committed"},
		{"one is not as it was made", func(y *toys) { y.hosts["b"].value = "7" }, RolledBack, "11", "a reverted, b reverted"},
		{"one host reverted automatically", func(y *toys) {
			y.hosts["b"].value, y.hosts["b"].tx = "1", calls.TxInfo{TxRef: calls.TxRef{ID: "9"}, Fabric: "g", State: checkpoint.Committed}
		}, RolledBack, "11", "a reverted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y := newToys(t)
				r := y.run(t.Context(), Options{Manual: true, Lease: time.Minute})
				if got := fatesOf(r); r.Ending != Done || got != "a "+string(Waiting)+", b "+string(Waiting) {
					t.Fatalf("ending %d, %v, fates %q", r.Ending, r.Err, got)
				}
				if !strings.Contains(strings.Join(y.heard.lines, "\n"), "run `fabricform confirm -lab -var=n=1 f.hcl`") {
					t.Errorf("the command cannot be pasted: %q", y.heard.lines)
				}
				if n := y.hosts["a"].count("tx.persist") + y.hosts["a"].count("tx.commit"); n > 0 {
					t.Error("it is final before it was confirmed")
				}
				if c.set != nil {
					c.set(y)
				}
				r = Confirm(t.Context(), y.fabric, y.options(), "", y.heard)
				if got := fatesOf(r); r.Ending != c.ending || got != c.fates || y.values() != c.values {
					t.Errorf("ending %d, %v, fates %q, values %s", r.Ending, r.Err, got, y.values())
				}
				if r = Confirm(t.Context(), y.fabric, y.options(), "", y.heard); r.Ending != Failed || r.Err == nil {
					t.Errorf("there is something left to confirm: %d", r.Ending)
				}
			})
		})
	}
}

// TestATokenOfAnotherFabricEndsNothing: its hosts may have the same names.
func TestATokenOfAnotherFabricEndsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newToys(t)
		y.run(t.Context(), Options{Manual: true, Lease: time.Minute})
		all, err := storeIn(y.state).all("")
		if err != nil || len(all) != 1 {
			t.Fatal(all, err)
		}
		other := storeIn(t.TempDir())
		other.Fabric, all[0].Fabric = "g", "g"
		saveTokens(t, other, all[0])
		path, err := other.path(all[0])
		if err != nil {
			t.Fatal(err)
		}
		for name, h := range y.hosts {
			h.asked = nil
			r := Confirm(t.Context(), y.fabric, y.options(), path, y.heard)
			if r.Ending != Failed || r.Err == nil || !strings.Contains(r.Err.Error(), `belongs to fabric "g", not "f"`) || len(h.asked) > 0 {
				t.Errorf("host %s was asked for %v: ending %d, %v", name, h.asked, r.Ending, r.Err)
			}
		}
	})
}

// TestAnInterruptDoesNotPartAConfirm: what one host commits, the other commits.
func TestAnInterruptDoesNotPartAConfirm(t *testing.T) {
	for _, method := range []string{"tx.persist", "tx.commit"} {
		synctest.Test(t, func(t *testing.T) {
			y := newToys(t)
			y.run(t.Context(), Options{Manual: true, Lease: time.Minute})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			y.interrupt("a", method, cancel)
			if r := Confirm(ctx, y.fabric, y.options(), "", y.heard); r.Ending != Done || fatesOf(r) != "a committed, b committed" || y.values() != "22" {
				t.Errorf("interrupted in %s: ending %d, %v, fates %q", method, r.Ending, r.Err, fatesOf(r))
			}
		})
	}
}

// TestNoChangesSaysWhatIsStillPending: what an apply made that was not confirmed is as declared, and may still be reverted.
func TestNoChangesSaysWhatIsStillPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newToys(t)
		y.run(t.Context(), Options{Manual: true, Lease: time.Minute})
		y.heard.lines = nil
		if r := y.run(t.Context(), Options{}); r.Ending != Done || r.Err != nil {
			t.Fatalf("ending %d, %v", r.Ending, r.Err)
		}
		said := strings.Join(y.heard.lines, "\n")
		for _, want := range []string{"host a: a transaction of fabric \"f\" is open", "host b: a transaction", "run `fabricform confirm -lab -var=n=1 f.hcl`"} {
			if !strings.Contains(said, want) {
				t.Errorf("%q is missing in\n%s", want, said)
			}
		}
	})
}

// TestConfirmAfterTheLeaseSaysItOnce: all hosts have reverted automatically.
func TestConfirmAfterTheLeaseSaysItOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newToys(t)
		y.run(t.Context(), Options{Manual: true, Lease: time.Minute})
		for _, h := range y.hosts {
			h.value, h.tx.State, h.tx.Why, h.asked = "1", checkpoint.Reverted, "the lease expired", nil
		}
		r := Confirm(t.Context(), y.fabric, y.options(), "", y.heard)
		if got := fatesOf(r); r.Ending != RolledBack || got != "a reverted, b reverted" || r.Err == nil || r.Err.Error() != "too late to confirm: the hosts have already rolled back automatically" {
			t.Errorf("ending %d, fates %q, %v", r.Ending, got, r.Err)
		}
		if n := y.hosts["a"].count("tx.persist") + y.hosts["a"].count("tx.revert"); n > 0 {
			t.Errorf("a was asked for %v", y.hosts["a"].asked)
		}
		if left, err := storeIn(y.state).all(""); err != nil || len(left) != 0 {
			t.Errorf("tokens are left: %v, %v", left, err)
		}
	})
}

// rollback rolls back as the operator would.
func (y *toys) rollback(ctx context.Context, o RollbackOptions, chosen ...string) *Report {
	so := y.options()
	if len(chosen) > 0 {
		so.Chosen = map[string]bool{}
		for _, h := range chosen {
			so.Chosen[h] = true
		}
	}
	s := Open(ctx, y.fabric, so)
	defer s.Close()
	o.Allowed = resource.LinkFlap
	return Rollback(ctx, s, o, y.heard)
}

// applyOn applies the value on one host, or on both.
func (y *toys) applyOn(ctx context.Context, value string, chosen ...string) {
	y.t.Helper()
	y.wants = value
	so := y.options()
	if len(chosen) > 0 {
		so.Chosen = map[string]bool{}
		for _, h := range chosen {
			so.Chosen[h] = true
		}
	}
	time.Sleep(time.Second) // of the bubble's clock: transactions differ in their time
	if r := y.runIn(ctx, Open(ctx, y.fabric, so), Options{}); r.Ending != Done || r.Err != nil {
		y.t.Fatalf("ending %d, %v", r.Ending, r.Err)
	}
}

// TestRollbackTakesTheNewestTransactionOfItsHostsAlone: fault 34. A host that the last apply did not touch is left alone, and
// each further rollback takes the transaction before.
func TestRollbackTakesTheNewestTransactionOfItsHostsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newToys(t)
		y.applyOn(t.Context(), "2")
		y.applyOn(t.Context(), "3", "b")
		y.applyOn(t.Context(), "4", "a")
		for _, c := range []struct{ fates, values string }{{"a reverted", "23"}, {"b reverted", "22"}, {"a reverted, b reverted", "11"}} {
			y.heard.lines = nil
			r := y.rollback(t.Context(), RollbackOptions{})
			if r.Ending != Done || r.Err != nil || fatesOf(r) != c.fates || y.values() != c.values {
				t.Errorf("ending %d, %v, fates %q, values %s", r.Ending, r.Err, fatesOf(r), y.values())
			}
			if n := len(r.Outcomes); !slices.Contains(y.heard.lines, fmt.Sprintf("plan: %d", n)) || !slices.Contains(y.heard.lines, fmt.Sprintf("asked for %d", n)) {
				t.Errorf("it was not shown and asked for: %q", y.heard.lines)
			}
		}
		if r := y.rollback(t.Context(), RollbackOptions{}); r.Ending != Failed || r.Err == nil || !strings.HasPrefix(r.Err.Error(), "nothing to roll back") || y.values() != "11" {
			t.Errorf("a fourth: ending %d, %v, values %s", r.Ending, r.Err, y.values())
		}
		if h := y.hosts["a"].history; len(h) != 4 || h[3].Command != resource.RollbackCommand {
			t.Errorf("history %+v", h)
		}
		// Of hosts that are away, nobody knows whether there is something to take back.
		y.hosts["a"].down, y.hosts["b"].down = true, true
		if r := y.rollback(t.Context(), RollbackOptions{}); r.Ending != HostsUnreachable || r.Err != nil {
			t.Errorf("all hosts are away: ending %d, %v", r.Ending, r.Err)
		}
	})
}

// TestRollbackNamesTransactionsInOppositeOrders: no rollback can take one of them from all of its hosts.
func TestRollbackNamesTransactionsInOppositeOrders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newToys(t)
		y.applyOn(t.Context(), "2")
		y.applyOn(t.Context(), "3")
		b := y.hosts["b"]
		b.tx, b.past[0].TxInfo = b.past[0].TxInfo, b.tx
		r := y.rollback(t.Context(), RollbackOptions{})
		if r.Ending != Failed || r.Err == nil || strings.Count(r.Err.Error(), ") on a, b") != 2 || y.values() != "33" ||
			!strings.HasSuffix(r.Err.Error(), "run `fabricform rollback -host=HOST -lab -var=n=1 f.hcl`") {
			t.Errorf("ending %d, %v, values %s", r.Ending, r.Err, y.values())
		}
	})
}

// TestRollbackGoesAsFarAsBackupsAreKept: then it says so, and changes nothing on any host.
func TestRollbackGoesAsFarAsBackupsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newToys(t)
		y.applyOn(t.Context(), "2") // kept on a alone, in the end
		for n := range keptToys + 1 {
			y.applyOn(t.Context(), fmt.Sprint(3+n), "b")
		}
		for n := range keptToys + 1 {
			if r := y.rollback(t.Context(), RollbackOptions{}); r.Ending != Done || fatesOf(r) != "b reverted" {
				t.Fatalf("rollback %d: ending %d, %v, fates %q", n+1, r.Ending, r.Err, fatesOf(r))
			}
		}
		asks := len(y.hosts["a"].asks) + len(y.hosts["b"].asks)
		r := y.rollback(t.Context(), RollbackOptions{})
		if r.Ending != Failed || r.Err == nil || !strings.Contains(r.Err.Error(), "host b has no backup of it any more: each host keeps its last five transactions") {
			t.Errorf("ending %d, %v", r.Ending, r.Err)
		}
		if y.values() != "22" || asks != len(y.hosts["a"].asks)+len(y.hosts["b"].asks) {
			t.Errorf("values %s", y.values())
		}
	})
}

// TestRollbackAsksBeforeItChangesAnything: a refusal, or changes of others that cannot stay, leave every host alone.
func TestRollbackAsksBeforeItChangesAnything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newToys(t)
		y.applyOn(t.Context(), "2")
		nothing := func(what string, r *Report, says string) {
			t.Helper()
			if r.Ending != Failed || r.Err == nil || !strings.Contains(r.Err.Error(), says) || y.values() != "22" || len(y.hosts["a"].asks)+len(y.hosts["b"].asks) > 0 {
				t.Errorf("%s: ending %d, %v, values %s", what, r.Ending, r.Err, y.values())
			}
		}
		y.heard.refusal = errors.New("nothing was changed: no")
		nothing("refused", y.rollback(t.Context(), RollbackOptions{}), "nothing was changed: no")
		for _, h := range y.hosts { // all that differs is of somebody else
			h.reversed = calls.TxReversed{Digest: "x", Reversal: checkpoint.Reversal{Kept: []resource.Change{{Attribute: "value", From: "2", To: "5", Atom: "toy r0 value"}}}}
		}
		nothing("nothing left to revert", y.rollback(t.Context(), RollbackOptions{}), "nothing was changed: no")
		y.hosts["a"].reversed = calls.TxReversed{}
		y.heard.refusal = nil
		lost := resource.Change{Attribute: "route", From: "10.9.0.0/16", Atom: "route 254 10.9.0.0/16 0"}
		y.hosts["b"].reversed = calls.TxReversed{Digest: "x", Reversal: checkpoint.Reversal{Changes: []resource.Change{lost, {Attribute: "value", From: "2", To: "guarded", Atom: "toy r0 value"}}, Overwritten: []resource.Change{lost}}}
		nothing("others' changes", y.rollback(t.Context(), RollbackOptions{}), "b: route.254: route 10.9.0.0/16. To roll them back too, run `fabricform rollback -allow=foreign -lab -var=n=1 f.hcl`")
		nothing("a permission", y.rollback(t.Context(), RollbackOptions{Foreign: true}), "nothing was rolled back: on host b, a guarded value comes back. To allow this, run `fabricform rollback -allow=toys -lab -var=n=1 f.hcl`")
		y.hosts["b"].fails["tx.reversal"] = errors.New("device eth0 does not exist any more")
		nothing("a host that cannot be read", y.rollback(t.Context(), RollbackOptions{}), "nothing was rolled back: host b: ")
		delete(y.hosts["b"].fails, "tx.reversal")
		y.heard.lines = nil
		r := y.rollback(t.Context(), RollbackOptions{Foreign: true, Permitted: []string{"toys"}})
		if r.Ending != Done || r.Err != nil || y.values() != "11" {
			t.Errorf("allowed: ending %d, %v, values %s", r.Ending, r.Err, y.values())
		}
		if p := y.hosts["b"].asks[0]; !p.Foreign || p.Digest != "x" || p.User != "anna@desk" {
			t.Errorf("asked for %+v", p)
		}
	})
}

// TestARollbackKeepsTheNamesOfVanishedHosts: the record from before the first apply names no host. One that the files no longer
// name still has its changes, so the next plan must name it.
func TestARollbackKeepsTheNamesOfVanishedHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newToys(t)
		y.applyOn(t.Context(), "2")
		y.hosts["a"].roster = []resource.Member{{Name: "a"}, {Name: "b"}}
		y.fabric.Hosts, y.fabric.Links = y.fabric.Hosts[:1], nil
		y.hosts["a"].on = func(method string) {
			if method == "tx.revert" {
				y.hosts["a"].roster = []resource.Member{}
			}
		}
		r := y.rollback(t.Context(), RollbackOptions{})
		if r.Ending != Done || r.Err != nil || len(r.Plan.Vanished) != 1 || r.Plan.Vanished[0].Name != "b" {
			t.Errorf("ending %d, %v, the plan names %v", r.Ending, r.Err, r.Plan.Vanished)
		}
		s := Open(t.Context(), y.fabric, y.options())
		defer s.Close()
		if p := s.Propose(t.Context()); len(p.Vanished) != 1 || p.Vanished[0].Name != "b" || len(p.Enrol) != 0 {
			t.Errorf("after the rollback, the plan names %v and would enrol %v", p.Vanished, p.Enrol)
		}
	})
}

// TestRollbackNamesWhatItLeavesOut: hosts of the transaction that do not answer or were not chosen.
func TestRollbackNamesWhatItLeavesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newToys(t)
		y.applyOn(t.Context(), "2")
		y.heard.lines = nil
		const disturbed = "mv0 on eth0 is not ours and goes down with it"
		y.hosts["a"].reversed.Disturbed = []string{disturbed}
		if r := y.rollback(t.Context(), RollbackOptions{}, "a"); r.Ending != Done || fatesOf(r) != "a reverted" || y.values() != "12" {
			t.Errorf("ending %d, %v, values %s", r.Ending, r.Err, y.values())
		}
		if said := strings.Join(y.heard.lines, "\n"); !strings.Contains(said, "the transaction also changed b, which this rollback leaves out") || !strings.Contains(said, "a: "+disturbed) {
			t.Errorf("%q", y.heard.lines)
		}
		y.applyOn(t.Context(), "3", "a")
		y.hosts["b"].down = true
		y.heard.lines = nil
		if r := y.rollback(t.Context(), RollbackOptions{}); r.Ending != Done || y.values() != "12" {
			t.Errorf("ending %d, %v, values %s", r.Ending, r.Err, y.values())
		}
		if !strings.Contains(strings.Join(y.heard.lines, "\n"), "b: the host does not answer, and may have a newer transaction") {
			t.Errorf("%q", y.heard.lines)
		}
	})
}

// TestARollbackTakesBothEndsOrNone: if a host of the transaction is missing, or changed since the rollback was shown, no
// other one reverts, unless half links are allowed.
func TestARollbackTakesBothEndsOrNone(t *testing.T) {
	away := func(y *toys) { y.hosts["b"].down = true }
	changed := func(y *toys) { y.hosts["b"].reversed = calls.TxReversed{Digest: "another"} }
	lost := func(y *toys) { y.hosts["b"].cut["tx.reversal"] = true }
	for _, c := range []struct {
		name         string
		before, then func(y *toys) // before the rollback, and while it asks
		hosts        []string      // as the host stored them; nil: the transaction's
		half         bool
		ending       Ending
		values       string
		says         string
	}{
		{name: "unreachable", before: away, ending: HostsUnreachable, values: "22",
			says: "is also on hosts that are unreachable: b. A rollback of a alone can break link rail0. Run rollback again once all its hosts are reachable. To roll back a alone nevertheless, run `fabricform rollback -allow=half-links -lab -var=n=1 f.hcl`."},
		{name: "unreachable, and perhaps of the transaction", before: away, hosts: []string{}, ending: HostsUnreachable, values: "22", says: "may also be on hosts that are unreachable: b."},
		{name: "unreachable, and allowed", before: away, half: true, ending: HostsUnreachable, values: "12",
			says: "link rail0: rolled back at the other ends only, although these hosts are unreachable: b (-allow=half-links)"},
		{name: "changed", then: changed, ending: Stale, values: "22", says: "nothing was rolled back: b changed since the rollback was shown; to see and make what it would do now, run `fabricform rollback -lab -var=n=1 f.hcl`"},
		{name: "changed, and allowed", then: changed, half: true, ending: Stale, values: "12", says: "host b: the host changed since the rollback was shown"},
		{name: "lost", then: lost, ending: HostsUnreachable, values: "22", says: "nothing was rolled back: host b: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y := newToys(t)
				y.applyOn(t.Context(), "2")
				if c.hosts != nil {
					y.hosts["a"].tx.Hosts = c.hosts
				}
				if c.before != nil {
					c.before(y)
				}
				y.heard.lines = nil
				y.heard.asking = func() {
					if c.then != nil {
						c.then(y)
					}
				}
				r := y.rollback(t.Context(), RollbackOptions{HalfLinks: c.half})
				if r.Ending != c.ending || y.values() != c.values {
					t.Errorf("ending %d, want %d: %v; values %s, want %s", r.Ending, c.ending, r.Err, y.values(), c.values)
				}
				if said := strings.Join(y.heard.lines, "\n") + fmt.Sprint("\n", r.Err); !strings.Contains(said, c.says) {
					t.Errorf("%q is missing in\n%s", c.says, said)
				}
			})
		})
	}
}

// TestTheWorstEndingIsTheRuns holds the order in which exit codes are documented.
func TestTheWorstEndingIsTheRuns(t *testing.T) {
	order := []Ending{OutcomeUnknown, RolledBack, Held, Stale, Failed, CheckFailed, HostsUnreachable, Done}
	if !slices.IsSortedFunc(order, func(a, b Ending) int { return int(b - a) }) {
		t.Errorf("%v", order)
	}
}
