package apply

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/transport"
)

// TestOnlyTheHostGetsASensitiveValue: neither a saved plan nor a report nor the file of a pending apply has it. A saved
// plan and confirm take it from the files again.
func TestOnlyTheHostGetsASensitiveValue(t *testing.T) {
	const secret = "hunter2"
	y := newToys(t)
	load := func(value, salt string) fabric.Secrets { // as a load of the files does, each time with another salt
		y.fabric.Secrets = fabric.Secrets{}
		y.fabric.NCCL.Env = map[string]string{"NCCL_X": y.fabric.Secrets.Hide(value, strings.Repeat(salt, 32))}
		return y.fabric.Secrets
	}
	load(secret, "1")
	o := y.options()
	sensitive := resource.Kind{Name: "file", Stage: resource.StagePersist, Plan: func(snap *facts.Snapshot, raw json.RawMessage) (resource.Difference, error) {
		d := resource.Difference{Exists: true}
		if string(raw) != `"`+secret+`"` {
			t.Errorf("the plan compares with %s", raw)
		}
		if snap.Sysctls["file"] == "" {
			d.Changes = []resource.Change{{Attribute: "text", To: fabric.Sensitive, Stage: resource.StagePersist}}
		}
		return d, nil
	}}
	o.Resources.Kinds = resource.Kinds{sensitive}
	o.Resources.Desired = func(f *fabric.Fabric, h *fabric.Host) []resource.Resource {
		return []resource.Resource{resource.New(h.Name, "file", "f", fabric.Pos{}, f.NCCL.Env["NCCL_X"])}
	}
	var sent bytes.Buffer
	o.Dial = func(_ context.Context, to transport.Target) (io.ReadWriteCloser, error) {
		h := y.hosts[to.Name]
		handlers := h.handlers()
		open := handlers["tx.open"]
		handlers["tx.open"] = func(ctx context.Context, raw json.RawMessage) (any, error) {
			h.mu.Lock()
			sent.Write(raw)
			h.mu.Unlock()
			return open(ctx, raw)
		}
		return serving(handlers), nil
	}
	hidden := func(what string, v any) {
		t.Helper()
		if raw, err := json.Marshal(v); err != nil || strings.Contains(string(raw), secret) {
			t.Errorf("%s has the value: %v\n%s", what, err, raw)
		}
	}
	s := Open(t.Context(), y.fabric, o)
	text, err := s.Save(s.Propose(t.Context())).Encode()
	s.Close()
	if err != nil || strings.Contains(string(text), secret) {
		t.Fatalf("%v\n%s", err, text)
	}
	saved, err := planner.ReadSaved(bytes.NewReader(text), o.Build)
	if err != nil {
		t.Fatal(err)
	}
	if err := saved.Fabric.FillSecrets(load(secret, "2")); err != nil {
		t.Fatal(err)
	}
	if s, err = OpenSaved(t.Context(), saved, o); err != nil {
		t.Fatal(err)
	}
	s.known["a"].snapshot = &facts.Snapshot{Files: map[string]facts.File{host.NCCLConf: {Text: "X=" + secret}}}
	hidden("the facts of a host", s.Facts()["a"])
	report := y.runIn(t.Context(), s, Options{Manual: true})
	if report.Ending != Done {
		t.Fatalf("%v %v", report.Ending, report.Err)
	}
	hidden("the report", report)
	if got := strings.Count(sent.String(), `"spec":"`+secret+`"`); got != 2 {
		t.Errorf("the hosts got the value %d times, want 2: %s", got, sent.String())
	}
	files := 0
	err = filepath.WalkDir(y.state, func(at string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			text, err := os.ReadFile(at)
			files++
			hidden(at, string(text))
			return err
		}
		return err
	})
	if err != nil || files == 0 {
		t.Fatal(files, err)
	}
	load("other", "3")
	if r := Confirm(t.Context(), y.fabric, o, "", y.heard); r.Ending != Failed || !strings.Contains(r.Err.Error(), "confirm with the values that were applied") {
		t.Errorf("%v %v", r.Ending, r.Err)
	}
	load(secret, "4")
	if r := Confirm(t.Context(), y.fabric, o, "", y.heard); fatesOf(r) != "a committed, b committed" {
		t.Errorf("%s %v", fatesOf(r), r.Err)
	}
}

// serving is a connection to a helper with these methods. It ends with its pipe.
func serving(methods map[string]agent.Handler) io.ReadWriteCloser {
	near, far := net.Pipe()
	go func() { _ = agent.Serve(context.Background(), far, far, "b", methods) }()
	return near
}
