package habits

import (
	"strings"
	"testing"
)

// TestEachWordHasOneCure: a second row with the same word would never be read.
func TestEachWordHasOneCure(t *testing.T) {
	for _, table := range [][]word{commands, labCommands, flags} {
		seen := map[string]bool{}
		for _, w := range table {
			for _, name := range strings.Fields(w.names) {
				if seen[name] {
					t.Errorf("%s is in two rows", name)
				}
				seen[name] = len(flagsOf(w.cure)) == 0 // a command without the flags gets a later row
			}
			if !strings.HasSuffix(w.cure, ".") {
				t.Errorf("the cure for %s is not a sentence: %s", w.names, w.cure)
			}
		}
	}
}

func TestAWordOfNoToolGetsTheNearestName(t *testing.T) {
	known := []string{"apply", "plan"}
	for name, want := range map[string]string{"aply": "Did you mean `fabricform apply`?", "zzz": "The commands are apply, plan.",
		"refresh": "fabricform keeps no state file. `fabricform plan` reads the hosts each time."} {
		if got := Command("fabricform", name, known); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
	for name, want := range map[string]string{"hst": "Did you mean -host?", "zzz": "", "forks": "To work on more or fewer hosts in parallel, use -parallelism."} {
		if got := Flag(name, []string{"host", "var", "parallelism"}); got != want {
			t.Errorf("-%s: %s", name, got)
		}
	}
}
