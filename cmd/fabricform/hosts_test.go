package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/netmanager"
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
	if err := a.events(false).Approve(nil, nil); err == nil || !strings.Contains(err.Error(), "approval needs a terminal") {
		t.Error(err)
	}
	if err := a.events(true).Approve(nil, nil); err != nil {
		t.Error(err)
	}
}

// TestOnlyWhatIsDoneExitsWithZero: a new ending exits with an error until it has a code of its own.
func TestOnlyWhatIsDoneExitsWithZero(t *testing.T) {
	want := []int{apply.Done: exitOK, apply.CheckFailed: exitCheckFailed, apply.HostsUnreachable: exitUnreachable, apply.Failed: exitError,
		apply.Stale: exitStale, apply.Held: exitHeld, apply.RolledBack: exitRolledBack, apply.OutcomeUnknown: exitUnknown, apply.OutcomeUnknown + 1: exitError}
	for ending, code := range want {
		if got := exitCode(apply.Ending(ending)); got != code {
			t.Errorf("ending %d exits with %d, want %d", ending, got, code)
		}
	}
}

// TestAnInterruptEndsTheQuestion: nobody has to press Enter.
func TestAnInterruptEndsTheQuestion(t *testing.T) {
	silent, w := io.Pipe()
	defer w.Close()
	interrupted := make(chan struct{})
	close(interrupted)
	if err := (events{interrupted: interrupted}).answer(silent); err == nil || err.Error() != "interrupted; nothing was changed" {
		t.Error(err)
	}
	for text, yes := range map[string]bool{"yes\n": true, "y\n": false, "yes": false, "": false} {
		if err := (events{}).answer(strings.NewReader(text)); (err == nil) != yes {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestAnInterruptMakesNoHostUnreachable: while hosts are connected to, and while they are read. No plan is shown or saved.
func TestAnInterruptMakesNoHostUnreachable(t *testing.T) {
	path, build := fileOf(t, pairFile)
	saved := filepath.Join(filepath.Dir(path), "p")
	for _, connected := range []bool{false, true} {
		for _, command := range []string{"plan -out " + saved, "plan -markdown", "plan -json", "plan -destroy", "plan -destroy -host gone", "apply -auto-approve", "destroy -auto-approve",
			"pending", "rollback", "unlock", "show", "history", "graph -actions", "render nccl", "verify", "capture"} {
			ctx, cancel := context.WithCancel(t.Context())
			var out bytes.Buffer
			a := &app{out: view.New(&out), err: view.New(&out), dial: func(ctx context.Context, _ transport.Target) (io.ReadWriteCloser, error) {
				if !connected {
					cancel()
					return nil, ctx.Err()
				}
				near, far := net.Pipe()
				late := func(ctx context.Context, _ json.RawMessage) (any, error) {
					cancel()
					return calls.TxFinished{}, nil
				}
				go func() {
					_ = agent.Serve(context.Background(), far, far, build, map[string]agent.Handler{"snapshot": late, "tx.list": late, "tx.finish": late})
				}() // ends with the pipe
				return near, nil
			}}
			root := rootCommand(a)
			args := append(longFlags(strings.Fields(command)), path)
			if command == "capture" {
				args = append(args, "rail0")
			}
			root.SetArgs(args)
			err := root.ExecuteContext(ctx)
			want := "interrupted; nothing was changed"
			if command == "verify" && connected {
				want = "interrupted; the fabric was not verified"
			}
			var e *exit
			if err == nil || err.Error() != want || errors.As(err, &e) && e.code != exitError || out.Len() > 0 {
				t.Errorf("%s, connected %v: %v\n%s", command, connected, err, out.String())
			}
			cancel()
		}
	}
	if _, err := os.Stat(saved); err == nil {
		t.Error("the plan was saved")
	}
}

// pairFile is a fabric of two hosts that nobody reaches.
// fileOf writes a file into a folder of its own, where the client's state also is. It returns the file's path and the ID of this build.
func fileOf(t *testing.T, text string) (path, build string) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("XDG_STATE_HOME", dir)
	t.Setenv("SSH_AUTH_SOCK", "")
	path = filepath.Join(dir, "f.hcl")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	build, err := buildID()
	if err != nil {
		t.Fatal(err)
	}
	return path, build
}

const pairFile = `fabric "f" {}
host "a" {
  address = "127.0.0.1"
  ssh { port = 1 }
  nic "r0" {
    netdev    = "eth0"
    addresses = ["10.0.0.1/24"]
  }
}
host "b" {
  address = "127.0.0.2"
  ssh { port = 1 }
  nic "r0" {
    netdev    = "eth0"
    addresses = ["10.0.0.2/24"]
  }
}
link "rail0" { endpoints = [host.a.nic.r0, host.b.nic.r0] }
`

// TestNothingReachedIsNothingProven: no command speaks for a host that it could not read, with a green mark or by its exit.
func TestNothingReachedIsNothingProven(t *testing.T) {
	path, build := fileOf(t, pairFile)
	snapshot := &facts.Snapshot{Links: []host.Link{{Index: 2, Name: "eth0", Up: true, Carrier: true, MTU: 1500}}, Addrs: []host.Addr{{Index: 2, Prefix: netip.MustParsePrefix("10.0.0.1/24")}}}
	netmanager.Part.Put(snapshot, netmanager.Found{})
	answers := func(_ context.Context, to transport.Target) (io.ReadWriteCloser, error) {
		if to.Name == "b" {
			return nil, errors.New("connection refused")
		}
		return answering(build, map[string]any{"snapshot": calls.SnapshotResult{Snapshot: snapshot}, "tx.finish": calls.TxFinished{}, "tx.ready": calls.TxReady{}, "tx.list": []calls.TxInfo{}}), nil
	}
	report := filepath.Join(filepath.Dir(path), "r.md")
	for _, c := range []struct{ command, all, one string }{ // what each says if no host, and if one host is away
		{"plan", "no host could be read", "b: unreachable"},
		{"plan -markdown", "no host could be read", "`b` is unreachable"},
		{"plan -detailed-exitcode", "no host could be read", "b: unreachable"},
		{"plan -destroy", "no host could be read", "on the other hosts; 1 host not read"},
		{"plan -json", `"unreachable":{"a"`, `"unreachable":{"b"`},
		{"apply -auto-approve -no-verify", "no host could be read", ""},
		{"destroy -auto-approve", "no host could be read", ""},
		{"pending", "No host could be read: cannot tell whether a transaction is open", "No open transactions on the hosts that answered"},
		{"rollback", "Nothing was rolled back", "Nothing was rolled back"},
		{"unlock", "No host could be read: cannot tell whether a rollback failed", "No transaction has a failed rollback on the hosts that answered"},
		{"verify", "Nothing was verified: 0 passed, 0 failed, 0 warned", "unreachable hosts were not verified"},
		{"verify -only ping", "unreachable hosts were not verified", "unreachable hosts were not verified"},
		{"verify -after-reboot", "host unreachable: connect", "host unreachable: connection refused"},
		{"verify -json", `"host_unreachable"`, `"host_unreachable"`},
		{"verify -report " + report, "unreachable b", "unreachable b"},
		{"show", "No host could be read: cannot show what the hosts have", "unreachable b"},
		{"show -json", "unreachable b", "unreachable b"},
		{"history", "No host could be read: cannot show what was applied", "Nothing has been applied on the hosts that answered"},
		{"graph -actions", "unreachable b", "unreachable b"},
		{"render nccl", "unreachable b", "unreachable b"},
		{"capture", "host a: unreachable: connect", "host b: unreachable: connection refused"},
	} {
		for want, dial := range map[string]apply.Dial{c.all: nil, c.one: answers} {
			if want == "" {
				continue
			}
			var out bytes.Buffer
			a := &app{out: view.New(&out), err: view.New(&out), dial: dial}
			root := rootCommand(a)
			args := append(longFlags(strings.Fields(c.command)), path)
			if c.command == "capture" {
				args = append(args, "rail0")
			}
			root.SetArgs(args)
			var e *exit
			if err := root.ExecuteContext(t.Context()); !errors.As(err, &e) {
				t.Errorf("%s: %v", c.command, err)
				continue
			} else if e.err != nil {
				fmt.Fprintln(&out, e.err)
			}
			said := out.String()
			if text, err := os.ReadFile(report); err == nil {
				said += string(text)
				os.Remove(report)
				if !strings.Contains(said, "### ⚠️ checks") || !strings.Contains(said, "checks skipped: host ") {
					t.Errorf("%s: the report says\n%s", c.command, text)
				}
			}
			if e.code != exitUnreachable || !strings.Contains(said, want) || dial == nil && strings.ContainsAny(said, "✓✅") {
				t.Errorf("%s: exit %d, %q is wanted in\n%s", c.command, e.code, want, said)
			}
		}
	}
}

// stackFails is a host that needs a driver stack and cannot install it.
func stackFails(context.Context, transport.Target) (io.ReadWriteCloser, error) {
	return answering("b", map[string]any{"snapshot": calls.SnapshotResult{Snapshot: &facts.Snapshot{Links: []host.Link{{Name: "lo"}}}}, "tx.finish": calls.TxFinished{}, "tx.ready": calls.TxReady{}, "tx.list": []calls.TxInfo{},
		"enrol": struct{}{}, "stack.state": calls.StackState{}, "stack.start": errors.New("no space on the disk")}), nil
}

// answering is a host of a build that answers each method with a value or an error.
func answering(build string, answers map[string]any) io.ReadWriteCloser {
	near, far := net.Pipe()
	handlers := map[string]agent.Handler{}
	for method, answer := range answers {
		handlers[method] = func(context.Context, json.RawMessage) (any, error) {
			if err, failed := answer.(error); failed {
				return nil, err
			}
			return answer, nil
		}
	}
	go func() { _ = agent.Serve(context.Background(), far, far, build, handlers) }() // ends with the pipe
	return near
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
				Derived:  func(*fabric.Fabric, *fabric.Host, *facts.Snapshot, []resource.Record) []resource.Resource { return nil },
				Joined:   func(*fabric.Fabric, *fabric.Host, map[string]*facts.Snapshot) []resource.Resource { return nil },
				Looks:    func(*fabric.Fabric, *fabric.Host) []resource.Resource { return nil },
				Compared: func(*fabric.Host) []resource.Resource { return nil }}})
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
