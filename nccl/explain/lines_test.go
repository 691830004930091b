package explain

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/nccl/env"
)

// line is a fixture: a line as one version of NCCL, or another program, prints it.
type line struct{ from, summary, text string }

// lines reads testdata/lines*.txt.
func lines(t *testing.T) (out []line) {
	t.Helper()
	files, err := filepath.Glob("testdata/lines*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for l := range strings.Lines(string(text)) {
			parts := strings.SplitN(strings.TrimSuffix(l, "\n"), "\t", 3)
			if len(parts) == 3 {
				out = append(out, line{parts[0], parts[1], parts[2]})
			}
		}
	}
	return out
}

// TestEachFormHasALine: each form of each line is shown by a fixture, with the tag of NCCL's source that prints it, and each fixture has
// its meaning: in NCCL's log, alone, it is understood, and an error, a warning or a remark of that name, and never nothing.
func TestEachFormHasALine(t *testing.T) {
	all := lines(t)
	shown := map[string]bool{}
	for _, l := range all {
		text := "gpu1:100:120 [0] NCCL INFO cudaDriverVersion 12040\n" + l.text
		if v, err := env.ParseVersion(l.from); err == nil {
			text = "gpu1:100:120 [0] NCCL INFO NCCL version " + v.String() + "+cuda12.4\n" + text
		}
		got := Explain("log", text+"\n", nil, fabric.Invocation{})
		found := slices.ContainsFunc(got.Findings, func(f Finding) bool {
			said := slices.IndexFunc(meanings, func(m *meaning) bool { return m.role == remark && m.summary == l.summary }) >= 0
			return f.Summary == l.summary && (f.Severity <= env.Warning || said)
		})
		if l.summary == "harmless" && len(got.Findings) > 0 || l.summary != "harmless" && !found {
			t.Errorf("%s: %s: want %q, got %s", l.from, l.text, l.summary, asText(got))
		}
		if got.Read.Unknown.Count > 0 {
			t.Errorf("%s: %s: a line is not understood: %s", l.from, l.text, asText(got))
		}
		among := anyLine()
		if strings.Contains(l.text, "NCCL INFO ") {
			among = infoLine()
		}
		said := l.text
		if among.meant(said) == nil {
			said = inWords(said)
		}
		if m := among.meant(said); m != nil {
			for _, f := range m.forms {
				if has(said, f) {
					shown[m.summary+"\x00"+f] = true
				}
			}
		}
	}
	for _, m := range meanings {
		for _, f := range m.forms {
			if !shown[m.summary+"\x00"+f] {
				t.Errorf("%s: no line in testdata/lines*.txt shows the form %q", m.summary, f)
			}
		}
		if m.role != harmless && (m.summary == "" || m.costs == "" || m.instead == "") {
			t.Errorf("%s %q has no cause or no cure", m.summary, m.forms)
		}
	}
}

// TestIndexFindsTheFirstMeaning: a line has the meaning that a search through all forms in their order finds.
func TestIndexFindsTheFirstMeaning(t *testing.T) {
	for _, l := range lines(t) {
		var want *meaning
		if i := slices.IndexFunc(meanings, func(m *meaning) bool {
			return slices.ContainsFunc(m.forms, func(f string) bool { return has(l.text, f) })
		}); i >= 0 {
			want = meanings[i]
		}
		if got := anyLine().meant(l.text); got != want {
			t.Errorf("%s: %v, want %v", l.text, got, want)
		}
	}
}
