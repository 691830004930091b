package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/netmanager"
	"github.com/fabricform/fabricform/transport"
	"github.com/fabricform/fabricform/view"
)

// TestAFabricWithoutHostsIsNeverAsDeclared: such as a file, or a saved plan, that was cut to nothing.
func TestAFabricWithoutHostsIsNeverAsDeclared(t *testing.T) {
	dir := t.TempDir()
	empty, none := filepath.Join(dir, "saved"), filepath.Join(dir, "f.hcl")
	for path, text := range map[string]string{empty: "", none: "fabric \"none\" {}\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("XDG_STATE_HOME", dir)
	for _, path := range []string{empty, none, dir} {
		for _, command := range []string{"plan", "plan --destroy", "plan --markdown", "plan --json", "apply --auto-approve", "destroy --auto-approve", "verify", "show"} {
			var out bytes.Buffer
			root := rootCommand(&app{out: view.New(&out), err: view.New(&out)})
			root.SetArgs(append(strings.Fields(command), path))
			if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "declares no host") || out.Len() > 0 {
				t.Errorf("%s %s: %v\n%s", command, path, err, out.String())
			}
		}
		var out bytes.Buffer
		root := rootCommand(&app{out: view.New(&out), err: view.New(&out)})
		root.SetArgs([]string{"validate", path})
		if err := root.Execute(); err != nil || !strings.Contains(out.String(), "Warning: No hosts") || strings.Contains(out.String(), "✓") {
			t.Errorf("validate %s: %v\n%s", path, err, out.String())
		}
	}
}

// TestAMistakeInAHostIsNotAFabricWithoutHosts: the warning would stand before the mistake, and be false.
func TestAMistakeInAHostIsNotAFabricWithoutHosts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.hcl")
	if err := os.WriteFile(path, []byte("host \"gpu\" {\n  for_each = [\"gpu0\"]\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	root := rootCommand(&app{out: view.New(&out), err: view.New(&out)})
	root.SetArgs([]string{"validate", path})
	if err := root.Execute(); err == nil || !strings.Contains(out.String(), "Invalid for_each") || strings.Contains(out.String(), "No hosts") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// TestNothingMeasuredIsNoSuccess: a script that verifies must not go on.
func TestNothingMeasuredIsNoSuccess(t *testing.T) {
	path, build := fileOf(t, "host \"a\" {\n  address = \"127.0.0.1\"\n}\n")
	snapshot := &facts.Snapshot{}
	netmanager.Part.Put(snapshot, netmanager.Found{})
	var out bytes.Buffer
	root := rootCommand(&app{out: view.New(&out), err: view.New(&out), dial: func(context.Context, transport.Target) (io.ReadWriteCloser, error) {
		return answering(build, map[string]any{"snapshot": calls.SnapshotResult{Snapshot: snapshot}}), nil
	}})
	root.SetArgs([]string{"verify", "--only", "verbs", path})
	var e *exit
	if err := root.ExecuteContext(t.Context()); !errors.As(err, &e) || e.code != exitCheckFailed || !strings.Contains(out.String(), "Nothing was verified") {
		t.Errorf("%v\n%s", err, out.String())
	}
}
