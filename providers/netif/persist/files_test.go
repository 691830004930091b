package persist

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/facts"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// owners are those that files are written for.
var owners = map[string]*facts.Snapshot{
	"networkd": snapshot(facts.Networkd), "netplan": snapshot(facts.Netplan, facts.Networkd), "networkmanager": snapshot(facts.NetworkManager),
	"netplan-networkmanager": behindNM(), "ifupdown": snapshot(facts.Ifupdown),
}

func behindNM() *facts.Snapshot {
	s := snapshot(facts.Netplan, facts.NetworkManager)
	s.Managers.Behind = facts.NetworkManager
	return s
}

func wantFiles(t *testing.T, snap *facts.Snapshot) ([]File, []string) {
	t.Helper()
	files, notes, err := Files(snap, rich())
	if err != nil {
		t.Fatal(err)
	}
	return files, notes
}

// TestFilesOfEachManager compares all files of a rich spec with testdata/OWNER.txt.
func TestFilesOfEachManager(t *testing.T) {
	for name, snap := range owners {
		t.Run(name, func(t *testing.T) {
			files, notes := wantFiles(t, snap)
			var b strings.Builder
			for _, n := range notes {
				fmt.Fprintf(&b, "note: %s\n", n)
			}
			for _, f := range files {
				fmt.Fprintf(&b, "-- %s %04o --\n%s", f.Path, f.Mode, f.Text)
			}
			golden := filepath.Join("testdata", name+".txt")
			if *update {
				if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if b.String() != string(want) {
				t.Errorf("differs from %s; -update writes it:\n%s", golden, b.String())
			}
		})
	}
}

func TestFilesAreInOrderAndOurOwn(t *testing.T) {
	for name, snap := range owners {
		files, _ := wantFiles(t, snap)
		if !slices.IsSortedFunc(files, func(a, b File) int { return strings.Compare(a.Path, b.Path) }) {
			t.Error(name, "not sorted")
		}
		for _, f := range files {
			if !f.Folder && (!ours(f.Text, "lab") || ours(f.Text, "la") || ours(f.Text, "lab-2")) {
				t.Errorf("%s: whose is %s?", name, f.Path)
			}
		}
	}
}

func TestNobodyKeepsNothing(t *testing.T) {
	files, notes, err := Files(snapshot(), rich())
	if files != nil || err != nil || len(notes) != 1 || !strings.Contains(notes[0], "no network manager") {
		t.Fatal(files, notes, err)
	}
}
