package persist

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/netmanager"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// managedHosts are the hosts that files are written for.
var managedHosts = map[string]*facts.Snapshot{
	"networkd": snapshot(networkd), "netplan": snapshot(netplan, networkd), "networkmanager": snapshot(networkManager),
	"netplan-networkmanager": behindNM(), "ifupdown": snapshot(ifupdown), "ifcfg": snapshot(ifcfg),
}

func behindNM() *facts.Snapshot {
	s := snapshot(netplan, networkManager)
	found(s, func(f *netmanager.Found) { f.Behind = networkManager })
	return s
}

func wantFiles(t *testing.T, snap *facts.Snapshot) ([]netmanager.File, []string) {
	t.Helper()
	files, notes, err := Files(snap, rich())
	if err != nil {
		t.Fatal(err)
	}
	return files, notes
}

// TestFilesOfEachManager compares all files of a rich spec with testdata/OWNER.txt.
func TestFilesOfEachManager(t *testing.T) {
	for name, snap := range managedHosts {
		t.Run(name, func(t *testing.T) {
			files, notes := wantFiles(t, snap)
			compareFiles(t, filepath.Join("testdata", name+".txt"), files, notes)
		})
	}
}

// compareFiles compares notes and files with a golden file.
func compareFiles(t *testing.T, golden string, files []netmanager.File, notes []string) {
	t.Helper()
	var b strings.Builder
	for _, n := range notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	for _, f := range files {
		fmt.Fprintf(&b, "-- %s %04o --\n%s", f.Path, f.Mode, f.Text)
	}
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
}

// TestRoutesAndRulesNeedNoAddress: what a NIC without addresses leads to is kept by each manager.
func TestRoutesAndRulesNeedNoAddress(t *testing.T) {
	s := rich()
	s.NICs[0].Addresses = nil
	for name, snap := range managedHosts {
		files, _, err := Files(snap, s)
		if err != nil {
			t.Fatal(err)
		}
		var text string
		for _, f := range files {
			text += f.Text
		}
		for _, says := range []string{"10.77.0.0/16", "fd00:30::/48", "10101", "10102"} {
			if !strings.Contains(text, says) {
				t.Errorf("%s: %s is not kept:\n%s", name, says, text)
			}
		}
	}
	render := func(manager string) string {
		m := netmanager.Lookup(manager)
		return m.Render([]netmanager.Link{{NIC: s.NICs[0], Link: managedHosts["networkmanager"].Links[0], Fabric: "lab", Manager: m}})[0].Text
	}
	if text := render(networkManager); !strings.Contains(text, "[ipv4]\nmethod=disabled\nroute1=10.30.0.0/16,") || !strings.Contains(text, "[ipv6]\nmethod=link-local\naddr-gen-mode=eui64\nroute1=fd00:30::/48,") {
		t.Error(text)
	}
	if text := render(ifupdown); !strings.Contains(text, "inet manual\n\tup ip link set dev ens1f0 mtu 9000\n\tup ip link set dev ens1f0 up\n\tup ip route replace 10.30.0.0/16 ") {
		t.Error(text)
	}
}

func TestFilesAreInOrderAndOurOwn(t *testing.T) {
	for name, snap := range managedHosts {
		files, _ := wantFiles(t, snap)
		if !slices.IsSortedFunc(files, func(a, b netmanager.File) int { return strings.Compare(a.Path, b.Path) }) {
			t.Error(name, "not sorted")
		}
		for _, f := range files {
			if !f.Folder && (!netmanager.Ours(f.Text, "lab") || netmanager.Ours(f.Text, "la") || netmanager.Ours(f.Text, "lab-2")) {
				t.Errorf("%s: whose is %s?", name, f.Path)
			}
		}
	}
}

// TestOtherBuildsFilesAreOurs: the line for readers may change from build to build.
func TestOtherBuildsFilesAreOurs(t *testing.T) {
	for text, want := range map[string]bool{
		"# Made by fabricform for the fabric \"lab\".\n# A line for readers, of another build.\n[Match]\n":           true,
		"#!/bin/sh\n# Made by fabricform for the fabric \"lab\".\n# A line for readers, of another build.\nexit 0\n": true,
		"# Made by fabricform for the fabric \"lab-2\".\n":                                                           false,
		"# Made by hand.\n# Made by fabricform for the fabric \"lab\".\n":                                            false,
	} {
		if got := netmanager.Ours(text, "lab"); got != want {
			t.Errorf("%q: ours %t", text, got)
		}
	}
}

func TestNobodyKeepsNothing(t *testing.T) {
	files, notes, err := Files(snapshot(), rich())
	if files != nil || err != nil || len(notes) != 1 || !strings.Contains(notes[0], "no network manager") {
		t.Fatal(files, notes, err)
	}
	raw, err := json.Marshal(rich())
	if err != nil {
		t.Fatal(err)
	}
	kind, _ := Kinds().Lookup(Kind)
	if d, err := kind.Plan(snapshot(), raw); err != nil || d.Exists || len(d.Changes) > 0 || len(d.Notes) != 1 {
		t.Errorf("%+v, %v", d, err)
	}
	if d, err := kind.Plan(snapshot(networkd), raw); err != nil || !d.Exists {
		t.Errorf("with networkd: %+v, %v", d, err)
	}
}

// TestFilesSetValuesAtBoot: a plan that removes them says what the next boot loses. The programs and the release of NICs beside them set nothing.
func TestFilesSetValuesAtBoot(t *testing.T) {
	for _, k := range Kinds() {
		if k.Boots != (k.Name == Kind) {
			t.Errorf("kind %s: %v", k.Name, k.Boots)
		}
	}
}
