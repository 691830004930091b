package apply

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/checkpoint"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/probe"
)

// ask calls one method of a host with an empty request.
type ask struct {
	method string
	of     func(ctx context.Context, c agent.Caller, host string) (answer any, err error)
	whole  func() any // an answer of which every member is set
}

func asking[P, R any](m agent.Method[P, R]) ask {
	return ask{string(m), func(ctx context.Context, c agent.Caller, host string) (any, error) {
		var p P
		return m.Call(ctx, c, host, p)
	}, func() any {
		var r R
		set(reflect.ValueOf(&r).Elem(), 6)
		return r
	}}
}

// set gives every member below v a value.
func set(v reflect.Value, depth int) {
	switch known := v.Addr().Interface().(type) {
	case *json.RawMessage:
		*known = json.RawMessage(`{"x":[1]}`)
		return
	case *time.Time:
		*known = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		return
	case *netip.Addr:
		*known = netip.MustParseAddr("10.0.0.1")
		return
	case *netip.Prefix:
		*known = netip.MustParsePrefix("10.0.0.0/24")
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(1.5)
	case reflect.Int, reflect.Int64, reflect.Int32:
		v.SetInt(1)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(1)
	case reflect.Pointer:
		if depth > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			set(v.Elem(), depth-1)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				set(v.Field(i), depth)
			}
		}
	case reflect.Slice:
		if depth > 0 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			set(v.Index(0), depth-1)
		}
	case reflect.Array:
		for i := range v.Len() {
			set(v.Index(i), depth)
		}
	case reflect.Map:
		if depth > 0 && v.Type() != reflect.TypeFor[facts.Parts]() {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			set(key, depth-1)
			set(value, depth-1)
			v.Set(reflect.MakeMap(v.Type()))
			v.SetMapIndex(key, value)
		}
	}
}

// TestEveryWholeAnswerIsRead: what a helper of this build can say arrives as it was.
func TestEveryWholeAnswerIsRead(t *testing.T) {
	for _, a := range every {
		text, err := json.Marshal(a.whole())
		if err != nil {
			t.Fatal(err)
		}
		got, err := said(t, liar{says: func(string) []byte { return text }}, a, time.Minute)
		if err != nil {
			t.Errorf("%s: %v", a.method, err)
			continue
		}
		if again, err := json.Marshal(got); err != nil || string(again) != string(text) {
			t.Errorf("%s: %v\n%s, want\n%s", a.method, err, again, text)
		}
	}
}

// every has all calls of agent/calls and probe.
var every = []ask{
	asking(calls.Snapshot), asking(calls.Import), asking(calls.Act), asking(calls.Undo), asking(calls.Enrol), asking(calls.Ready), asking(calls.Open), asking(calls.Beat), asking(calls.Prepare), asking(calls.Persist),
	asking(calls.Commit), asking(calls.Reversal), asking(calls.Revert), asking(calls.TakeOver), asking(calls.Release), asking(calls.FinishInterrupted), asking(calls.Transactions), asking(calls.PrepareUpload), asking(calls.CheckBundle),
	asking(calls.StartRelay), asking(calls.Fetch), asking(calls.EndRelay), asking(calls.StartStack), asking(calls.ReadStack), asking(calls.Reboot),
	asking(probe.Ping), asking(probe.ReadCounters), asking(probe.ListenTCP), asking(probe.SendTCP), asking(probe.CollectTCP), asking(probe.StartCapture), asking(probe.ListenCabling), asking(probe.SendCabling), asking(probe.CollectCabling), asking(probe.CollectCapture),
	asking(probe.InspectCollective), asking(probe.RunCollective), asking(probe.StopCollective), asking(probe.InspectLaunch), asking(probe.Launch), asking(probe.TendRanks), asking(probe.AwaitTended),
	asking(probe.ServeVerbs), asking(probe.RunVerbs), asking(probe.CollectVerbs), asking(probe.VerbsVersion), asking(probe.ReadRDMACounters), asking(probe.ReadPriorities),
	asking(probe.TryLogins), asking(probe.InspectLogin),
}

