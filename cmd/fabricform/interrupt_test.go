package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/netmanager"
	"github.com/fabricform/fabricform/transport"
	"github.com/fabricform/fabricform/view"
)

// TestASecondInterruptIsNeverSilent: while the program connects, and while a transaction is being opened, of which it has no
// token yet. The command prints nothing after that.
func TestASecondInterruptIsNeverSilent(t *testing.T) {
	const file = "fabric \"f\" {}\nhost \"a\" {\n  address = \"127.0.0.1\"\n  sysctl  = { \"net.ipv4.tcp_mtu_probing\" = 1 }\n}\n"
	path, build := fileOf(t, file)
	for _, c := range []struct {
		stage string
		code  int
		says  []string
	}{
		{"dial", exitError, []string{"✗ error: interrupted twice: this command has opened no transaction on any host"}},
		{"tx.open", exitUnknown, []string{"✗ a  lost: its transaction was being opened; if its transaction is still open, it reverts automatically by ", "✗ error: interrupted twice: leases are no longer renewed. To see what is still open, run `fabricform pending "}},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		at, over := make(chan struct{}), make(chan struct{})
		stage := func(name string) {
			if name == c.stage {
				close(at)
				<-over
			}
		}
		snap := &facts.Snapshot{Links: []host.Link{{Name: "lo"}}, Sysctls: map[string]string{"net/ipv4/tcp_mtu_probing": "0"}}
		netmanager.Part.Put(snap, netmanager.Found{})
		answers := map[string]any{"snapshot": calls.SnapshotResult{Guardians: 2, Snapshot: snap},
			"tx.finish": calls.TxFinished{}, "tx.ready": calls.TxReady{}, "tx.open": calls.TxInfo{}}
		handlers := map[string]agent.Handler{}
		for method, answer := range answers {
			handlers[method] = func(context.Context, json.RawMessage) (any, error) {
				stage(method)
				return answer, nil
			}
		}
		var before, said bytes.Buffer
		a := &app{out: view.New(&before), err: view.New(&before), dial: func(context.Context, transport.Target) (io.ReadWriteCloser, error) {
			if stage("dial"); c.stage == "dial" {
				return nil, errors.New("too late")
			}
			near, far := net.Pipe()
			go func() { _ = agent.Serve(context.Background(), far, far, build, handlers) }() // ends with the pipe
			return near, nil
		}}
		root := rootCommand(a)
		root.SetArgs([]string{"apply", "--auto-approve", path})
		ended := make(chan error, 1)
		go func() { ended <- root.ExecuteContext(ctx) }()
		select {
		case <-at:
		case err := <-ended:
			t.Fatalf("%s: %v\n%s", c.stage, err, before.String())
		}
		cancel()
		code := a.lastWords(view.New(&said), view.New(&said))
		was := before.String()
		close(over)
		<-ended
		if code != c.code || before.String() != was {
			t.Errorf("%s: exit %d, want %d; the command printed %q, and later %q", c.stage, code, c.code, was, before.String())
		}
		for _, want := range c.says {
			if !strings.Contains(said.String(), want) {
				t.Errorf("%s: %q is missing in\n%s", c.stage, want, said.String())
			}
		}
	}
}
