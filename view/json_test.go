package view

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/lab/site"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/probe/roce"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/validators"
)

var update = flag.Bool("update", false, "rewrite the examples of docs/json.md; read the diff")

// examples are what docs/json.md shows: each is one line of JSON.
func examples() map[string]func(Reporter) {
	mtu := resource.Change{Attribute: "mtu", From: "1500", To: "9000", Disruption: resource.LinkFlap, Atom: "nic ens1f0 mtu"}
	nic := planner.Action{Resource: resource.Resource{Addr: resource.Addr{Host: "a", Kind: "nic", Name: "rail0"}, Spec: json.RawMessage(`{"netdev":"ens1f0","mtu":9000}`), Pos: fabric.Pos{File: "fabric.hcl", Line: 12}},
		Op: planner.Update, Changes: []resource.Change{mtu}, Seen: "5be1c07d"}
	plan := &planner.Plan{Fabric: "pair", Hosts: []planner.HostPlan{{Name: "a", Actions: []planner.Action{nic}, Unchanged: 3,
		Management: facts.Management{Client: netip.MustParseAddr("10.0.0.9"), Server: netip.MustParseAddr("10.0.0.1"), Devices: []string{"eno1"}}}}}
	rail0, both := validators.Subject{Kind: validators.SubjectLink, Name: "rail0"}, validators.Subject{Kind: validators.SubjectHosts}
	results := map[string]validators.Result{
		"ping": {Check: validators.CheckPing, Item: validators.SmallPing, Subject: rail0, Verdict: validators.Pass, Host: "a", Peer: "b", Object: "192.168.88.2",
			Values: []validators.Measurement{{Name: validators.MetricPackets, Value: 10, OutOf: 10},
				{Name: validators.MetricLoss, Unit: validators.Percent, Threshold: &validators.Threshold{AtMost: new(0.0)}},
				{Name: validators.MetricRTT, Value: 14.2, Unit: validators.Micros, Spread: &validators.Spread{Min: 13, Max: 21, StdDev: 1.5}},
				{Name: validators.MetricMaxRTT, Value: 21, Unit: validators.Micros}},
			Counters: []validators.Movement{{Port: "a.rail0", Counter: "tx_packets", Rise: 40, AtLeast: 40, Shared: 4}, {Port: "b.rail0", Counter: "rx_packets", Rise: 40, AtLeast: 40, Shared: 4}}},
		"tcp": {Check: validators.CheckTCP, Item: validators.Throughput, Subject: rail0, Verdict: validators.Fail, Host: "a", Peer: "b",
			Values: []validators.Measurement{{Name: validators.MetricThroughput, Value: 0.61, Unit: validators.Gbps, Threshold: &validators.Threshold{AtLeast: new(0.9), LabGbps: 1, DeclaredGbps: 25}},
				{Name: validators.MetricRetransmits, Value: 311}, {Name: validators.MetricDuration, Value: 5, Unit: validators.Seconds}},
			Setup: &validators.Setup{Streams: 4, CongestionControl: "cubic"}, Cause: "slower than declared: a small MTU, busy CPUs, or retransmits"},
		"skip": {Check: validators.CheckLink, Item: validators.Speed, Subject: rail0, Verdict: validators.Skip, Host: "a", Skipped: validators.NotDeclared, Cause: "no speed_gbps declared"},
		"parity": {Check: validators.CheckParity, Item: validators.Version, Subject: both, Verdict: validators.Warn, Hosts: []string{"c"}, Object: "kernel",
			FoundOn: []validators.FoundOn{{Value: "6.12.9", Hosts: []string{"a", "b"}}, {Value: "6.1.0", Hosts: []string{"c"}}}, Wanted: "the same on all hosts",
			Cause: "drivers and Soft-RoCE behave as their kernel does", Cure: "boot the same kernel everywhere before you compare results"},
	}
	all := map[string]func(Reporter){
		"host_plan": func(r Reporter) { r.Plan(plan, nil) },
		"note":      func(r Reporter) { r.Note("the live checks were left out") },
		"plan":      func(r Reporter) { r.Plan(plan, nil) },
		"host_outcome": func(r Reporter) {
			r.Walk([]apply.HostOutcome{{Host: "a", Outcomes: []apply.Outcome{{Action: nic, Done: true}}, Fate: apply.Reverted, Why: "host b: no space left on device"}})
		},
		"verify": func(r Reporter) {
			r.Results([]validators.Result{results["ping"], results["tcp"], results["skip"], results["parity"]}, false)
		},
	}
	for name, res := range results {
		all["result "+name] = func(r Reporter) { r.Results([]validators.Result{res}, false) }
	}
	return all
}

