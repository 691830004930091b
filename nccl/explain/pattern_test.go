package explain

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestWordsOfExpressions: each match of an expression has one of its words.
func TestWordsOfExpressions(t *testing.T) {
	for text, want := range map[string][]string{
		`NCCL_IB`:                         {"nccl_ib"},
		`(?i)\b(?:hang(?:s|ed)?|hung)\b`:  {"ang", "ung"},
		`(?i)\bgpus?\b.{0,10}\bslow`:      {"slow"},
		`x{0,3}abc?`:                      {"ab"},
		`(?:abc)*`:                        nil,
		`(?:abc){2}`:                      {"abc"},
		`abc|\d+`:                         nil,
		`abc|`:                            nil,
		`a\d`:                             nil,
		`(?:an?|the) (\w+ address)`:       {" address"},
		`卡住|失败`:                           {"卡住", "失败"},
		`[Cc]onnect to (\d+\.\d+\.\d+)<`:  {"onnect to "},
		`^Address already in use(?: .*)?`: {"address already in use"},
	} {
		x := compile(text)
		var got []string
		for _, words := range x.words {
			got = append(got, words...)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) || x.open != (want == nil) {
			t.Errorf("%s needs %q, want %q", text, got, want)
		}
	}
	for _, c := range []struct {
		text, line string
		is         bool
	}{
		{`(?i)\bhang`, "It HANGS.", true}, {`(?i)\bhang`, "han", false}, {`(?i)ask`, "aſ\u212a", true}, {`abc`, "ABC", false}, {`abc`, "xabcx", true}, {`(?i)İx`, "İx", true}, {`(?i)éa`, "Éa", true}, {`x`, "", false}, {`x*`, "", true},
	} {
		if got := compile(c.text).MatchString(c.line); got != c.is {
			t.Errorf("%s matches %q: %v", c.text, c.line, got)
		}
	}
}

// TestExpressionsMissNothing: on lines that were printed and written, an expression finds what its regular expression finds.
func TestExpressionsMissNothing(t *testing.T) {
	tell, hang, rate := said(), hanging(), slowly()
	all := []*expression{tell.noRDMA, tell.onlySets, tell.whenSet, tell.leads, tell.setsDirect, tell.helps, tell.stillFails, tell.helpsNot, hang.hangs, hang.denies, hang.withRanks, hang.withHosts, rate.slow, rate.ofNCCL, rate.overRDMA, rate.noDirect,
		trouble.re(), suspicious.re(), assigns.re(), guards.re(), epochEnds.re(), progressed.re(), watched.re(), stepForm.re(), connects.re(), gidNames.re(), differs.re(), timedOut.re(), plugsNetwork.re(), composed.re(), begins.re()}
	for _, c := range knownCures() {
		all = append(all, c.set)
	}
	for _, asked := range tellings() {
		all = append(all, asked.says, asked.beside)
	}
	files, _ := filepath.Glob("testdata/*")
	more, _ := filepath.Glob("testdata/*/*")
	matched := 0
	for _, file := range slices.Concat(files, more) {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // a directory
		}
		for line := range strings.Lines(string(text)) {
			for _, x := range all {
				if !x.Regexp.MatchString(line) {
					continue
				}
				if matched++; !x.may(line) {
					t.Fatalf("%s has no word of %q", x, line)
				}
			}
		}
	}
	if matched < 5000 {
		t.Errorf("%d matches", matched)
	}
}
