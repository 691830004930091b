package ofed

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/packagemanager"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/resource/kindtest"
)

func debian(change func(*Stack)) *facts.Snapshot {
	s := &Stack{Name: Inbox, Manager: "apt", Release: packagemanager.Release{ID: "debian", Version: "13"}, Wanted: []string{"perftest", "rdma-core"},
		Packages: map[string]packagemanager.Package{"rdma-core": {Version: "56.1"}, "perftest": {Version: "25.01"}}}
	if change != nil {
		change(s)
	}
	snap := &facts.Snapshot{System: facts.System{Kernel: "6.12.1-cloud-amd64", Arch: "amd64"}}
	part.Put(snap, s)
	return snap
}

// difference is a plan's changes on one line each, or its refusal.
func difference(t *testing.T, snap *facts.Snapshot, want Spec) []string {
	t.Helper()
	kindtest.Travels(t, want)
	raw, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	d, err := Kinds()[0].Plan(snap, raw)
	if err != nil {
		return []string{"refused: " + err.Error()}
	}
	var out []string
	for _, c := range d.Changes {
		if c.Stage != resource.StageStack {
			t.Errorf("%+v is of another stage", c)
		}
		out = append(out, strings.TrimSpace(c.Attribute+": "+c.From+" → "+c.To+" ["+c.Disruption.String()+"]"))
	}
	return out
}

func TestInboxDifferences(t *testing.T) {
	inbox := Spec{Stack: Inbox, Packages: []string{"perftest"}}
	for _, c := range []struct {
		name   string
		change func(*Stack)
		want   []string
		reboot bool
	}{
		{"as declared", nil, nil, false},
		{"one is missing, one goes", func(s *Stack) {
			s.Simulated = &packagemanager.Simulation{Steps: []packagemanager.PackageStep{{Name: "perftest", To: "25.01"}, {Name: "rdma-stack", From: "1"}}}
		}, []string{"package perftest:  → 25.01 [live]", "package rdma-stack: 1 →  [live]"}, false},
		{"lists were never read", func(s *Stack) {
			delete(s.Packages, "perftest")
			s.Wanted = append(s.Wanted, "infiniband-diags=50.0")
			s.Simulated = &packagemanager.Simulation{Unknown: []string{"perftest"}}
		}, []string{"package lists: do not list perftest → refreshed [live]", "package perftest:  → " + newest + " [live]", "package infiniband-diags:  → 50.0 [live]"}, false},
		{"unpacked", func(s *Stack) {
			s.Packages["perftest"] = packagemanager.Package{Version: "25.01", Unfinished: "unpacked"}
		},
			[]string{"package perftest: unpacked → 25.01 [live]"}, false},
		{"half installed: in a later version", func(s *Stack) {
			s.Packages["perftest"] = packagemanager.Package{Version: "25.01", Unfinished: packagemanager.HalfInstalled}
			s.Simulated = &packagemanager.Simulation{Steps: []packagemanager.PackageStep{{Name: "perftest", From: "25.01", To: "26.01"}}}
		}, []string{"package perftest: half-installed → 26.01 [live]"}, false},
		{"half installed: dpkg knows no version", func(s *Stack) {
			s.Packages["perftest"] = packagemanager.Package{Unfinished: packagemanager.HalfInstalled}
		},
			[]string{"package perftest: half-installed → " + newest + " [live]"}, false},
		{"broke off", func(s *Stack) {
			s.Job = &resource.Installation{State: resource.JobRunning, Step: "apt-get install"}
		}, []string{"installation: interrupted during: apt-get install → finished [live]"}, false},
		{"it failed", func(s *Stack) {
			s.Job = &resource.Installation{State: resource.JobFailed, Step: "apt-get update"}
		}, []string{"installation: interrupted during: apt-get update → finished [live]"}, false},
		{"one is under way", func(s *Stack) {
			s.Job = &resource.Installation{State: resource.JobRunning, Step: "apt-get install", Alive: true, Who: "eve@laptop", Fabric: "f"}
		}, []string{`refused: eve@laptop is installing the stack of fabric "f" on this host (apt-get install): wait until that ends, and plan again`}, false},
		{"a kernel without the module, and no reboot", func(s *Stack) { s.Missing = []string{"rdma_rxe"} },
			[]string{`refused: the module rdma_rxe needs another kernel (package linux-image-amd64), and the host must boot it: set reboot = "allow" in its ofed block`}, false},
		{"a kernel without the module", func(s *Stack) {
			s.Missing = []string{"rdma_rxe"}
			s.Simulated = &packagemanager.Simulation{Steps: []packagemanager.PackageStep{{Name: "linux-image-amd64", To: "6.12"}}}
		}, []string{"package linux-image-amd64:  → 6.12 [live]", "reboot: kernel 6.12.1-cloud-amd64 → a kernel with rdma_rxe [reboot]"}, true},
		{"a vendor's stack", func(s *Stack) { s.Name, s.Version = MLNXOFED, "24.10" },
			[]string{"refused: mlnx_ofed 24.10 is installed on this host, and its packages conflict with the distribution's. Remove it first (`/usr/sbin/ofed_uninstall.sh --force`, then reboot), and plan again"}, false},
		{"no manager", func(s *Stack) { s.Manager = "" }, []string{"refused: this host (debian 13) has no supported package manager: fabricform knows apt, dnf, yum or zypper"}, false},
		{"it cannot be", func(s *Stack) { s.Simulated = &packagemanager.Simulation{Failed: "held broken packages"} },
			[]string{"refused: apt cannot install perftest, rdma-core: held broken packages"}, false},
		{"Ubuntu's module is in a package of the same kernel", func(s *Stack) {
			s.Release.ID, s.Missing = "ubuntu", []string{"rdma_rxe"}
			s.Simulated = &packagemanager.Simulation{Steps: []packagemanager.PackageStep{{Name: "linux-modules-extra-6.12.1-cloud-amd64", To: "6.12"}}}
		}, []string{"package linux-modules-extra-6.12.1-cloud-amd64:  → 6.12 [live]"}, false},
	} {
		want := inbox
		want.Reboot = c.reboot
		if got := difference(t, debian(c.change), want); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%q, want\n%q", c.name, got, c.want)
		}
	}
}

