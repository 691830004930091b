package cabling

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/probe"
)

// answering is hosts that answer the calls of a run, by host and method. It notes what each was asked.
type answering struct {
	mu    sync.Mutex
	asked []string
	say   map[string]any // by "host method"; an error is the answer, too
}

func (a *answering) Call(_ context.Context, host, method string, params, result any) error {
	raw, err := json.Marshal(params)
	if err != nil {
		return err
	}
	a.mu.Lock()
	a.asked = append(a.asked, host+" "+method+" "+string(raw))
	a.mu.Unlock()
	said := a.say[host+" "+strings.TrimPrefix(method, "cabling.")]
	if err, is := said.(error); is {
		return err
	}
	if raw, err = json.Marshal(said); err != nil {
		return err
	}
	return json.Unmarshal(raw, result)
}

// asks returns what a host was asked by a method; "" if it was not.
func (a *answering) asks(of string) string {
	for _, line := range a.asked {
		if rest, is := strings.CutPrefix(line, of+" "); is {
			return rest
		}
	}
	return ""
}

// three are hosts with the ports p0 (sends), p1 (the operator's), p2 (down) and p3 (no carrier).
func three() *Survey {
	w := world("a:p0", "a:p1", "a:p2", "a:p3", "b:p0", "b:p1", "b:p2", "b:p3", "c:p0")
	for _, h := range []string{"a", "b"} {
		w.snaps[h].Management = facts.Management{Devices: []string{"p1"}}
		w.link(h+":p2").Up, w.link(h+":p3").Carrier = false, false
	}
	return Plan(w.snaps, Options{})
}

func listenTo(t *testing.T, a *answering, s *Survey) (out *Answers) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var err error
		if out, err = Listen(t.Context(), a, s, time.Second, func(string) {}); err != nil {
			t.Error(err)
		}
	})
	return out
}

func ports(names ...string) (out probe.CablingListening) {
	out.ID = "id"
	for _, n := range names {
		out.Ports = append(out.Ports, probe.CablingListeningPort{Netdev: n})
	}
	return out
}

// TestWhatPortsDoInARun: all that are up listen, those that may send do so with the number of their place, and a host that fails is asked
// nothing more.
func TestWhatPortsDoInARun(t *testing.T) {
	a := &answering{say: map[string]any{
		"a listen": ports("p0", "p1", "p3"), "a send": []probe.CablingSent{{Netdev: "p0", Frames: 4}}, "a collect": probe.CablingHeard{Probes: []probe.CablingProbe{{Netdev: "p0", Number: 4}}},
		"b listen": ports("p0", "p1", "p3"), "b send": []probe.CablingSent{{Netdev: "p0", Frames: 4}}, "b collect": probe.CablingHeard{},
		"c listen": errors.New("no packet sockets")}}
	got := listenTo(t, a, three())
	if says := a.asks("a cabling.listen"); !strings.Contains(says, `"netdevs":["p0","p1","p3"]`) {
		t.Errorf("host a listens on %s", says)
	}
	if says := a.asks("b cabling.send"); !strings.Contains(says, `"ports":[{"netdev":"p0","number":4}]`) {
		t.Errorf("host b sends from %s", says)
	}
	if a.asks("c cabling.send")+a.asks("c cabling.collect") != "" || got.Failed["c"] != "no packet sockets" || len(got.Failed) != 1 {
		t.Errorf("host c failed: %v; %q", got.Failed, a.asked)
	}
	if len(got.Ports) != 6 || len(got.Sent) != 2 || len(got.Heard) != 2 || got.Sent[Port{"a", "p0"}].Frames != 4 {
		t.Errorf("%+v", got)
	}
}

