package persist

import (
	"strings"
	"testing"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/netmanager"
	"github.com/fabricform/fabricform/resource"
)

// converged is the rich spec's host with all wanted files in place.
func converged(t *testing.T) *facts.Snapshot {
	t.Helper()
	snap := snapshot(networkd)
	files, _ := wantFiles(t, snap)
	snap.Files = map[string]facts.File{}
	claims := map[string]netmanager.Claim{}
	for _, f := range files {
		if f.Folder {
			snap.Folders = append(snap.Folders, f.Path)
			continue
		}
		snap.Files[f.Path] = facts.File{FileStat: host.FileStat{Mode: f.Mode}, Text: f.Text}
		if name, is := strings.CutPrefix(f.Path, "/etc/systemd/network/05-fabricform-lab-"); is {
			claims[strings.TrimSuffix(name, ".network")] = netmanager.Claim{Manager: networkd, File: f.Path, Exact: true}
		}
	}
	found(snap, func(f *netmanager.Found) { f.Claims = claims })
	return snap
}

func diff(t *testing.T, snap *facts.Snapshot) []resource.Change {
	t.Helper()
	got, err := Observe(snap, rich())
	if err != nil {
		t.Fatal(err)
	}
	return Diff(got)
}

func TestDiffOfTheSettledIsEmpty(t *testing.T) {
	if c := diff(t, converged(t)); len(c) > 0 {
		t.Error(c)
	}
}

func TestDiffSeesDrift(t *testing.T) {
	const file, gone = "/etc/systemd/network/05-fabricform-lab-ens1f0.network", "/etc/udev/rules.d/95-fabricform-lab.rules"
	for name, c := range map[string]struct {
		change func(*facts.Snapshot)
		want   string
	}{
		"a file is gone":        {func(s *facts.Snapshot) { delete(s.Files, gone) }, "file " + gone + " sha256"},
		"a text was changed":    {func(s *facts.Snapshot) { f := s.Files[file]; f.Text += "#\n"; s.Files[file] = f }, "file " + file + " is sha256"},
		"a mode was changed":    {func(s *facts.Snapshot) { f := s.Files[file]; f.Mode = 0o666; s.Files[file] = f }, ",0666, wanted"},
		"an owner was changed":  {func(s *facts.Snapshot) { f := s.Files[file]; f.UID = 7; s.Files[file] = f }, ",owner=7:0, wanted"},
		"a folder is gone":      {func(s *facts.Snapshot) { s.Folders = []string{wantsFolder} }, "folder /etc/systemd/system.conf.d made is missing"},
		"a file is too much":    {func(s *facts.Snapshot) { s.Files["/etc/netplan/90-fabricform-lab.yaml"] = s.Files[file] }, "file /etc/netplan/90-fabricform-lab.yaml sha256"},
		"the manager is behind": {func(s *facts.Snapshot) { delete(netmanager.Part.Of(s).Claims, "ens1f0") }, "manager of ens1f0 " + file + " is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			snap := converged(t)
			c.change(snap)
			got := diff(t, snap)
			if len(got) != 1 || !strings.Contains(got[0].String(), c.want) || got[0].Stage != resource.StagePersist {
				t.Errorf("%v, want %s", got, c.want)
			}
		})
	}
}

func TestAFileOfOthersInOurPlaceStays(t *testing.T) {
	snap := converged(t)
	const file = "/etc/sysctl.d/99-z-fabricform-lab.conf"
	snap.Files[file] = facts.File{Text: netmanager.Header("lab-2")}
	if _, err := Observe(snap, rich()); err == nil || !strings.Contains(err.Error(), file+" already exists") {
		t.Error(err)
	}
}

func TestAManagerThatIsStoppedLosesNothing(t *testing.T) {
	snap := converged(t)
	found(snap, func(f *netmanager.Found) { f.Active = nil })
	if c := diff(t, snap); len(c) > 0 {
		t.Error(c)
	}
	snap.Parts = nil
	if c := diff(t, snap); len(c) > 0 {
		t.Error(c)
	}
}

func TestClaimsIsForAllFilesOfTheFabric(t *testing.T) {
	snap := converged(t)
	other := "/etc/sysctl.d/99-z-fabricform-old.conf"
	snap.Files[other] = facts.File{Text: netmanager.Header("old")}
	for at, want := range map[string]bool{"file /etc/sysctl.d/99-z-fabricform-lab.conf": true, "file " + other: false, "folder /etc/systemd/system.conf.d": true, "folder /etc/x": false} {
		what, path, _ := strings.Cut(at, " ")
		if got := (provider{}).Claims(snap, rich(), resource.NewAtom(Kind, what, path)); got != want {
			t.Errorf("%s: %v", at, got)
		}
	}
}
