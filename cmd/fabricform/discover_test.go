package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/transport"
	"github.com/fabricform/fabricform/view"
)

// TestNobodyListensIfNoPortMaySend: without hosts, or with ports that are down alone, discover calls no host. The session is nil, so a call would panic.
func TestNobodyListensIfNoPortMaySend(t *testing.T) {
	down := &facts.Snapshot{Links: []host.Link{{Index: 2, Name: "eth0", MAC: "02:00:00:00:00:01"}}}
	for name, snaps := range map[string]map[string]*facts.Snapshot{"no host": {}, "ports that are down": {"a": down}} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		a := &app{out: view.New(&bytes.Buffer{}), err: view.New(&bytes.Buffer{})}
		r, err := a.discover(ctx, nil, snaps, finding{listen: time.Hour})
		if err != nil || r.Listened != 0 || len(r.Down) != len(snaps) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

// TestAnInterruptBeforeListeningSpeaksOfNone: nothing listened.
func TestAnInterruptBeforeListeningSpeaksOfNone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a := &app{out: view.New(&bytes.Buffer{}), err: view.New(&bytes.Buffer{})}
	up := &facts.Snapshot{Links: []host.Link{{Index: 2, Name: "eth0", MAC: "02:00:00:00:00:01", Up: true, Carrier: true}}}
	if _, err := a.discover(ctx, nil, map[string]*facts.Snapshot{"a": up}, finding{listen: time.Hour}); err == nil || strings.Contains(err.Error(), "listen") {
		t.Error(err)
	}
}

