package main

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/host/process"
	"github.com/fabricform/fabricform/probe"
)

// piped is the stream to a helper that is a child of the test.
type piped struct {
	io.Reader
	io.Writer
	ends []io.Closer
}

func (p piped) Close() error {
	var errs []error
	for _, end := range p.ends {
		errs = append(errs, end.Close())
	}
	return errors.Join(errs...)
}

// TestAHelperClearsUpAfterAClientThatIsGone, though nobody reads its answers to other calls any more.
func TestAHelperClearsUpAfterAClientThatIsGone(t *testing.T) {
	if os.Getenv(startsHelper) != "" {
		os.Exit(run([]string{"agent"}))
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	id, err := buildID()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^"+t.Name()+"$")
	cmd.Env, cmd.Stderr = append(os.Environ(), startsHelper+"=1"), os.Stderr
	to, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	from, said, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	said.Close()
	stream := piped{from, to, []io.Closer{from, to}} // the helper can write nothing from the moment when it hears of the end
	client, err := agent.Connect(t.Context(), stream, id, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	ranks := rand.Text()
	ask := func(method string, params any) {
		go func() { _ = client.Call(context.Background(), "", method, params, nil) }()
	}
	ask(string(probe.TendRanks), probe.RanksSpec{ID: ranks, Limit: time.Minute})
	if err := client.Call(t.Context(), "", string(probe.AwaitTended), ranks, nil); err != nil {
		t.Fatal(err)
	}
	folder := process.TemporaryFolder("/tmp", ranks)
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	if _, err := os.Stat(folder); err != nil {
		t.Fatal(err)
	}
	rank := exec.Command("sleep", "1000") // its end takes a while, in which the other calls are answered
	rank.Env = []string{process.FamilyMark + "=" + ranks}
	if err := rank.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rank.Process.Kill(); _ = rank.Wait() })
	for range 5 {
		ask(string(probe.AwaitTended), rand.Text())
	}
	time.Sleep(200 * time.Millisecond) // for the calls to arrive
	stream.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("the helper ended with %v", err)
	}
	if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is left: %v", folder, err)
	}
}
