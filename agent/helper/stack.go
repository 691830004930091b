//go:build linux

package helper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/checkpoint"
	"github.com/fabricform/fabricform/host/clock"
	"github.com/fabricform/fabricform/host/file"
	"github.com/fabricform/fabricform/host/lock"
	"github.com/fabricform/fabricform/host/process"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/retry"
)

// An installation runs in a process of its own that outlives the helper: a package manager that is
// killed because a connection broke leaves packages half configured. Its journal is resource.JobFile.
// Whoever holds its lock is the one installation of the host.

// stackFolder is host.StackDir; tests have another one.
type stackFolder string

func (f stackFolder) file(name string) string { return filepath.Join(string(f), name) }

// lock is held by the one installation of the host, or by who restarts it.
func (f stackFolder) lock() string { return f.file("lock") }

// order is what an installation is to do.
func (f stackFolder) order() string { return f.file("order.json") }

// said is the end of an installation that could not even write its journal.
func (f stackFolder) said() string { return f.file("stderr") }

// orderID becomes a part of a unit's name.
var orderID = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)

// stackStart re-reads what the plan read, and starts the installation where the difference still is
// the planned one. An order that has begun is answered by how far it is: whoever asks may have lost
// the first answer.
func (s *server) stackStart(ctx context.Context, p calls.StackOrder) (calls.StackState, error) {
	s.acting.Lock()
	defer s.acting.Unlock()
	if !orderID.MatchString(p.ID) {
		return calls.StackState{}, fmt.Errorf("%q is not the ID of an installation", p.ID)
	}
	if state, err := s.stackState(ctx, struct{}{}); err != nil || state.Of(p.ID) {
		return state, err
	}
	if err := noTransaction(s.store); err != nil {
		return calls.StackState{}, err
	}
	now, err := s.planned(ctx, p)
	if err != nil {
		return calls.StackState{}, err
	}
	if _, err := recheck(calls.ActParams{Resource: p.Resource, Changes: p.Changes}, now); err != nil {
		return calls.StackState{}, err
	}
	if err := os.MkdirAll(string(s.stack), 0o700); err != nil {
		return calls.StackState{}, fmt.Errorf("make a place for the journal: %w", err)
	}
	if err := s.installing(); err != nil {
		return calls.StackState{}, err
	}
	raw, err := json.Marshal(p)
	if err != nil {
		return calls.StackState{}, err
	}
	if err := file.Replace(s.stack.order(), raw, 0o600); err != nil {
		return calls.StackState{}, fmt.Errorf("write the order of the installation: %w", err)
	}
	said, err := os.OpenFile(s.stack.said(), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return calls.StackState{}, fmt.Errorf("make a place for what the installation says: %w", err)
	}
	defer said.Close()
	ended, err := s.startInstaller(p.ID, said)
	if err != nil {
		return calls.StackState{}, err
	}
	return s.awaitStart(ctx, p.ID, ended)
}

// startInstaller starts the process that InstallMain is.
func startInstaller(order string, stderr *os.File) (ended <-chan struct{}, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the helper: %w", err)
	}
	child, err := process.DetachUnit("fabricform-install-"+order, []string{self, "install"}, stderr)
	if err != nil {
		return nil, err
	}
	over := make(chan struct{})
	go func() { // whenever it ends, so that the kernel forgets it
		_, _ = child.Wait()
		close(over)
	}()
	return over, nil
}

// noTransaction is an error while a transaction is open.
func noTransaction(store *checkpoint.Store) error {
	open, left, err := store.Pending()
	if err != nil || open == nil {
		return err
	}
	i := info(open, left)
	return &agent.Error{Held: true, Message: fmt.Sprintf("a transaction of fabric %q is open here, by %s", i.Fabric, i.Holder.User)}
}

// planned is what an order's resource differs in now.
func (s *server) planned(ctx context.Context, p calls.StackOrder) ([]resource.Change, error) {
	kind, ok := s.kinds.Lookup(p.Resource.Addr.Kind)
	if !ok || kind.Stage != resource.StageStack {
		return nil, fmt.Errorf("this helper has no driver stack of kind %q", p.Resource.Addr.Kind)
	}
	return s.difference(ctx, kind, p.Resource)
}

// startPatience is how long an installation may take to begin.
const startPatience = 10 * time.Second