// printed is the line that the example is about, indented.
func printed(t *testing.T, name string, do func(Reporter)) string {
	t.Helper()
	var b bytes.Buffer
	do(New(&b).JSON())
	kind, _, _ := strings.Cut(name, " ")
	for line := range strings.Lines(b.String()) {
		var e struct{ Type string }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		if e.Type == kind {
			var out bytes.Buffer
			if err := json.Indent(&out, []byte(strings.TrimSpace(line)), "", "  "); err != nil {
				t.Fatal(err)
			}
			return out.String()
		}
	}
	t.Fatalf("%s: no line of its type in %s", name, b.String())
	return ""
}

const jsonPage = "../docs/json.md"

// Each example of docs/json.md is what this build prints for a fixed value.
func TestExamplesOfJSONAreWhatIsPrinted(t *testing.T) {
	page, err := os.ReadFile(jsonPage)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	block := regexp.MustCompile("(?s)<!-- example: ([a-z_ ]+) -->\n```json\n(.*?)\n?```\n")
	out := block.ReplaceAllStringFunc(string(page), func(text string) string {
		m := block.FindStringSubmatch(text)
		do, known := examples()[m[1]]
		if found[m[1]] = true; !known {
			t.Errorf("there is no example %q", m[1])
			return text
		}
		want := printed(t, m[1], do)
		if m[2] != want && !*update {
			t.Errorf("example %q is printed otherwise:\n%s", m[1], want)
		}
		return "<!-- example: " + m[1] + " -->\n```json\n" + want + "\n```\n"
	})
	for name := range examples() {
		if !found[name] {
			t.Errorf("example %q is not in %s", name, jsonPage)
		}
	}
	if *update {
		if err := os.WriteFile(jsonPage, []byte(out), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// docs/json.md names every field and every word of an enumeration.
func TestEveryFieldOfJSONIsDocumented(t *testing.T) {
	page, err := os.ReadFile(jsonPage)
	if err != nil {
		t.Fatal(err)
	}
	// What the page describes as a whole.
	whole := map[reflect.Type]bool{reflect.TypeFor[facts.Snapshot](): true, reflect.TypeFor[host.Route](): true, reflect.TypeFor[json.RawMessage](): true, reflect.TypeFor[time.Time](): true, reflect.TypeFor[netip.Addr](): true}
	seen := map[reflect.Type]bool{}
	var walk func(at reflect.Type)
	walk = func(at reflect.Type) {
		for at.Kind() == reflect.Pointer || at.Kind() == reflect.Slice || at.Kind() == reflect.Map || at.Kind() == reflect.Array {
			if whole[at] {
				return
			}
			at = at.Elem()
		}
		if at.Kind() != reflect.Struct || whole[at] || seen[at] {
			return
		}
		seen[at] = true
		for f := range at.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "-" || !f.IsExported() {
				continue
			}
			if name != "" && !bytes.Contains(page, []byte("`"+name+"`")) {
				t.Errorf("%s.%s: `%s` is not in %s", at, f.Name, name, jsonPage)
			}
			walk(f.Type)
		}
	}
	walk(reflect.TypeFor[event]())
	walk(reflect.TypeFor[PlanSummary]())
	walk(reflect.TypeFor[Tally]())
	walk(reflect.TypeFor[ReportFile]())
	walk(reflect.TypeFor[apply.Capture]())
	walk(reflect.TypeFor[roce.Flow]())
	walk(reflect.TypeFor[HistoryList]())
	walk(reflect.TypeFor[PendingList]())
	walk(reflect.TypeFor[site.Status]())
	walk(reflect.TypeFor[Build]())
	for _, row := range validators.Table {
		if want := fmt.Sprintf("| `%s` | %s | %s |", row.Name, row.Proves, row.Needs); !bytes.Contains(page, []byte(want)) {
			t.Errorf("the row of check %s is not in %s: %s", row.Name, jsonPage, want)
		}
	}
	for _, word := range words(t) {
		if !bytes.Contains(page, []byte("`"+word+"`")) {
			t.Errorf("`%s` is not in %s", word, jsonPage)
		}
	}
}

// words are the values of the constants that validators gives its typed fields.
func words(t *testing.T) (out []string) {
	files, err := filepath.Glob("../validators/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	typed := regexp.MustCompile(`(?m)^\t\w+ +(Verdict|Item|Metric|Unit|SubjectKind|SkipReason|NotJudged|BootState|Check) += "([^"]+)"`)
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range typed.FindAllStringSubmatch(string(text), -1) {
			out = append(out, m[2])
		}
	}
	if len(out) < 60 {
		t.Fatalf("only %d words were found", len(out))
	}
	return out
}