// TestHostsAreNamedInsteadOfFiles: without files, discover and import ask for the names of hosts. They also say how to give a port.
func TestHostsAreNamedInsteadOfFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	for _, command := range []string{"discover", "import --out new"} {
		for args, want := range map[string]string{"": "or name hosts: root@gpu01", "root@127.0.0.1:99": "set Port for it in ~/.ssh/config, or ssh { port = … }"} {
			root := rootCommand(&app{out: view.New(&bytes.Buffer{}), err: view.New(&bytes.Buffer{})})
			root.SetArgs(strings.Fields(command + " " + args))
			if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s %s: %v", command, args, err)
			}
		}
	}
	for _, address := range []string{"::1", "fe80::1%eth0", "gpu01"} {
		if h, err := hostOf("root@" + address); err != nil || h.Address != address {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// TestTheDirectoryOfAnImportIsNoFile: also not one of a fabric.
func TestTheDirectoryOfAnImportIsNoFile(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"afile", "fabric.hcl"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := canImport(filepath.Join(dir, name)); err == nil || !strings.HasSuffix(err.Error(), "it is a file, not a directory") {
			t.Error(err)
		}
	}
	if err := canImport(dir); err == nil || !strings.Contains(err.Error(), "it has files of a fabric (fabric.hcl)") {
		t.Error(err)
	}
	gone, below := filepath.Join(dir, "gone"), filepath.Join(dir, "afile", "new")
	if err := os.Symlink("nowhere", gone); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{gone: "it is a link to nowhere, which does not exist", below: ""} {
		if err := canImport(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".fabricform-*")); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
	for _, free := range []string{t.TempDir(), filepath.Join(dir, "new"), filepath.Join(dir, "new", "deep")} {
		if err := canImport(free); err != nil {
			t.Error(err)
		}
	}
}

// TestTheHintAfterAnImportNamesTheLab: -lab alone is the lab of the fabric's own name.
func TestTheHintAfterAnImportNamesTheLab(t *testing.T) {
	lab, same, other := &fabric.Fabric{Name: "lab"}, &fabric.Fabric{Name: "lab"}, &fabric.Fabric{Name: "k1"}
	for _, c := range []struct {
		flag string
		of   *fabric.Fabric
		want string
	}{{ownLab, same, "-lab"}, {ownLab, other, "-lab=lab"}, {"third", other, "-lab=third"}, {"", other, ""}} {
		if got := strings.Join((&app{lab: c.flag}).labFlagOf(lab, c.of), " "); got != c.want {
			t.Errorf("-lab %q for %s: %q", c.flag, c.of.Name, got)
		}
	}
}

// TestErrorsOfLabsNameTheFabric: in the commands that they advise.
func TestErrorsOfLabsNameTheFabric(t *testing.T) {
	cause := errors.New("no LACP: use `fabricform lab up -backend vm`")
	err := filled(cause, fabric.Invocation{Path: "my-fabric/", Flags: []string{"-lab"}})
	if err.Error() != "no LACP: use `fabricform lab up -backend vm my-fabric/`" || !errors.Is(err, cause) || filled(nil, fabric.Invocation{}) != nil {
		t.Error(err)
	}
}

// TestAMachineWithTwoNamesIsRefused: its ports would be cabled to themselves. Hosts of a namespace lab have one boot, and other devices.
func TestAMachineWithTwoNamesIsRefused(t *testing.T) {
	named := func(boot, mac string) *facts.Snapshot {
		return &facts.Snapshot{System: facts.System{BootID: boot}, Links: []host.Link{{Index: 2, Name: "eth0", MAC: mac}}}
	}
	const one, other = "02:00:00:00:00:01", "02:00:00:00:00:02"
	for _, c := range []struct {
		a, b *facts.Snapshot
		want string
	}{
		{named("x", one), named("x", one), "10.0.0.1 and gpu01 are one machine: name it once"},
		{named("x", one), named("x", other), ""},
		{named("x", one), named("y", one), ""},
		{named("", one), named("", one), ""},
	} {
		got := ""
		if err := oneMachine(map[string]*facts.Snapshot{"gpu01": c.a, "10.0.0.1": c.b}); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// TestDataNamesHostsThatCouldNotBeRead: stdout does, and import says how to leave them out, unless no host was read.
func TestDataNamesHostsThatCouldNotBeRead(t *testing.T) {
	path, build := fileOf(t, pairFile)
	t.Chdir(filepath.Dir(path))
	one := func(_ context.Context, to transport.Target) (io.ReadWriteCloser, error) {
		if to.Name == "b" {
			return nil, errors.New("connection refused")
		}
		return answering(build, map[string]any{"snapshot": calls.SnapshotResult{Snapshot: &facts.Snapshot{Links: []host.Link{{Index: 2, Name: "eth0", MAC: "02:00:00:00:00:01"}}}}, "tx.finish": calls.TxFinished{}}), nil
	}
	none := func(context.Context, transport.Target) (io.ReadWriteCloser, error) {
		return nil, errors.New("connection refused")
	}
	for _, c := range []struct {
		command string
		dial    apply.Dial
		failed  string
		cure    bool
	}{
		{"discover -json", one, "b", false}, {"discover -json", none, "a b", false},
		{"import -json -out new", one, "b", true}, {"import -json -out new", none, "a b", false},
	} {
		var out, stderr bytes.Buffer
		root := rootCommand(&app{out: view.New(&out), err: view.New(&stderr), dial: c.dial})
		root.SetArgs(append(longFlags(strings.Fields(c.command)), "f.hcl"))
		var e *exit
		if err := root.ExecuteContext(t.Context()); !errors.As(err, &e) || e.code != exitUnreachable {
			t.Fatalf("%s: %v\n%s", c.command, err, stderr.String())
		}
		var said struct {
			Format int
			Files  []string
			Failed map[string]string
		}
		if err := json.Unmarshal(out.Bytes(), &said); err != nil {
			t.Fatalf("%s: %v in %q", c.command, err, out.String())
		}
		got := strings.Join(slices.Sorted(maps.Keys(said.Failed)), " ")
		if got != c.failed || said.Format != view.EventFormat || len(said.Files) > 0 || !strings.Contains(said.Failed["b"], "connection refused") || !strings.Contains(stderr.String(), "unreachable b") {
			t.Errorf("%s: %s\n%s", c.command, out.String(), stderr.String())
		}
		if cure := e.err != nil && strings.HasSuffix(e.err.Error(), "add -exclude=b"); cure != c.cure {
			t.Errorf("%s: %v", c.command, e.err)
		}
	}
}
