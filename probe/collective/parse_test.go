package collective

import (
	"fmt"
	"strings"
	"testing"
)

func TestParseTakesWhatTheScriptPrints(t *testing.T) {
	got := Parse([]byte(`{"python": "3.12.3", "torch": "2.7.0", "nccl": "2.26.2", "has_nccl": true, "gpus": 8, "event": "look"}
{"rank": 1, "event": "connected"}
{"op": "broadcast", "root": 3, "count": 10, "wrong": 2, "at": 4, "got": -1, "want": 5, "event": "values"}
{"op": "all_reduce", "bytes": 1048576, "iterations": 20, "seconds": 0.01, "event": "sweep"}
{"bytes": 16777216, "seconds": 30.5, "event": "stopped"}
{"event": "done"}
`))
	text := fmt.Sprintf("%+v %v %+v %d %+v %+v %v %d", *got.Look, got.Connected, got.Values[0], *got.Values[0].Root, got.Sweep, *got.Beyond, got.Done, got.Strange)
	text = text[:strings.Index(text, "Root:")] + text[strings.Index(text, " Count:")+1:] // a pointer
	want := `{Python:3.12.3 Torch:2.7.0 NCCL:2.26.2 HasNCCL:true GPUs:8} true {Op:broadcast Count:10 Wrong:2 At:4 Got:-1 Want:5} 3 [{Op:all_reduce Bytes:1048576 Iterations:20 Seconds:0.01}] {Op: Bytes:16777216 Iterations:0 Seconds:30.5} true 0`
	if text != want {
		t.Errorf("%s\nwant\n%s", text, want)
	}
}

func TestParseCountsWhatIsStrange(t *testing.T) {
	for _, line := range []string{
		"hello", "[1]", `{"event":"surprise"}`, `{"event":"values","count":3,"wrong":4}`, `{"event":"values","count":0}`, `{"event":"look","gpus":-1}`,
		`{"event":"sweep","bytes":8,"iterations":1,"seconds":0}`, `{"event":"sweep","bytes":8,"iterations":0,"seconds":1}`, `{"event":"sweep","bytes":"8"}`,
		`{"event":"failed","text":7}`, "\xff\xfe",
	} {
		got := Parse([]byte(line + "\n{\"event\":\"done\"}"))
		if got.Strange != 1 || !got.Done || len(got.Values)+len(got.Sweep) > 0 || got.Look != nil {
			t.Errorf("%s: %+v", line, got)
		}
	}
	if got := Parse([]byte(strings.Repeat(`{"event":"values","op":"x","count":1}`+"\n", maxEvents+5))); len(got.Values) != maxEvents || got.Strange != 5 {
		t.Errorf("%d values, %d strange", len(got.Values), got.Strange)
	}
}

func TestBusBandwidth(t *testing.T) {
	// nccl-tests/doc/PERFORMANCE.md: an all-reduce's busbw is algbw * 2(n-1)/n.
	s := Sweep{Bytes: 1e9, Iterations: 4, Seconds: 1}
	for n, want := range map[int]float64{2: 4, 4: 6, 8: 7, 1: 0} {
		if got := BusBandwidth(s, n); got != want {
			t.Errorf("%d ranks: %g GB/s, want %g", n, got, want)
		}
	}
}

// FuzzParse: whatever a host sends, nothing panics, nothing is unbounded, and texts are fit to print.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"event":"look","gpus":1}` + "\n" + `{"event":"failed","stage":"meet","kind":"X","text":"a\nb\u001b[2J"}`))
	f.Add([]byte(`{"event":"values","op":"send_recv","root":null,"count":9,"wrong":1}`))
	f.Add([]byte(`{"event":"sweep","bytes":1e3,"iterations":1,"seconds":1e999}`))
	f.Fuzz(func(t *testing.T, out []byte) {
		r := Parse(out)
		if len(r.Values)+len(r.Sweep) > maxEvents {
			t.Fatal("unbounded")
		}
		texts := ""
		if r.Failure != nil {
			texts = r.Failure.Stage + r.Failure.Kind + r.Failure.Text
		}
		for _, s := range r.Sweep {
			if b := BusBandwidth(s, 2); b < 0 || b != b {
				t.Fatalf("%v", s)
			}
			texts += s.Op
		}
		if strings.ContainsFunc(texts, func(c rune) bool { return c < ' ' || c == 0x7f }) {
			t.Fatalf("%q", texts)
		}
	})
}
