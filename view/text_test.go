package view

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/muesli/termenv"

	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/lab/site"
	"github.com/fabricform/fabricform/nccl/explain"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/validators"
)

// hostile are texts that forge lines, colours, links, mentions, headings or commands, wherever one is taken for more than text.
var hostile = []string{
	"a\n✓ forged", "a\r✓ forged", "a\r\n\r\n✓ forged", "a\x1b[2K\x1b[1G✓ forged", "a\x0b\x0c✓ forged", "a\u0085✓ forged", "a\u2028✓ forged", "a\u2029✓ forged",
	"a\x1b[8mconcealed\x1b[0m", "\x1b[32m✓ forged\x1b[0m", "\x1b[1;31mred", "\u009b8mconcealed", "\x9b8mconcealed", "\xff\xfe", "\xe2\x82",
	"\x1b]8;;http://evil\x07link\x1b]8;;\x07", "\x1b]0;title\x1b\\", "\u009d0;title\u009c", "\x1bPq\x1b\\", "\x1bc", "\x00\x07\b\x7f\x0e",
	"\u202egnihton", "\u2066a\u2069\u200e\u200f\u061c", "a\u200bb\u2060\ufeff\u00ad", "\U000e0041\U000e007f\ue000", strings.Repeat("\u2800", 40) + "✓ forged", strings.Repeat("\u00a0", 40) + "✓ forged",
	"<img src=x onerror=a()>", "<!-- -->", "</summary></details><h1>h", "&lt;b&gt;", "a`b``c```d", "```\n# heading", "[l](http://evil)", `\[l\](http://evil) \`, "![i](http://evil)",
	"https://evil www.evil.com", "| a | b |\n|---|---|", "@team me@team", "# heading", "\n\n# heading\n\n- item", "*b* _i_ ~~s~~ $x$", ":white_check_mark: :tada:", "#1 GH-1", "::error::x", `"; rm -rf / #`, "$(reboot) `reboot` 'x' \\",
}

// fill sets every string below v to s, in lists and maps of one element.
func fill(v reflect.Value, s string, depth int) {
	switch v.Type() {
	case reflect.TypeFor[json.RawMessage]():
		raw, err := json.Marshal(s)
		if err != nil {
			panic(err)
		}
		v.SetBytes(raw)
		return
	case reflect.TypeFor[time.Time]():
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(s)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Pointer:
		if depth > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem(), s, depth-1)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i), s, depth)
			}
		}
	case reflect.Slice:
		if depth > 0 && v.Type().Elem().Kind() != reflect.Uint8 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			fill(v.Index(0), s, depth-1)
		}
	case reflect.Map:
		if depth > 0 && v.Type().Elem().PkgPath() != "" && v.Type().Key().Kind() == reflect.String || v.Type().Elem().Kind() == reflect.String {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(key, s, depth-1)
			fill(value, s, depth-1)
			v.Set(reflect.MakeMap(v.Type()))
			v.SetMapIndex(key, value)
		}
	}
}

func filled[T any](s string, change func(*T)) T {
	var out T
	fill(reflect.ValueOf(&out).Elem(), s, 8)
	if change != nil {
		change(&out)
	}
	return out
}

// plansOf are plans in which every text is s: with each reason to leave a host out, and each kind of action.
func plansOf(s string) (out []*planner.Plan) {
	add := func(change func(h *planner.HostPlan)) {
		p := filled[planner.Plan](s, func(p *planner.Plan) { change(&p.Hosts[0]) })
		out = append(out, &p)
	}
	add(func(*planner.HostPlan) {})
	add(func(h *planner.HostPlan) { h.Unreachable = "" })
	add(func(h *planner.HostPlan) { h.Unreachable, h.Stale = "", nil })
	for _, op := range []planner.Op{planner.Create, planner.Update, planner.Keep, planner.Undo, planner.Reconnect} {
		for _, empty := range []string{"", "from", "to"} {
			add(func(h *planner.HostPlan) {
				h.Unreachable, h.Stale, h.Problems, h.Actions[0].Op = "", nil, nil, op
				switch c := &h.Actions[0].Changes[0]; empty {
				case "from":
					c.From = ""
				case "to":
					c.To = ""
				}
			})
		}
	}
	return out
}