// awaitStart waits until the journal is of the new installation.
func (s *server) awaitStart(ctx context.Context, id string, ended <-chan struct{}) (calls.StackState, error) {
	var state calls.StackState
	err := retry.Until(ctx, 100*time.Millisecond, startPatience, func() (bool, error) {
		over := false
		select {
		case <-ended: // looked at before the journal, whose last words come first
			over = true
		default:
		}
		var err error
		if state, err = s.stackState(ctx, struct{}{}); err == nil && state.Of(id) {
			return true, nil
		}
		within := ""
		if !over {
			within = " within " + startPatience.String()
		}
		return over, fmt.Errorf("the installation did not start%s: %s", within, strings.TrimSpace(lastOf(s.stack.said())))
	})
	if err != nil {
		return calls.StackState{}, err
	}
	return state, nil
}

// installing is an error while an installation runs, or somebody restarts the host.
func (s *server) installing() error {
	if _, err := os.Stat(string(s.stack)); err != nil {
		return nil //nolint:nilerr // nothing was ever installed here
	}
	unlock, err := s.lockStack()
	if err == nil {
		unlock()
	}
	return err
}

// lockStack keeps installations out until unlock is called.
func (s *server) lockStack() (unlock func(), err error) {
	ctx := context.Background()
	err = retry.Until(ctx, 100*time.Millisecond, 2*time.Second, func() (bool, error) { // one that is done is about to end
		if unlock, err = lock.Try(s.stack.lock()); !errors.Is(err, lock.ErrHeld) {
			return true, err
		}
		state, err := s.stackState(ctx, struct{}{})
		if err != nil {
			return true, err
		}
		who, alive := "somebody", state.Job != nil && state.Job.Alive
		if alive {
			who = state.Job.Who
		}
		return alive, &agent.Error{Held: true, Message: "an installation of a driver stack by " + who + " is under way here"}
	})
	return unlock, err
}

func (s *server) difference(ctx context.Context, kind resource.Kind, r resource.Resource) ([]resource.Change, error) {
	snap, err := s.look(ctx, kind, r)
	if err != nil {
		return nil, err
	}
	d, err := kind.Plan(snap, r.Spec)
	return d.Changes, err
}

// tailSize is how much of the log is told, in bytes.
const tailSize = 2000

// stackState reads the journal.
func (s *server) stackState(ctx context.Context, _ struct{}) (calls.StackState, error) {
	boot, err := clock.BootID()
	if err != nil {
		return calls.StackState{}, err
	}
	out := calls.StackState{Boot: boot, Job: resource.ReadJob(ctx, s.host, boot)}
	if out.Job != nil && out.Job.State == resource.JobFailed {
		out.Tail = lastOf(s.stack.file("log"))
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

// stackReboot restarts the host; never while something is installed or a transaction is open, and only
// where the order's own installation asks for it, or what the plan showed still does. It returns while the
// host goes down, and nothing begins on it as long as this process lives, which has the lock.
func (s *server) stackReboot(ctx context.Context, p calls.StackOrder) (calls.StackState, error) {
	s.acting.Lock()
	defer s.acting.Unlock()
	state, err := s.stackState(ctx, struct{}{})
	if err != nil || state.Boot != p.Boot {
		return state, err // somebody was faster
	}
	if err := os.MkdirAll(string(s.stack), 0o700); err != nil {
		return calls.StackState{}, fmt.Errorf("make a place for the lock: %w", err)
	}
	unlock, err := s.lockStack()
	if err != nil {
		// Its operator may not have heard the answer, and the helper that has the lock not that he is gone.
		if told, lost := os.ReadFile(s.stack.file("restarts")); lost == nil && string(told) == p.ID+" "+p.Boot {
			return state, nil
		}
		return calls.StackState{}, err
	}
	if err := s.restart(ctx, p, state); err != nil {
		unlock()
		return calls.StackState{}, err
	}
	s.goesDown = unlock
	return state, nil
}

func (s *server) restart(ctx context.Context, p calls.StackOrder, state calls.StackState) error {
	if err := noTransaction(s.store); err != nil {
		return err
	}
	if !state.Of(p.ID) || state.Job.State != resource.JobDone {
		now, err := s.planned(ctx, p)
		if err != nil {
			return err
		}
		if _, err := recheck(calls.ActParams{Resource: p.Resource, Changes: p.Changes}, now); err != nil {
			return err
		}
	}
	// It bounds itself, and whoever asked may be gone the moment it works.
	if err := s.host.Reboot(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	_ = file.Replace(s.stack.file("restarts"), []byte(p.ID+" "+p.Boot), 0o600) // without it, who asks again is refused
	return nil
}
