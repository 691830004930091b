package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/config"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/transport"
	"github.com/fabricform/fabricform/view"
)

// TestALabHasOneTokenStore: a bare -lab and -lab with the fabric's own name confirm each other's applies.
func TestALabHasOneTokenStore(t *testing.T) {
	f := &fabric.Fabric{Name: "pair"}
	for flag, want := range map[string]string{ownLab: "pair", "pair": "pair", "other": "other", "": ""} {
		if got := labName(flag, f); got != want {
			t.Errorf("-lab=%q selects the lab %q, want %q", flag, got, want)
		}
	}
}

// TestCommandsInMessagesHideSensitiveVariables: also one whose name was given with spaces around it.
func TestCommandsInMessagesHideSensitiveVariables(t *testing.T) {
	a := &app{inputs: []config.Input{{Var: "psk = hunter2"}, {Var: "psk=hunter2"}, {Var: "mtu=9000"}, {File: "site.fabricvars"}}}
	got := a.invocation(&fabric.Fabric{Sensitive: []string{"psk"}}, "f.hcl").Hint("plan")
	if want := "`fabricform plan -var=mtu=9000 -var-file=site.fabricvars f.hcl`"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestNothingIsAppliedWithoutAnAnswer: where nobody can be asked, the answer is no.
func TestNothingIsAppliedWithoutAnAnswer(t *testing.T) {
	stdin, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	defer func(old *os.File) { os.Stdin = old }(os.Stdin)
	os.Stdin = stdin
	a := &app{out: view.New(io.Discard), err: view.New(io.Discard)}
	if err := a.events(false).Approve(nil); err == nil || !strings.Contains(err.Error(), "there is no terminal to ask on") {
		t.Error(err)
	}
	if err := a.events(true).Approve(nil); err != nil {
		t.Error(err)
	}
}

// stackFails is a host that needs a driver stack and cannot install it.
func stackFails(context.Context, transport.Target) (io.ReadWriteCloser, error) {
	near, far := net.Pipe()
	handlers := map[string]agent.Handler{}
	for method, answer := range map[string]any{"snapshot": calls.SnapshotResult{Snapshot: &facts.Snapshot{Links: []host.Link{{Name: "lo"}}}}, "tx.finish": calls.TxFinished{}, "tx.ready": calls.TxReady{}, "tx.list": []calls.TxInfo{},
		"enrol": struct{}{}, "stack.state": calls.StackState{}, "stack.start": errors.New("no space on the disk")} {
		handlers[method] = func(context.Context, json.RawMessage) (any, error) {
			if err, failed := answer.(error); failed {
				return nil, err
			}
			return answer, nil
		}
	}
	go func() { _ = agent.Serve(context.Background(), far, far, "b", handlers) }() // ends with the pipe
	return near, nil
}

// TestAnApplyThatEndsInTheStackStagePrintsItsReport: in the form that was asked for.
func TestAnApplyThatEndsInTheStackStagePrintsItsReport(t *testing.T) {
	driver := resource.Kind{Name: "driver", Stage: resource.StageStack, Plan: func(*facts.Snapshot, json.RawMessage) (resource.Difference, error) {
		return resource.Difference{Exists: true, Changes: []resource.Change{{Attribute: "package x", To: "1", Stage: resource.StageStack}}}, nil
	}}
	for _, asJSON := range []bool{false, true} {
		var out bytes.Buffer
		a := &app{out: view.New(&out), err: view.New(io.Discard), asJSON: asJSON}
		s := apply.Open(t.Context(), &fabric.Fabric{Name: "f", Hosts: []*fabric.Host{{Name: "a"}}}, apply.SessionOptions{Dial: stackFails, Build: "b", User: "me@desk", Parallelism: 1,
			Tokens: apply.TokenStore{Fabric: "f", State: func() (string, error) { return t.TempDir(), nil }},
			Resources: apply.Resources{Kinds: resource.Kinds{driver},
				Desired: func(_ *fabric.Fabric, h *fabric.Host) []resource.Resource {
					return []resource.Resource{{Addr: resource.Addr{Host: h.Name, Kind: "driver", Name: "x"}, Spec: json.RawMessage(`""`)}}
				},
				Derived: func(*fabric.Fabric, *fabric.Host, *facts.Snapshot, []resource.Record) []resource.Resource { return nil },
				Looks:   func(*fabric.Fabric, *fabric.Host, bool) []resource.Resource { return nil }}})
		r := apply.Run(t.Context(), s, apply.Options{Allowed: resource.LinkFlap, OnFailure: apply.RollbackAll, Unverified: true}, a.events(true))
		s.Close()
		if r.Ending != apply.Failed || !strings.Contains(out.String(), "no space on the disk") {
			t.Errorf("ending %d (%v):\n%s", r.Ending, r.Err, out.String())
		}
		for line := range strings.Lines(out.String()) {
			if json.Valid([]byte(line)) != asJSON {
				t.Errorf("-json %v: %s", asJSON, line)
			}
		}
	}
}