func resultsOf(s string) (out []validators.Result) {
	for _, verdict := range []validators.Verdict{validators.Pass, validators.Fail, validators.Warn, validators.Skip} {
		kinds := []validators.SubjectKind{validators.SubjectHosts, validators.SubjectNetwork, validators.SubjectGroup, validators.SubjectLink, validators.SubjectHost}
		for i, item := range []validators.Item{"", validators.Item(s), validators.SmallPing, validators.FullSizePing, validators.Carrier, validators.ConfVariable, validators.Version, validators.CameUp, validators.PerftestRun, validators.BusBandwidth, validators.CommonCause} {
			out = append(out, filled[validators.Result](s, func(r *validators.Result) {
				r.Verdict, r.Subject.Kind, r.Item = verdict, kinds[i%len(kinds)], item
				if i >= len(kinds) {
					r.Place, r.Peer = nil, ""
				}
			}))
		}
	}
	return out
}

func outcomesOf(s string) (out []apply.HostOutcome) {
	for _, fate := range []apply.Fate{apply.Fate(s), apply.Committed, apply.Reverted, apply.RevertFailed, apply.Lost, apply.Waiting} {
		for _, done := range []bool{true, false} {
			out = append(out, filled[apply.HostOutcome](s, func(o *apply.HostOutcome) {
				o.Fate, o.Outcomes[0].Done = fate, done
				o.Outcomes = append(o.Outcomes, apply.Outcome{Action: o.Outcomes[0].Action, Err: fmt.Errorf("%s", s)})
			}))
		}
	}
	return out
}

// texts are all that a printer can show, with s in the place of every value.
func texts(p *Printer, s string) {
	for _, plan := range plansOf(s) {
		p.Plan(plan, []string{s})
	}
	p.Walk(outcomesOf(s))
	p.Results(resultsOf(s), false)
	p.Results(resultsOf(s)[:3], true)
	p.Unreachable(map[string]string{s: s})
	p.Note("%s", s)
	p.Show(filled[apply.HostFacts](s, nil))
	p.History([]apply.Applied{filled[apply.Applied](s, nil), filled(s, func(a *apply.Applied) { a.Failed = "" })}, nil)
	p.Pending([]apply.HostTransaction{filled[apply.HostTransaction](s, nil)}, fabric.Invocation{})
	c := filled[apply.Capture](s, nil)
	p.Capture(&c)
	p.Lab(filled[site.Status](s, nil))
	p.Explanation(s, filled[explain.Explanation](s, nil))
	_ = p.Outputs([]fabric.Output{filled(s, func(o *fabric.Output) { o.Sensitive = false })}, "", OutputText)
	_ = p.Outputs(nil, s, OutputText)
	_ = p.Diagnostics(map[string]*hcl.File{"f.hcl": {Bytes: []byte("a = 1\n")}}, hcl.Diagnostics{{Severity: hcl.DiagError, Summary: strings.ReplaceAll(s, "\n", " "), Detail: strings.ReplaceAll(s, "\n", " "),
		Subject: &hcl.Range{Filename: "f.hcl", Start: hcl.InitialPos, End: hcl.Pos{Line: 1, Column: 2, Byte: 1}}}})
}

// unprinted returns a character of the output that does more than to be seen; 0 if there is none.
func unprinted(out string) rune {
	for i, r := range out {
		if r != '\n' && r != 0x1b && !prints(r) || r == utf8.RuneError && !strings.HasPrefix(out[i:], string(utf8.RuneError)) {
			return r
		}
	}
	return 0
}

