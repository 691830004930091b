package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/retry"
	"github.com/fabricform/fabricform/transport"
)

// TestWavesKeepLinkedHostsApart: hosts whose traffic feels nothing go first and together; of the
// others no two that share a link at the same time.
func TestWavesKeepLinkedHostsApart(t *testing.T) {
	host := func(name string, worst resource.Disruption) planner.HostPlan {
		return planner.HostPlan{Name: name, Actions: []planner.Action{{Changes: []resource.Change{{Disruption: worst}}}}}
	}
	// A ring of five, and two that feel nothing.
	p := &planner.Plan{Hosts: []planner.HostPlan{host("a", resource.Reboot), host("b", resource.Reboot), host("c", resource.DriverReload), host("d", resource.Reboot),
		host("e", resource.Reboot), host("calm", resource.Live), host("calm2", resource.Live), {Name: "converged"}}}
	const ring = "ab bc cd de ea"
	apart := func(a, b string) bool { return strings.Contains(ring, a+b) || strings.Contains(ring, b+a) }
	var got []string
	for _, w := range waves(p, apart) {
		var names []string
		for _, h := range w {
			names = append(names, h.Name)
		}
		got = append(got, strings.Join(names, " "))
	}
	if want := []string{"calm calm2", "a c", "b d", "e"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// far is a host whose connections break when a method is asked for, once it was carried out.
type far struct {
	breaks  map[string]int // how often yet, by method
	refuses string         // a method
	boot    int
	orders  []calls.StackOrder
	asked   []string
	conn    net.Conn
	down    atomic.Bool // the host restarts, and the connection that asked for it is still open
	early   bool        // a connection came meanwhile
}

func (h *far) state() calls.StackState {
	out := calls.StackState{Boot: fmt.Sprint(h.boot)}
	if len(h.orders) > 0 {
		out.Job = &resource.Installation{ID: h.orders[len(h.orders)-1].ID, State: resource.JobDone}
	}
	return out
}

func (h *far) answer(method string) agent.Handler {
	return func(_ context.Context, raw json.RawMessage) (any, error) {
		h.asked = append(h.asked, method)
		if h.refuses == method {
			return nil, errors.New("no")
		}
		var o calls.StackOrder
		if err := json.Unmarshal(raw, &o); err != nil {
			return nil, err
		}
		state := h.state()
		switch {
		case method == "stack.start" && !slices.ContainsFunc(h.orders, func(b calls.StackOrder) bool { return b.ID == o.ID }):
			h.orders = append(h.orders, o)
			state = h.state()
		case method == "stack.reboot" && o.Boot == fmt.Sprint(h.boot):
			h.boot++
			h.down.Store(true)
			time.AfterFunc(100*time.Millisecond, h.ends(h.conn))
		}
		if h.breaks[method] > 0 {
			h.breaks[method]--
			h.ends(h.conn)()
		}
		return state, nil
	}
}

func (h *far) ends(conn net.Conn) func() {
	return func() {
		h.down.Store(false)
		_ = conn.Close()
	}
}

func (h *far) open(ctx context.Context, _ transport.Target) (*agent.Client, error) {
	h.early = h.early || h.down.Load()
	near, conn := net.Pipe()
	h.conn = conn
	handlers := map[string]agent.Handler{}
	for _, m := range []string{"stack.start", "stack.state", "stack.reboot"} {
		handlers[m] = h.answer(m)
	}
	go func() { _ = agent.Serve(context.Background(), conn, conn, "b", handlers) }() // ends with the connection
	return agent.Connect(ctx, near, "b", time.Minute)
}

// TestABrokenConnectionIsNoFailureOfTheHost: what is asked for is asked for again, does its work once,
// and the host's own refusal is the end.
func TestABrokenConnectionIsNoFailureOfTheHost(t *testing.T) {
	install := resource.Change{Attribute: "stack", To: "x"}
	restart := resource.Change{Attribute: "reboot", To: "x", Disruption: resource.Reboot}
	for name, c := range map[string]struct {
		changes []resource.Change
		breaks  map[string]int
		refuses string
		orders  int
		boots   int
		err     string
	}{
		"nothing breaks":                     {[]resource.Change{install, restart}, nil, "", 1, 1, ""},
		"the start's answer is lost":         {[]resource.Change{install}, map[string]int{"stack.start": 2}, "", 1, 0, ""},
		"the restart takes the connection":   {[]resource.Change{install, restart}, map[string]int{"stack.reboot": 1}, "", 1, 1, ""},
		"a restart alone, and all is broken": {[]resource.Change{restart}, map[string]int{"stack.state": 1, "stack.reboot": 1}, "", 0, 1, ""},
		"the host refuses to begin":          {[]resource.Change{install, restart}, nil, "stack.start", 0, 0, "no"},
		"the host refuses to restart":        {[]resource.Change{install, restart}, nil, "stack.reboot", 1, 0, "no"},
		"it breaks without end":              {[]resource.Change{install}, map[string]int{"stack.start": 99}, "", 1, 0, "the helper ended"},
	} {
		h := &far{breaks: c.breaks, refuses: c.refuses}
		f := newFleet(nil, "b", []FleetHost{{Target: transport.Target{Name: "a"}}})
		f.open = h.open
		client, err := h.open(t.Context(), transport.Target{})
		if err != nil {
			t.Fatal(err)
		}
		f.adopt("a", client)
		err = f.installOn(t.Context(), "a", planner.Action{Changes: c.changes}, stackOptions{Plan: "p", Patience: time.Minute, Started: func(string, string) {}})
		if fmt.Sprint(err) != c.err && (err != nil || c.err != "") || len(h.orders) != c.orders || h.boot != c.boots || h.early {
			t.Errorf("%s: %v, %d orders and %d restarts after %q", name, err, len(h.orders), h.boot, h.asked)
		}
		f.Close()
	}
}

// TestAStuckInstallationIsReported: its programs go on, and nobody waits for them.
func TestAStuckInstallationIsReported(t *testing.T) {
	job := &resource.Installation{ID: "o", State: resource.JobRunning, Step: "dkms build", Alive: true, Stuck: true}
	err := newFleet(nil, "b", nil).awaitStack(t.Context(), "a", "o", calls.StackState{Job: job, Tail: "CC mlx5"}, stackOptions{Started: func(string, string) {}})
	if err == nil || !strings.Contains(err.Error(), "the installation is stuck in: dkms build. For 10m0s") || !strings.Contains(err.Error(), "CC mlx5") {
		t.Error(err)
	}
}

// standing is a connection on which an upload stops after some bytes.
type standing struct{ io.ReadWriteCloser }

func (standing) Upload(ctx context.Context, _ string, _ io.ReaderAt, _, _ int64, progress func(int64)) error {
	for sent := range int64(3) {
		if err := retry.Pause(ctx, 9*time.Minute); err != nil {
			return err
		}
		progress(sent)
	}
	<-ctx.Done()
	return ctx.Err()
}

// TestAnUploadThatStandsStillIsStuck: a slow one is not.
func TestAnUploadThatStandsStillIsStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		go func() { _ = agent.Serve(context.Background(), far, far, "b", nil) }() // ends with the pipe
		c, err := agent.Connect(t.Context(), standing{near}, "b", time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		f := newFleet(nil, "b", nil)
		f.adopt("a", c)
		p := &progress{at: map[string]int64{}, from: map[string]int64{}}
		if err := f.upload(t.Context(), "a", LocalBundle{}, calls.BundleUpload{}, p); !errors.Is(err, errStandstill) || p.at["a"] != 2 {
			t.Errorf("%v after %d bytes", err, p.at["a"])
		}
		f.Close()
	})
}

