package packagemanager

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/host"
)

func TestDpkgTellsWhatIsUnfinished(t *testing.T) {
	const status = `Package: rdma-core
Status: install ok installed
Priority: optional
Description: RDMA
 Package: not a field
Version: 56.1-1

Package: perftest
Status: install ok half-configured
Version: 25.01.0+0.80-1

Package: gone
Status: deinstall ok config-files
Version: 1

Package: other
Status: install ok installed
Version: 2

Package: libibverbs1
Status: install ok unpacked
Architecture: i386
Version: 56

Package: libibverbs1
Status: install ok installed
Architecture: amd64
Version: 55
`
	want := map[string]Package{"rdma-core": {Version: "56.1-1"}, "perftest": {"25.01.0+0.80-1", "half-configured"}, "libibverbs1": {"56", "unpacked"}}
	if got := parseDpkg(status, []string{"rdma-core", "perftest", "gone", "libibverbs1"}); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}

func TestRPMSaysWhatIsNotInstalledInASentence(t *testing.T) {
	got := parseRPM("rdma-core\t51.0-1.el9_5\npackage libnccl is not installed\nperftest\t1:24.04-1\n")
	if want := map[string]Package{"rdma-core": {Version: "51.0-1.el9_5"}, "perftest": {Version: "1:24.04-1"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}

func TestSimulations(t *testing.T) {
	for _, c := range []struct {
		file    string
		manager *Manager
		exit    int
		steps   []PackageStep
		unknown []string
		failed  string
	}{
		{"apt", apt, 0, []PackageStep{{Name: "ibverbs-providers", To: "56.1-1"}, {"libibverbs1", "44.0-2", "56.1-1"}, {Name: "perftest", To: "25.01.0+0.80-1"}, {Name: "rdma-stack", From: "1.0"}}, nil, ""},
		{"apt-unknown", apt, 100, nil, []string{"nosuchpkg"}, ""},
		{"apt-refused", apt, 100, nil, nil, "Version '9' for 'sl' was not found"},
		{"dnf", dnf, 1, []PackageStep{{Name: "libibverbs", To: "51.0-1.el9"}, {Name: "ofed-scripts", From: "24.10-1.el9"},
			{Name: "perftest-with-quite-a-long-name-for-a-column-of-a-table", To: "24.04-1.el9"}, {Name: "rdma-core", To: "51.0-1.el9"}}, nil, ""},
		{"dnf-wrapped", dnf, 1, []PackageStep{{Name: "libibverbs-utils-with-a-name-that-is-too-long", To: "51.0-1.el9_5"}, {Name: "ofed-scripts", From: "24.10-OFED.24.10.2.1.8"}}, nil, ""},
		{"zypper-install", zypper, 0, []PackageStep{{Name: "libibverbs", To: "51.0-1.el9"}, {Name: "rdma-core", To: "51.0-1.el9"}}, nil, ""},
		{"zypper-unknown", zypper, 104, nil, []string{"nosuch"}, ""},
		{"dnf-unknown", dnf, 1, nil, []string{"nosuch"}, ""},
		{"zypper", zypper, 0, []PackageStep{{"libibverbs1", "42.0-1", "49.1-2"}, {Name: "ofed", From: "24.10"}, {Name: "rdma-core", To: "49.1-2"}}, nil, ""},
	} {
		raw, err := os.ReadFile(filepath.Join("testdata", c.file+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		got := c.manager.parseSimulation(host.Answer{Stdout: string(raw), Exit: c.exit})
		if !slices.Equal(got.Steps, c.steps) || !slices.Equal(got.Unknown, c.unknown) || !strings.Contains(got.Failed, c.failed) || (c.failed == "") != (got.Failed == "") {
			t.Errorf("%s: %+v", c.file, got)
		}
	}
}

// answers is a host whose apt answers by the packages that it is asked for, and keeps the questions.
type answers struct {
	host.Reader
	answers map[string]host.Answer
	asked   []string
}

func (a *answers) Inquire(_ context.Context, _ string, args ...string) (host.Answer, error) {
	_, packages, _ := strings.Cut(strings.Join(args, " "), " -- ")
	a.asked = append(a.asked, packages)
	return a.answers[packages], nil
}

// TestOpenDependenciesAreClosed: as apt 2.6 answered where a package was unpacked without one that it
// depends on.
func TestOpenDependenciesAreClosed(t *testing.T) {
	r := &answers{answers: map[string]host.Answer{
		"perftest":        {Exit: 100, Stderr: "The following packages have unmet dependencies:\n third : Depends: conf but it is not going to be installed\nE: Unmet dependencies. Try 'apt --fix-broken install' with no packages (or specify a solution).\n"},
		"":                {Stdout: "Inst conf (1 localhost [all])\nConf conf (1 localhost [all])\nConf third (1  [all])\n"},
		"perftest conf=1": {Stdout: "Inst conf (1 localhost [all])\nInst perftest (25 localhost [all])\n"},
	}}
	got := Simulate(t.Context(), r, apt, []string{"perftest"})
	if want := []PackageStep{{Name: "conf", To: "1"}, {Name: "perftest", To: "25"}}; !slices.Equal(got.Steps, want) || got.Failed != "" {
		t.Errorf("%+v after %q", got, r.asked)
	}
}

// FuzzPackages: what programs of a host print is not believed, and never ends this program.
func FuzzPackages(f *testing.F) {
	for _, seed := range []string{"Inst a [1] (2 x)\nRemv b [1]\n", "Installing:\n a\n  x86_64 1 r 2 k\n", "<stream><install-summary><to-install><solvable name='a'/></to-install></install-summary></stream>",
		"Package: a\nStatus: a b c\n\nPackage: b", "a\tb", "ID=x\nID_LIKE=\"a b\""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, m := range All {
			for _, p := range m.parseSimulation(host.Answer{Stdout: s, Exit: 1}).Steps {
				if p.Name == "" || p.From == "" && p.To == "" {
					t.Errorf("%s: %+v", m.Name, p)
				}
			}
		}
		parseDpkg(s, []string{"a"})
		parseRPM(s)
		ParseRelease(s)
	})
}
