package apply

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/checkpoint"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/transport"
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
				out := []resource.Resource{{Addr: resource.Addr{Host: h.Name, Kind: "toy", Name: "r0"}, Spec: json.RawMessage(`"` + cmp.Or(y.wants, "2") + `"`)}}
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