// TestAnInterruptIsNoLateRestart: a host is late once its time is over, and not because an interrupt ended
// the wait.
func TestAnInterruptIsNoLateRestart(t *testing.T) {
	h := &far{}
	f := newFleet(nil, "b", []FleetHost{{Target: transport.Target{Name: "a"}}})
	f.open = h.open
	defer f.Close()
	client, err := h.open(t.Context(), transport.Target{})
	if err != nil {
		t.Fatal(err)
	}
	f.adopt("a", client)
	ctx, interrupt := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, interrupt)
	if err := f.awaitBoot(ctx, "a", "0", time.Minute); !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "within") {
		t.Errorf("got %v", err)
	}
	if err := f.awaitBoot(t.Context(), "a", "0", 50*time.Millisecond); err == nil || !strings.Contains(err.Error(), "did not reboot within 50ms") {
		t.Errorf("got %v", err)
	}
	h.ends(h.conn)()
	f.open = func(context.Context, transport.Target) (*agent.Client, error) { return nil, errors.New("no route") }
	ctx, interrupt = context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, interrupt)
	if err := f.awaitBoot(ctx, "a", "0", time.Minute); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestEachTimeIsAnOrderOfItsOwn: the journal of an earlier installation by the same plan does not
// count for this one.
func TestEachTimeIsAnOrderOfItsOwn(t *testing.T) {
	h := &far{}
	f := newFleet(nil, "b", []FleetHost{{Target: transport.Target{Name: "a"}}})
	f.open = h.open
	defer f.Close()
	for range 2 {
		client, err := h.open(t.Context(), transport.Target{})
		if err != nil {
			t.Fatal(err)
		}
		f.adopt("a", client)
		if err := f.installOn(t.Context(), "a", planner.Action{Changes: []resource.Change{{Attribute: "stack"}}}, stackOptions{Plan: "p", Bundles: map[string]calls.Bundle{"a": {Name: "b.tgz"}}, Started: func(string, string) {}}); err != nil {
			t.Fatal(err)
		}
	}
	if len(h.orders) != 2 || h.orders[0].ID == h.orders[1].ID || !strings.HasPrefix(h.orders[0].ID, "p-") || h.orders[0].Bundle == nil || h.orders[0].Bundle.Name != "b.tgz" {
		t.Errorf("%+v", h.orders)
	}
}

// TestRateCountsWhatWasSent: a break does not restart the count, and bytes that were there before do not
// count.
func TestRateCountsWhatWasSent(t *testing.T) {
	var last Sent
	p := &progress{began: time.Now().Add(-10 * time.Second), size: 2000, at: map[string]int64{}, from: map[string]int64{}, onProgress: func(s Sent) { last = s }}
	for _, at := range []int64{500, 1000, 900} { // there before, sent, and torn at its end
		p.last = time.Time{}
		p.set("a", at)
	}
	if last.Bytes != 900 || last.Rate < 35 || last.Rate > 41 || last.Remaining < 25*time.Second || last.Remaining > 32*time.Second {
		t.Errorf("%+v", last)
	}
}