func TestALabOfNamespacesInstallsNothing(t *testing.T) {
	snap := debian(nil)
	snap.System.Lab = true
	if got := difference(t, snap, Spec{Stack: Inbox}); len(got) != 1 || !strings.Contains(got[0], "lab up -backend vm") {
		t.Error(got)
	}
}

// changes are those of a plan with all that package managers are asked for.
var changes = []resource.Change{{Attribute: installation, From: "interrupted during: x", To: "finished"}, {Attribute: lists, From: "do not list b", To: "refreshed"},
	{Attribute: "package a", From: "1", To: "2"}, {Attribute: "package b", To: newest}, {Attribute: "package c", From: "1"}}

// apt is how it is told to ask nothing.
const (
	dpkg   = "dpkg --force-confdef --force-confold --configure --pending"
	closes = apt + " --fix-broken --no-remove install --no-install-recommends --"
	apt    = "apt-get --yes --quiet -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold -o DPkg::Lock::Timeout=300"
)

func TestCommandsOfEachManager(t *testing.T) {
	for manager, want := range map[string][]string{
		"apt": {dpkg,
			"apt-get --quiet -o DPkg::Lock::Timeout=300 update",
			closes, apt + " --allow-downgrades install --no-install-recommends -- a=2 b c-"},
		"dnf":    {"dnf -y makecache", "dnf -y --allowerasing install --setopt=install_weak_deps=False -- a-2 b"},
		"yum":    {"yum -y makecache", "yum -y install -- a-2 b"},
		"zypper": {"zypper --non-interactive refresh", "zypper --non-interactive install --auto-agree-with-licenses --oldpackage --no-recommends -- a=2 b"},
	} {
		todo := commands(&Stack{Manager: manager}, changes)
		got := lines(bare(todo))
		for _, c := range todo {
			if !slices.Contains(c.Env, "DEBIAN_FRONTEND=noninteractive") {
				t.Errorf("%s may ask", c.Name)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s:\n%s", manager, strings.Join(got, "\n"))
		}
	}
	half := &Stack{Manager: "apt", Packages: map[string]packagemanager.Package{"a": {Version: "2", Unfinished: packagemanager.HalfInstalled}, "u": {Version: "1", Unfinished: "unpacked"}}}
	for name, c := range map[string]struct {
		stack   *Stack
		changes []resource.Change
		want    []string
	}{
		"what the plan does not show stays":                       {&Stack{Manager: "apt"}, []resource.Change{{Attribute: "package a", To: "2"}}, []string{apt + " --allow-downgrades --no-remove install --no-install-recommends -- a=2"}},
		"also where the lists were not read":                      {&Stack{Manager: "apt"}, changes[3:4], []string{apt + " --allow-downgrades --no-remove install --no-install-recommends -- b"}},
		"what is half installed is installed anew":                {half, []resource.Change{{Attribute: "package a", From: packagemanager.HalfInstalled, To: "2"}}, []string{dpkg, closes, apt + " --allow-downgrades --reinstall --no-remove install --no-install-recommends -- a=2"}},
		"what is unpacked is configured, with what it depends on": {half, []resource.Change{{Attribute: "package u", From: "unpacked", To: "1"}}, []string{dpkg, closes}},
	} {
		if got := lines(bare(commands(c.stack, c.changes))); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%s", name, strings.Join(got, "\n"))
		}
	}
}