// TestEveryCallIsAsked: the list above has each call that agent/calls or probe declares.
func TestEveryCallIsAsked(t *testing.T) {
	declared := 0
	for _, folder := range []string{"../agent/calls", "../probe"} {
		files, err := filepath.Glob(folder + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range files {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, call := range declaration.FindAllStringSubmatch(string(text), -1) {
				declared++
				name := strings.Replace(call[2], "agent.Busy + ", agent.Busy, 1)
				name = strings.ReplaceAll(name, `"`, "")
				if !slices.ContainsFunc(every, func(a ask) bool { return a.method == name }) {
					t.Errorf("%s declares %s: add asking(%s.%s) to every in apply/answers_linux_test.go",
						strings.TrimPrefix(path, "../"), name, filepath.Base(folder), call[1])
				}
			}
		}
	}
	if declared != len(every) {
		t.Errorf("%d calls are declared, and %d are asked", declared, len(every))
	}
}

// declaration is the declaration of a call: its variable, and its name on the wire.
var declaration = regexp.MustCompile(`(?m)^\s*(?:var )?(\w+) += agent\.Method\[.*\]\((.*)\)$`)

// liar is a host that says whatever a test has it say, as the bytes of a result.
type liar struct {
	says  func(method string) []byte
	after time.Duration
	fails string // the text of an error, instead
}

func frameOf(body []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

func (l liar) dial() io.ReadWriteCloser {
	near, far := net.Pipe()
	go l.serve(far) // ends with the pipe
	return near
}

func (l liar) serve(far net.Conn) {
	_, _ = far.Write([]byte("\x00fabricform-agent 1\n"))
	_, _ = far.Write(frameOf([]byte(`{"hello":{"version":"b"}}`)))
	for {
		var head [4]byte
		if _, err := io.ReadFull(far, head[:]); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(head[:]))
		if _, err := io.ReadFull(far, body); err != nil {
			return
		}
		var f struct {
			ID     uint64 `json:"id"`
			Method string `json:"method"`
		}
		if json.Unmarshal(body, &f) != nil || f.Method == "" {
			_, _ = far.Write(frameOf([]byte("{}"))) // a heartbeat for a heartbeat
			continue
		}
		answer := func() {
			var out []byte
			if l.fails != "" {
				text, _ := json.Marshal(l.fails)
				out = fmt.Appendf(nil, `{"id":%d,"error":{"message":%s}}`, f.ID, text)
			} else {
				out = fmt.Appendf(nil, `{"id":%d,"result":%s}`, f.ID, l.says(f.Method))
			}
			_, _ = far.Write(frameOf(out))
		}
		if l.after == 0 {
			answer()
			continue
		}
		time.AfterFunc(l.after, answer)
	}
}

// said calls a method of a liar over the wire.
func said(t *testing.T, l liar, a ask, wait time.Duration) (any, error) {
	t.Helper()
	c, err := agent.Connect(t.Context(), l.dial(), "b", 20*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	return a.of(ctx, c, "h")
}

// bomb is a JSON text of some MiB that takes a hundred times as much once it is decoded.
func bomb(open, each, end string, size int) []byte {
	n := size / (len(each) + 1)
	return []byte(open + strings.TrimSuffix(strings.Repeat(each+",", n), ",") + end)
}

// bombs are the results that take the most memory for their length.
func bombs(size int) map[string][]byte {
	return map[string][]byte{
		"tx.list":             bomb("[", "{}", "]", size),
		"snapshot":            bomb(`{"snapshot":{"routes":[`, "{}", "]}}", size),
		"ping":                bomb("[", "{}", "]", size),
		"capture.collect":     bomb(`{"records":[`, "{}", "]}", size),
		"busy.collective.run": []byte(`[{"out":"` + strings.Repeat("QUFB", size/4) + `"}]`),
		"stack.state":         []byte(`{"tail":"` + strings.Repeat("x", size) + `"}`),
		"act":                 []byte(strings.Repeat(`{"changes":[`, 1) + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + "]}"),
		"tx.ready":            bomb(`{"held":{"remain":[`, `""`, "]}}", size),
		"counters.rdma":       bomb("{", `"":0`, "}", size),
		"tx.finish":           bomb(`{"ended":{"x":[`, "[]", "]}}", size),
	}
}

// answerBombs names the socket of a host that this test program asks for all of them, and ends.
const answerBombs = "FABRICFORM_TEST_ANSWER_BOMBS"

// TestBombsOfAHostAreBounded: no answer of a host takes more than 64 MiB. A program of its own asks, so that the kernel
// measures it.
func TestBombsOfAHostAreBounded(t *testing.T) {
	if socket := os.Getenv(answerBombs); socket != "" {
		for _, a := range every {
			conn, err := net.Dial("unix", socket)
			if err != nil {
				t.Fatal(err)
			}
			c, err := agent.Connect(t.Context(), conn, "b", 20*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			_, err = a.of(t.Context(), c, "h")
			c.Close()
			t.Logf("%s: %v", a.method, err)
		}
		status, err := os.ReadFile("/proc/self/status") // not the resource usage, in which the parent's memory counts
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s", status)
		return
	}
	used := func(size int) (kib int, log string) {
		socket := filepath.Join(t.TempDir(), "s")
		l, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		of := bombs(size)
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				go liar{says: func(method string) []byte {
					if text := of[method]; text != nil {
						return text
					}
					return []byte("null")
				}}.serve(conn)
			}
		}()
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(self, "-test.v", "-test.run=^TestBombsOfAHostAreBounded$")
		cmd.Env = append(os.Environ(), answerBombs+"="+socket)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		_, peak, found := strings.Cut(string(out), "VmHWM:")
		if _, err := fmt.Sscan(peak, &kib); err != nil || !found {
			t.Fatalf("no peak in %s", out)
		}
		return kib, string(out)
	}
	idle, _ := used(100)
	most, log := used(9 << 20)
	if t.Logf("%d MiB idle, %d MiB with bombs", idle>>10, most>>10); most-idle > 64<<10 {
		t.Errorf("a host took %d MiB", (most-idle)>>10)
	}
	if n := strings.Count(log, "it holds too much"); n < 5 {
		t.Errorf("%d answers were too much:\n%s", n, log)
	}
}

// odd are results that no call has, or that say nothing.
func odd() map[string][]byte {
	return map[string][]byte{
		"nothing": []byte("null"), "empty": []byte("{}"), "a list": []byte("[]"), "a list of nothing": []byte("[null,null,null]"), "a list of lists": []byte("[[[[]]]]"), "a list of empties": []byte("[{},{},{}]"), "text": []byte(`"x"`),
		"a number": []byte("-1"), "a large number": []byte("1e400"), "true": []byte("true"), "cut off": []byte(`{"`), "not JSON": []byte("\x00\xff"), "another member": []byte(`{"x":1}`),
		"huge": bomb("[", "{}", "]", 512<<10), "deep": []byte(strings.Repeat("[", 512<<10)), "text for an object": []byte(`{"snapshot":"x","job":1,"id":[],"records":{},"done":7}`),
		"numbers below zero": []byte(`{"left":-9,"port":-1,"have":-1,"packets":-1,"first":-1}`), "nothing inside": []byte(`{"snapshot":null,"records":[null],"held":null,"job":null}`),
	}
}

// TestNoAnswerIsBelieved: whatever a host answers to any call, the call ends in a value of its type or in an error that names
// the call, and neither takes the program down.
func TestNoAnswerIsBelieved(t *testing.T) {
	for name, text := range odd() {
		for _, a := range every {
			_, err := said(t, liar{says: func(string) []byte { return text }}, a, time.Minute)
			if err != nil && !strings.Contains(err.Error(), a.method) && !strings.Contains(err.Error(), "decode frame") {
				t.Errorf("%s to %s: %v", name, a.method, err)
			}
			if err == nil && slices.Contains([]string{"a number", "a large number", "cut off", "not JSON", "another member", "deep", "huge"}, name) && (a.method != "counters.rdma" || name != "another member") &&
				(name != "huge" || !strings.HasPrefix(a.method, "login") && a.method != string(probe.SendCabling)) { // their results are small: who asks takes as many as were asked for
				t.Errorf("%s to %s was believed", name, a.method)
			}
		}
	}
	for _, a := range every {
		_, err := said(t, liar{fails: strings.Repeat("x", 512<<10)}, a, time.Minute)
		if err == nil || len(err.Error()) > 20<<10 || !strings.HasSuffix(err.Error(), "bytes more)") {
			t.Errorf("%s: an error of %d bytes", a.method, len(err.Error()))
		}
	}
}

// TestALateAnswerIsNobodys: an answer that comes after its call was given up is dropped, and the next call gets its own.
func TestALateAnswerIsNobodys(t *testing.T) {
	for _, a := range every {
		synctest.Test(t, func(t *testing.T) {
			_, err := said(t, liar{says: func(string) []byte { return []byte("null") }, after: time.Hour}, a, time.Second)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", a.method, err)
			}
			time.Sleep(2 * time.Hour)
		})
	}
}