// TestNoTextForgesALine: whatever a value holds, the lines, their beginnings and their colours are those of a harmless value.
func TestNoTextForgesALine(t *testing.T) {
	shown := func(s string, coloured bool) string {
		var b bytes.Buffer
		p := New(&b)
		if coloured {
			p.r.SetColorProfile(termenv.TrueColor)
		}
		texts(p, s)
		return b.String()
	}
	for _, coloured := range []bool{false, true} {
		harmless := shown("harmless", coloured)
		for _, s := range hostile {
			out := shown(s, coloured)
			if r := unprinted(out); r != 0 {
				t.Errorf("%q: %q is printed", s, r)
			}
			if got, want := strings.Count(out, "\n"), strings.Count(harmless, "\n"); got != want {
				t.Errorf("%q: %d lines, and %d with a harmless value", s, got, want)
			}
			if got, want := strings.Count(out, "\x1b"), strings.Count(harmless, "\x1b"); got != want {
				t.Errorf("%q: %d escape sequences, and %d with a harmless value", s, got, want)
			}
			for line := range strings.Lines(out) {
				if strings.HasPrefix(strings.TrimSpace(line), "✓ forged") {
					t.Errorf("%q: a line is forged: %s", s, line)
				}
			}
		}
	}
}

// TestFurtherLinesOfAnErrorAreMarked: an error may have several lines, and only the first looks like one of ours.
func TestFurtherLinesOfAnErrorAreMarked(t *testing.T) {
	var b bytes.Buffer
	New(&b).Errorf("host a: %s", "it printed:\nWelcome\n\n✓ host a: committed\x1b[2J")
	if want := "✗ error: host a: it printed:\n  │ Welcome\n  │ ✓ host a: committed\\x1b[2J\n"; b.String() != want {
		t.Errorf("%q", b.String())
	}
}

var fenced, title, backticks = regexp.MustCompile("(?s)```diff\n.*?\n```\n"), regexp.MustCompile("<b>[^<\n]*</b>"), regexp.MustCompile("`+")