// bare are the commands of steps.
func bare(steps []packagemanager.Step) (out []host.Command) {
	for _, s := range steps {
		out = append(out, s.Command)
	}
	return out
}

// lines are commands as they are typed.
func lines(commands []host.Command) (out []string) {
	for _, c := range commands {
		out = append(out, strings.TrimSpace(c.Name+" "+strings.Join(c.Args, " ")))
	}
	return out
}

// machine answers every command alike, and keeps what it was told.
type machine struct {
	host.Host
	answer host.Answer
	ran    []string
}

func (m *machine) Run(_ context.Context, c host.Command, _ io.Writer) (host.Answer, error) {
	m.ran = append(m.ran, c.Name)
	return m.answer, nil
}

// steps is a log that keeps what is announced, until there is no space left.
type steps struct {
	io.Writer
	said []string
	full bool
}

func (s *steps) Step(what string) error {
	if s.full {
		return errors.New("no space left on device")
	}
	s.said = append(s.said, what)
	return nil
}

func TestNothingStartsUnannounced(t *testing.T) {
	m := &machine{}
	if err := applyPackages(t.Context(), m, debian(nil), changes, &steps{full: true}); err == nil || len(m.ran) != 0 {
		t.Errorf("%v, and %v ran", err, m.ran)
	}
}

func TestAFailureStopsAndSaysWhy(t *testing.T) {
	for said, want := range map[string]string{
		"E: Could not get lock /var/lib/dpkg/lock-frontend":             "another package manager was busy",
		"write error: No space left on device":                          "the disk is full",
		"Err:1 http://x y\n  404  Not Found":                            "the package lists are out of date",
		"E: Packages need to be removed but remove is disabled.":        "plan again",
		"one\ntwo\nE: Sub-process /usr/bin/dpkg returned an error code": "one; two; E: Sub-process",
	} {
		m := &machine{answer: host.Answer{Exit: 100, Stderr: said}}
		var log steps
		err := applyPackages(t.Context(), m, debian(nil), changes, &log)
		if err == nil || !strings.Contains(err.Error(), "apt-get exited with status 100: ") || !strings.Contains(err.Error(), want) || len(m.ran) != 2 {
			t.Errorf("%v after %v", err, m.ran)
		}
		if !slices.Equal(log.said, []string{dpkg, "apt-get --quiet -o DPkg::Lock::Timeout=300 update"}) {
			t.Errorf("steps %q", log.said)
		}
	}
	m := &machine{}
	if err := applyPackages(t.Context(), m, debian(nil), changes, &steps{}); err != nil || !reflect.DeepEqual(m.ran, []string{"dpkg", "apt-get", "apt-get", "apt-get"}) {
		t.Error(err, m.ran)
	}
}