// TestEveryCallHasAnEnd: a host that answers heartbeats and nothing else holds up no call.
func TestEveryCallHasAnEnd(t *testing.T) {
	for _, a := range every {
		synctest.Test(t, func(t *testing.T) {
			c, err := agent.Connect(t.Context(), liar{says: func(string) []byte { return []byte("null") }, after: 2 * time.Hour}.dial(), "b", 20*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			f := newFleet(nil, "b", nil)
			f.adopt("h", c)
			defer f.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			if _, err = a.of(ctx, f, "h"); err == nil || !strings.HasPrefix(err.Error(), "no answer to "+a.method+" within ") {
				t.Errorf("%s: %v", a.method, err)
			}
			if why := f.Unreachable()["h"]; (why != "") == (a.method == string(calls.Beat)) {
				t.Errorf("%s: unreachable: %q", a.method, why)
			}
			c.Close()
			time.Sleep(3 * time.Hour)
		})
	}
}

var hostB = regexp.MustCompile(`\bb\b`)

// TestALiarHarmsNoOtherHost: whatever host b says in the place of doing a step, host a ends in its old or its new state, the
// report says which, and no success is reported that b did not have.
func TestALiarHarmsNoOtherHost(t *testing.T) {
	for _, method := range []string{"snapshot", "act", "enrol", "tx.finish", "tx.ready", "tx.open", "tx.beat", "tx.prepare", "tx.persist", "tx.commit", "tx.revert", "tx.list", "stack.start"} {
		for name, text := range odd() {
			if !json.Valid(text) || len(text) > 1<<10 {
				continue // said by a test above
			}
			synctest.Test(t, func(t *testing.T) {
				y := newToys(t)
				y.lasts, y.stacks = true, method == "stack.start"
				y.hosts["b"].says = map[string]json.RawMessage{method: text}
				r := y.run(t.Context(), Options{})
				synctest.Wait()
				a, b := y.hosts["a"], y.hosts["b"]
				held := r.Plan != nil && len(r.Plan.Unreachable()) > 0 // a does not change its end of a link whose other end is unreachable
				if want := map[checkpoint.State]string{checkpoint.Committed: "2"}[a.tx.State]; a.value != cmp.Or(want, "1") && !held {
					t.Errorf("%s to %s: host a has %q in state %q", name, method, a.value, a.tx.State)
				}
				if a.tx.ID != "" && a.tx.State.Open() {
					t.Errorf("%s to %s: the transaction of host a is open: %s", name, method, a.tx.State)
				}
				if r.Ending == Done && (b.value != "2" || b.tx.State != checkpoint.Committed) {
					t.Errorf("%s to %s: success is reported, and host b has %q in state %q", name, method, b.value, b.tx.State)
				}
				if r.Ending != Done && r.Err == nil && len(r.Plan.Unreachable()) == 0 {
					t.Errorf("%s to %s: ending %d says nothing of host b", name, method, r.Ending)
				}
				if r.Err != nil && !hostB.MatchString(r.Err.Error()) {
					t.Errorf("%s to %s: %v", name, method, r.Err)
				}
			})
		}
	}
}