// TestNoAnswerSaysMoreThanWasAsked: ports that were not to listen or to send are ignored, and who answers too much is named.
func TestNoAnswerSaysMoreThanWasAsked(t *testing.T) {
	tooMuch := probe.CablingHeard{}
	for i := range 17 {
		tooMuch.Others = append(tooMuch.Others, probe.CablingOther{Netdev: "p0", Data: []byte{byte(i)}})
	}
	a := &answering{say: map[string]any{
		"a listen": ports("p0", "p2", "p9"), "a send": []probe.CablingSent{{Netdev: "p1", Frames: 4}}, "a collect": probe.CablingHeard{},
		"b listen": ports("p0", "p1", "p2", "p3"), "c listen": ports("p0"), "c send": []probe.CablingSent{{Netdev: "p0", Frames: 5}}, "c collect": tooMuch}}
	got := listenTo(t, a, three())
	if _, listens := got.Ports[Port{"a", "p0"}]; !listens || len(got.Ports) != 2 {
		t.Errorf("listening: %v", got.Ports)
	}
	if len(got.Sent) != 0 {
		t.Errorf("sent: %v", got.Sent)
	}
	if len(got.Failed) != 2 || got.Failed["b"] != "it listens on 4 ports, and was asked for 3" || got.Failed["c"] != "its answer holds more frames of other devices than a port keeps" {
		t.Errorf("failed: %v", got.Failed)
	}
	if _, kept := got.Heard["c"]; kept {
		t.Error("an answer that holds too much is used")
	}
	a.say["b listen"], a.say["b send"] = ports("p0"), []probe.CablingSent{{Netdev: "p0"}, {Netdev: "p0"}}
	if got := listenTo(t, a, three()); got.Failed["b"] != "it sent from 2 ports, and was asked for 1" {
		t.Errorf("failed: %v", got.Failed)
	}
}

