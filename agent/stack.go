package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// An installation runs in a process of its own that outlives the helper: a package manager that is
// killed because a connection broke leaves packages half configured. Its journal is facts.JobFile.
// Whoever holds its lock is the one installation of the host.
const (
	stackDir  = host.StateDir + "/stack"
	stackLock = stackDir + "/lock"
	orderFile = stackDir + "/order.json"
	// StackLog has all that programs printed in the last installation.
	StackLog = stackDir + "/log"
)

// StackOrder asks for the stack stage of a plan on this host.
type StackOrder struct {
	ID       string            `json:"id"` // of the plan
	Fabric   string            `json:"fabric"`
	Who      string            `json:"who"` // user@machine of the operator
	Resource resource.Resource `json:"resource"`
	Changes  []resource.Change `json:"changes"` // what the plan showed
}

// StackState is how far an installation is.
type StackState struct {
	Job  *facts.StackJob `json:"job,omitempty"` // nil: there never was one
	Boot string          `json:"boot"`          // this boot's id
	Tail string          `json:"tail,omitempty"`
}

// stackStart re-reads what the plan read, and starts the installation where the difference still is
// the planned one.
func (s *server) stackStart(ctx context.Context, p StackOrder) (StackState, error) {
	s.acting.Lock()
	defer s.acting.Unlock()
	open, left, err := s.store.Pending()
	if err != nil {
		return StackState{}, err
	}
	if open != nil {
		i := info(open, left)
		return StackState{}, &Error{Held: true, Message: fmt.Sprintf("a transaction of fabric %q is open here, by %s", i.Fabric, i.Holder.User)}
	}
	kind, ok := s.kinds.Lookup(p.Resource.Addr.Kind)
	if !ok || kind.Stage != resource.StageStack {
		return StackState{}, fmt.Errorf("this helper has no driver stack of kind %q", p.Resource.Addr.Kind)
	}
	now, err := s.difference(kind, p.Resource)
	if err != nil {
		return StackState{}, err
	}
	if _, err := recheck(ActParams{Resource: p.Resource, Changes: p.Changes}, now); err != nil {
		return StackState{}, err
	}
	if err := os.MkdirAll(stackDir, 0o700); err != nil {
		return StackState{}, fmt.Errorf("make a place for the journal: %w", err)
	}
	if err := s.installing(); err != nil {
		return StackState{}, err
	}
	raw, err := json.Marshal(p)
	if err != nil {
		return StackState{}, err
	}
	if err := host.ReplaceFile(orderFile, raw, 0o600); err != nil {
		return StackState{}, fmt.Errorf("write the order of the installation: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return StackState{}, fmt.Errorf("find the helper: %w", err)
	}
	child, err := host.Detach([]string{self, "install"})
	if err != nil {
		return StackState{}, err
	}
	go func() { _, _ = child.Wait() }() // its journal tells its end; this only lets the kernel forget it
	return s.awaitStart(ctx, p.ID)
}

// awaitStart waits until the journal is of the new installation.
func (s *server) awaitStart(ctx context.Context, id string) (StackState, error) {
	for range 100 {
		if state, err := s.stackState(ctx, struct{}{}); err == nil && state.Job != nil && state.Job.ID == id {
			return state, nil
		}
		select {
		case <-ctx.Done():
			return StackState{}, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	return StackState{}, errors.New("the installation did not start within ten seconds")
}

// installing is an error while an installation runs.
func (s *server) installing() error {
	if _, err := os.Stat(stackDir); err != nil {
		return nil //nolint:nilerr // nothing was ever installed here
	}
	var state StackState
	for range 20 {
		unlock, err := host.TryLock(stackLock)
		if err == nil {
			unlock()
			return nil
		}
		if !errors.Is(err, host.ErrLocked) {
			return err
		}
		if state, err = s.stackState(context.Background(), struct{}{}); err != nil {
			return err
		}
		if state.Job != nil && state.Job.State == facts.JobRunning {
			break
		}
		time.Sleep(100 * time.Millisecond) // one that is done is about to end
	}
	who := "somebody"
	if state.Job != nil {
		who = state.Job.Who
	}
	return &Error{Held: true, Message: "an installation of a driver stack by " + who + " is under way here"}
}

func (s *server) difference(kind resource.Kind, r resource.Resource) ([]resource.Change, error) {
	needs, err := kind.Needs(r.Spec)
	if err != nil {
		return nil, err
	}
	snap, err := facts.Gather(s.host, s.sshConnection, needs)
	if err != nil {
		return nil, err
	}
	d, err := kind.Plan(snap, r.Spec)
	return d.Changes, err
}

// tailSize is how much of the log is told, in bytes.
const tailSize = 2000

// stackState reads the journal.
func (s *server) stackState(context.Context, struct{}) (StackState, error) {
	boot, err := host.BootID()
	if err != nil {
		return StackState{}, err
	}
	out := StackState{Boot: boot, Job: facts.ReadJob(s.host, boot)}
	if out.Job != nil && out.Job.State == facts.JobFailed {
		out.Tail = lastOf(StackLog)
	}
	return out, nil
}

func lastOf(path string) string {
	f, err := os.Open(filepath.Clean(path))
	if err != nil {
		return ""
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	buf := make([]byte, min(info.Size(), tailSize))
	n, err := f.ReadAt(buf, info.Size()-int64(len(buf)))
	if n == 0 && err != nil {
		return ""
	}
	return string(buf[:n])
}

// stackReboot restarts the host; never while something is installed or a transaction is open.
func (s *server) stackReboot(ctx context.Context, _ struct{}) (StackState, error) {
	if err := s.installing(); err != nil {
		return StackState{}, err
	}
	if open, _, err := s.store.Pending(); err != nil || open != nil {
		return StackState{}, errors.Join(err, errors.New("a transaction is open here: the host is not restarted in the middle of it"))
	}
	state, err := s.stackState(ctx, struct{}{})
	if err != nil {
		return StackState{}, err
	}
	return state, s.host.Reboot(ctx)
}