// bare removes what Markdown does not interpret: fenced blocks, code spans and escaped characters.
func bare(text string) string {
	text = fenced.ReplaceAllString(text, "")
	text = title.ReplaceAllStringFunc(text, func(title string) string {
		return strings.NewReplacer("[", "", "]", "", "*", "", "_", "", "~", "", "$", "", "`", "", "|", "", `\`, "").Replace(title)
	}) // HTML, in which Markdown is not read
	var b strings.Builder
	for i := 0; i < len(text); {
		switch {
		case text[i] == '\\' && i+1 < len(text):
			i += 2
			b.WriteByte(' ')
		case text[i] == '`':
			n := len(text[i:]) - len(strings.TrimLeft(text[i:], "`"))
			end, rest := -1, text[i+n:]
			for _, m := range backticks.FindAllStringIndex(rest[:min(len(rest), 2000)], -1) {
				if m[1]-m[0] == n {
					end = m[0]
					break
				}
			}
			if end < 0 {
				return b.String() + "`unclosed"
			}
			i += n + end + n
		default:
			b.WriteByte(text[i])
			i++
		}
	}
	return b.String()
}

var interpretedMarkdown = regexp.MustCompile("[\\[\\]*_~$`]|@[a-zA-Z]|://|www\\.|:[a-z_]+:|&[^a-z#]")

// TestNoTextIsMarkdown: a value is no element, table cell, link, emphasis, code, mention, emoji or heading, and it begins no line.
func TestNoTextIsMarkdown(t *testing.T) {
	shown := func(s string) string {
		var b strings.Builder
		for _, p := range plansOf(s) {
			b.WriteString(PlanMarkdown(p, []string{s}))
		}
		r := filled[ReportFile](s, func(r *ReportFile) { r.Outcomes, r.Results = outcomesOf(s), resultsOf(s)[:5] })
		text, err := r.Bytes("report.md")
		if err != nil {
			t.Fatal(err)
		}
		return b.String() + string(text)
	}
	count := func(text, pattern string) int { return len(regexp.MustCompile(pattern).FindAllString(text, -1)) }
	harmless := shown("harmless")
	if left := interpretedMarkdown.FindString(bare(harmless)); left != "" {
		t.Fatalf("%q is ours", left)
	}
	for _, s := range hostile {
		out := shown(s)
		if r := unprinted(strings.ReplaceAll(out, "\u200b", "")); r != 0 || strings.Contains(out, "\x1b") {
			t.Errorf("%q: %q is printed", s, r)
		}
		if got, want := strings.Count(out, "\n"), strings.Count(harmless, "\n"); got != want {
			t.Errorf("%q: %d lines, and %d with a harmless value", s, got, want)
		}
		text := bare(out)
		if left := interpretedMarkdown.FindStringIndex(text); left != nil {
			t.Errorf("%q: interpreted: %q", s, text[left[0]:min(left[0]+40, len(text))])
		}
		for _, pattern := range []string{"<", `\|`, "(?m)^ *#", "(?m)^ *[-+>]"} {
			if got, want := count(text, pattern), count(bare(harmless), pattern); got != want {
				t.Errorf("%q: %d of %s, and %d with a harmless value", s, got, pattern, want)
			}
		}
	}
}

// TestNoTextControlsWhereJSONIsShown: JSON holds the value as it is, and shows it in characters that print.
func TestNoTextControlsWhereJSONIsShown(t *testing.T) {
	for _, s := range hostile {
		var b bytes.Buffer
		p := New(&b)
		for _, plan := range plansOf(s) {
			p.JSON().Plan(plan, []string{s})
		}
		p.JSON().Walk(outcomesOf(s))
		p.JSON().Results(resultsOf(s), false)
		p.JSON().Note("%s", s)
		c := filled[apply.Capture](s, nil)
		for _, err := range []error{p.CaptureJSON(&c), p.ShowJSON(filled[apply.HostFacts](s, nil)), p.ExplanationJSON(s, filled[explain.Explanation](s, nil)), p.Outputs([]fabric.Output{filled[fabric.Output](s, nil)}, "", OutputJSON),
			p.DiagnosticsJSON(nil, hcl.Diagnostics{{Severity: hcl.DiagError, Summary: s, Detail: s}})} {
			if err != nil {
				t.Fatal(err)
			}
		}
		report := filled[ReportFile](s, nil)
		text, err := report.Bytes("report.json")
		if err != nil {
			t.Fatal(err)
		}
		out := b.String() + string(text)
		if r := unprinted(out); r != 0 || strings.Contains(out, "\x1b") {
			t.Errorf("%q: %q is printed", s, r)
		}
		b.Reset()
		p.JSON().Note("%s", s)
		var note struct{ Note string }
		if err := json.Unmarshal(b.Bytes(), &note); err != nil || utf8.ValidString(s) && note.Note != s {
			t.Errorf("%q is read as %q: %v", s, note.Note, err)
		}
	}
}

// TestNoTextLeavesItsLabel: in the languages of graphs.
func TestNoTextLeavesItsLabel(t *testing.T) {
	for _, s := range hostile {
		for _, format := range GraphFormats {
			f := filled[fabric.Fabric](s, func(f *fabric.Fabric) { f.Links[0].Endpoints = []fabric.NICRef{{Host: s}, {Host: s}} })
			for _, g := range append([]Graph{Topology(&f)}, Order(plansOf(s)[4])) {
				out := g.Text(format)
				if r := unprinted(out); r != 0 || strings.Contains(out, "\x1b") {
					t.Errorf("%q as %s: %q is printed", s, format, r)
				}
				for i := range g.Boxes {
					g.Boxes[i].Label = "harmless"
				}
				for i := range g.Lines {
					g.Lines[i].Label = "harmless"
				}
				if got, want := strings.Count(out, "\n"), strings.Count(g.Text(format), "\n"); got != want {
					t.Errorf("%q as %s: %d lines, and %d with a harmless value", s, format, got, want)
				}
			}
		}
	}
}

// TestDiagnosticsOfHostileFiles: what a file holds is shown, and forges no line of its own.
func TestDiagnosticsOfHostileFiles(t *testing.T) {
	for _, s := range hostile {
		source := []byte("a = " + strings.ReplaceAll(s, "\n", " ") + "\n")
		var b bytes.Buffer
		if err := New(&b).Diagnostics(map[string]*hcl.File{"f.hcl": {Bytes: source}}, hcl.Diagnostics{{Severity: hcl.DiagError, Summary: "Wrong", Detail: "It is wrong.",
			Subject: &hcl.Range{Filename: "f.hcl", Start: hcl.InitialPos, End: hcl.Pos{Line: 1, Column: 2, Byte: 1}}}}); err != nil {
			t.Fatal(err)
		}
		if r := unprinted(b.String()); r != 0 || strings.Contains(b.String(), "\x1b") {
			t.Errorf("%q: %q is printed in\n%s", s, r, b.String())
		}
	}
}

// TestColumnsAreThoseOfANarrowTerminal, and of no other: a help text is no wider than 80 anywhere.
func TestColumnsAreThoseOfANarrowTerminal(t *testing.T) {
	for width, want := range map[int]int{0: 80, 10: 80, 60: 60, 80: 80, 200: 80} {
		p := New(&bytes.Buffer{})
		p.columns = width
		if got := p.Columns(80); got != want {
			t.Errorf("%d columns: %d, want %d", width, got, want)
		}
	}
}

// TestAListIsFilledBelowItsSecondColumn: as in the help of verify.
func TestAListIsFilledBelowItsSecondColumn(t *testing.T) {
	got := Fill("A paragraph that is\nlonger than a line of the help.\n\n  ping      small packets and packets of full size\n  workload  bounds\n", 30)
	want := "A paragraph that is longer\nthan a line of the help.\n\n  ping      small packets and\n            packets of full\n            size\n  workload  bounds\n"
	if got != want {
		t.Errorf("got\n%s", got)
	}
}

// TestLinesAreBrokenBetweenWords: at 80 columns, further lines are indented, and the words are whole and in their order.
func TestLinesAreBrokenBetweenWords(t *testing.T) {
	var wide, narrow bytes.Buffer
	p := New(&narrow)
	p.columns = 80
	value := strings.TrimSpace(strings.Repeat("a value of several words ", 9))
	texts(New(&wide), value)
	texts(p, value)
	words := func(b bytes.Buffer) []string { return strings.Fields(b.String()) }
	if !slices.Equal(words(wide), words(narrow)) {
		t.Error("words were broken or lost")
	}
	broken := 0
	for line := range strings.Lines(narrow.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
		if strings.HasPrefix(line, "    ") {
			broken++
		}
	}
	if broken < 100 {
		t.Errorf("%d lines are indented", broken)
	}
}

// TestTheCLocaleHasASCII: our own symbols are spelled, and other characters are escaped.
func TestTheCLocaleHasASCII(t *testing.T) {
	for want, env := range map[string]map[string]string{
		"ascii": {"LC_ALL": "C", "LANG": "de_DE.UTF-8"}, "all": {"LC_ALL": "", "LC_CTYPE": "en_US.utf8", "LANG": "C"}, "ascii ": {"LANG": "POSIX"}, "all ": {}, "ascii  ": {"LANG": "de_DE.ISO-8859-1"},
	} {
		if got := asciiOnly(func(name string) string { return env[name] }); got != strings.HasPrefix(want, "ascii") {
			t.Errorf("%v: %v", env, got)
		}
	}
	var b bytes.Buffer
	p := New(&b)
	p.ascii = true
	texts(p, "café ✓")
	for _, r := range b.String() {
		if r >= 0x80 {
			t.Fatalf("%q is printed in\n%s", r, b.String())
		}
	}
	for _, want := range []string{"ok ", "x ", "->", `caf\u00e9 ok`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in\n%s", want, b.String())
		}
	}
}

// TestNoColourHasNoColour: not even on a terminal.
func TestNoColourHasNoColour(t *testing.T) {
	for _, no := range []bool{false, true} {
		var b bytes.Buffer
		p := New(&b)
		p.r.SetColorProfile(termenv.ANSI256)
		p.live = true
		if no {
			p.NoColour()
		}
		p.Errorf("broken")
		diag := &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Wrong", Subject: &hcl.Range{Filename: "f.hcl", Start: hcl.InitialPos, End: hcl.InitialPos}}
		if err := p.Diagnostics(map[string]*hcl.File{"f.hcl": {Bytes: []byte("a\n")}}, hcl.Diagnostics{diag}); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(b.String(), "\x1b["); (n == 0) != no {
			t.Errorf("no colour: %v, but %d colours in %q", no, n, b.String())
		}
	}
}