func TestAnInterruptEndsARun(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := Listen(ctx, &answering{say: map[string]any{"a listen": errors.New("x"), "b listen": errors.New("x"), "c listen": errors.New("x")}}, three(), time.Hour, func(string) {}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestWhereFramesArrive: the other functions of the same port do not count, and neither does what no port of the run has sent.
func TestWhereFramesArrive(t *testing.T) {
	w := world("a:p0", "a:q0", "b:p0", "c:p0")
	for i, p := range []string{"a:p0", "a:q0"} {
		l := w.link(p)
		l.Driver, l.PCI, l.MAC = "mlx5_core", []string{"0000:01:00.0", "0002:01:00.0"}[i], fmt.Sprintf("02:00:00:00:00:1%d", i)
	}
	s := Plan(w.snaps, Options{}) // a:p0 is 0, a:q0 1, b:p0 2, c:p0 3
	both := func(netdev string, number uint32) []probe.CablingProbe {
		return []probe.CablingProbe{{Netdev: netdev, Number: number}, {Netdev: netdev, Number: number, Group: true}}
	}
	a := &Answers{Heard: map[string]probe.CablingHeard{
		"a": {Probes: slices.Concat(both("p0", 0), both("p0", 1), both("q0", 0), both("q0", 2), both("p0", 4), both("p0", 1<<31), both("p9", 2))},
		"b": {Probes: append(both("p0", 0), probe.CablingProbe{Netdev: "p0", Number: 3})},
		"c": {Probes: []probe.CablingProbe{{Netdev: "p0", Number: 0}, {Netdev: "p0", Number: 2, Group: true}}},
		"d": {Probes: both("p0", 0)}}}
	got := a.Reached(s)
	for port, want := range map[Port]string{{"a", "p0"}: "[b:p0] [c:p0]", {"a", "q0"}: "[] []", {"b", "p0"}: "[a:q0] []", {"c", "p0"}: "[] [b:p0]"} {
		if text := fmt.Sprint(got[port].Both, got[port].Some); text != want {
			t.Errorf("%s arrives at %s, want %s", port, text, want)
		}
	}
}

// TestAHostWithTooManyPortsIsNamed: and takes no part.
func TestAHostWithTooManyPortsIsNamed(t *testing.T) {
	w := world("b:p0")
	w.snaps["a"] = &facts.Snapshot{}
	for i := range probe.MaxCablingPorts + 1 {
		w.snaps["a"].Links = append(w.snaps["a"].Links, host.Link{Index: i + 1, Name: fmt.Sprintf("p%d", i), MAC: fmt.Sprintf("02:00:00:01:%02x:%02x", i>>8, i&255), Up: true, Carrier: true})
	}
	if got := w.run(Options{}); got.Failed["a"] != "it has 1025 Ethernet ports, and at most 1024 of a host take part" || len(got.Silent) != 1 {
		t.Errorf("%v, silent %v", got.Failed, got.Silent)
	}
	w.snaps["a"].Links = w.snaps["a"].Links[1:]
	if got := w.run(Options{}); len(got.Failed) > 0 || len(got.Silent) != 1025 {
		t.Errorf("%v, %d silent", got.Failed, len(got.Silent))
	}
}

// TestWhatLiesCostsNoMoreThanItsLength: hosts that have heard every port, and nothing that fits. The report stays short.
func TestWhatLiesCostsNoMoreThanItsLength(t *testing.T) {
	w := &wires{snaps: map[string]*facts.Snapshot{}}
	const hosts, each = 40, 1000
	for h := range hosts {
		s := &facts.Snapshot{}
		for i := range each {
			s.Links = append(s.Links, host.Link{Index: i + 1, Name: fmt.Sprintf("p%d", i), MAC: fmt.Sprintf("02:00:00:%02x:%02x:%02x", h, i>>8, i&255), Up: true, Carrier: true})
		}
		w.snaps[fmt.Sprintf("h%02d", h)] = s
	}
	survey := Plan(w.snaps, Options{})
	lie := probe.CablingHeard{}
	for i := range uint32(hosts * each) {
		lie.Probes = append(lie.Probes, probe.CablingProbe{Netdev: fmt.Sprintf("p%d", i%each), Number: i, Group: i%2 == 0}, probe.CablingProbe{Netdev: "p0", Number: i})
	}
	done := make(chan *Report)
	go func() {
		answers := &Answers{Heard: map[string]probe.CablingHeard{"h00": lie}}
		answers.Reached(survey)
		done <- Judge(survey, answers)
	}()
	select {
	case r := <-done:
		if len(r.Unclear) != 1 || len(r.Unclear[0].Heard) > maxStory+1 || !strings.Contains(r.Unclear[0].Heard[maxStory], "and more") {
			t.Errorf("%d are unclear", len(r.Unclear))
		}
	case <-time.After(time.Minute): // it takes a second; all pairs would take an hour
		t.Fatal("a host that lies holds up the judgement")
	}
}

// TestAPortThatHeardTooMuchIsNoCable: what it lost may have been a third port.
func TestAPortThatHeardTooMuchIsNoCable(t *testing.T) {
	w := world("a:p0", "b:p0")
	s := Plan(w.snaps, Options{})
	both := func(number uint32) []probe.CablingProbe {
		return []probe.CablingProbe{{Netdev: "p0", Number: number}, {Netdev: "p0", Number: number, Group: true}}
	}
	for _, full := range [][]string{nil, {"p0"}} {
		got := Judge(s, &Answers{Heard: map[string]probe.CablingHeard{"a": {Probes: both(1)}, "b": {Probes: both(0), Full: full}}})
		if cable := len(got.Cables) == 1; cable != (full == nil) {
			t.Errorf("full %v: %s", full, got.lines())
		}
		if full != nil && !strings.Contains(got.lines(), "b:p0 heard more than is kept") {
			t.Error(got.lines())
		}
	}
}

// TestWhoHeardAPortThatDidNotSendIsNoSegment: such an answer is wrong.
func TestWhoHeardAPortThatDidNotSendIsNoSegment(t *testing.T) {
	w := world("a:p0", "b:p0")
	for _, h := range []string{"a", "b"} {
		w.snaps[h].Management = facts.Management{Devices: []string{"p0"}}
	}
	got := Judge(Plan(w.snaps, Options{}), &Answers{Heard: map[string]probe.CablingHeard{"b": {Probes: []probe.CablingProbe{{Netdev: "p0", Number: 0}}}}})
	if len(got.Segments) > 0 || len(got.Unclear) != 1 {
		t.Error(got.lines())
	}
}
