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
	"sync"
	"syscall"
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

// An installation runs in its own process, which outlives the helper: if a broken connection killed the package manager,
// packages would be left half configured. resource.JobFile is its journal. A lock allows only one installation per host.

// stackFolder is host.StackDir, or another folder in tests.
type stackFolder string

func (f stackFolder) file(name string) string { return filepath.Join(string(f), name) }

// lock returns the lock file. It is held during an installation or a reboot.
func (f stackFolder) lock() string { return f.file("lock") }

// order returns the file with the order of an installation.
func (f stackFolder) order() string { return f.file("order.json") }

// stderrPath returns the file with the installer's stderr, for errors before it can write its journal.
func (f stackFolder) stderrPath() string { return f.file("stderr") }

// orderID restricts IDs, because they become part of a systemd unit's name.
var orderID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`) })

// stackStart reads the host again, and starts the installation if the difference is still the planned one. If the order
// has already begun, stackStart returns its progress: the caller may have lost the first answer.
func (s *server) stackStart(ctx context.Context, p calls.StackOrder) (calls.StackState, error) {
	s.acting.Lock()
	defer s.acting.Unlock()
	if !orderID().MatchString(p.ID) {
		return calls.StackState{}, fmt.Errorf("%q is not the ID of an installation", p.ID)
	}
	if state, err := s.stackState(ctx, struct{}{}); err != nil || state.Of(p.ID) {
		return state, err
	}
	if err := noTransaction(s.store); err != nil {
		return calls.StackState{}, err
	}
	now, err := s.currentDiff(ctx, p)
	if err != nil {
		return calls.StackState{}, err
	}
	if _, err := recheck(calls.ActParams{Resource: p.Resource, Changes: p.Changes}, now); err != nil {
		return calls.StackState{}, err
	}
	if err := os.MkdirAll(string(s.stack), 0o700); err != nil {
		return calls.StackState{}, fmt.Errorf("make the folder of the journal: %w", err)
	}
	if err := s.refuseWhileInstalling(); err != nil {
		return calls.StackState{}, err
	}
	raw, err := json.Marshal(p)
	if err != nil {
		return calls.StackState{}, err
	}
	if err := file.Replace(s.stack.order(), raw, 0o600); err != nil {
		return calls.StackState{}, fmt.Errorf("write the order of the installation: %w", err)
	}
	// a named pipe in the way is an error
	said, err := os.OpenFile(s.stack.stderrPath(), os.O_CREATE|os.O_TRUNC|os.O_WRONLY|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return calls.StackState{}, fmt.Errorf("make the file for the installation's errors: %w", err)
	}
	defer said.Close()
	ended, err := s.startInstaller(p.ID, said)
	if err != nil {
		return calls.StackState{}, err
	}
	return s.awaitStart(ctx, p.ID, ended)
}

// startInstaller starts the process that runs InstallMain.
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
	go func() { // reap the process, whenever it ends
		_, _ = child.Wait()
		close(over)
	}()
	return over, nil
}

// noTransaction returns an error while a transaction is open.
func noTransaction(store *checkpoint.Store) error {
	open, left, err := store.Pending()
	if err != nil || open == nil {
		return err
	}
	i := info(open, left)
	return &agent.Error{Held: true, Message: fmt.Sprintf("a transaction of fabric %q is open on this host, by %s", i.Fabric, i.Holder.User)}
}

// currentDiff returns the current difference of an order's resource.
func (s *server) currentDiff(ctx context.Context, p calls.StackOrder) ([]resource.Change, error) {
	kind, ok := s.kinds.Lookup(p.Resource.Addr.Kind)
	if !ok || kind.Stage != resource.StageStack {
		return nil, fmt.Errorf("this helper does not support driver stacks of kind %q", p.Resource.Addr.Kind)
	}
	return s.difference(ctx, kind, p.Resource)
}

// startPatience is how long an installation may take to begin.
const startPatience = 10 * time.Second

// awaitStart waits until the journal belongs to the new installation.
func (s *server) awaitStart(ctx context.Context, id string, ended <-chan struct{}) (calls.StackState, error) {
	var state calls.StackState
	err := retry.Until(ctx, 100*time.Millisecond, startPatience, func() (bool, error) {
		over := false
		select {
		case <-ended: // check this before the journal, because the installer writes its journal before it ends
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
		return over, fmt.Errorf("the installation did not start%s: %s", within, strings.TrimSpace(lastOf(s.stack.stderrPath())))
	})
	if err != nil {
		return calls.StackState{}, err
	}
	return state, nil
}

// refuseWhileInstalling returns an error during an installation or a reboot.
func (s *server) refuseWhileInstalling() error {
	if _, err := os.Stat(string(s.stack)); err != nil {
		return nil //nolint:nilerr // nothing was ever installed here
	}
	unlock, err := s.lockStack()
	if err == nil {
		unlock()
	}
	return err
}

// lockStack prevents installations until unlock is called.
func (s *server) lockStack() (unlock func(), err error) {
	ctx := context.Background()
	err = retry.Until(ctx, 100*time.Millisecond, 2*time.Second, func() (bool, error) { // a finished installation is about to end
		if unlock, err = lock.Try(s.stack.lock()); !errors.Is(err, lock.ErrHeld) {
			return true, err
		}
		state, err := s.stackState(ctx, struct{}{})
		if err != nil {
			return true, err
		}
		who, alive := "another run", state.Job != nil && state.Job.Alive
		if alive {
			who = state.Job.Who
		}
		return alive, &agent.Error{Held: true, Message: "an installation of a driver stack by " + who + " is running on this host"}
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

// tailSize is how many bytes at the end of the log are reported.
const tailSize = 2000

// stackState reads the journal.
func (s *server) stackState(ctx context.Context, _ struct{}) (calls.StackState, error) {
	boot, err := clock.BootID()
	if err != nil {
		return calls.StackState{}, err
	}
	out := calls.StackState{Boot: boot, Job: resource.ReadJob(ctx, s.host, boot)}
	if out.Job != nil && (out.Job.State == resource.JobFailed || out.Job.Stuck) {
		out.Tail = lastOf(s.stack.file("log"))
	}
	return out, nil
}

func lastOf(path string) string {
	f, err := os.OpenFile(filepath.Clean(path), os.O_RDONLY|syscall.O_NONBLOCK, 0)
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

// stackReboot reboots the host. It returns an error during an installation or while a transaction is open, or if neither
// the order's own installation nor the current difference needs a reboot. It returns while the host shuts down. This
// process then keeps the lock, so that nothing else starts on the host.
func (s *server) stackReboot(ctx context.Context, p calls.StackOrder) (calls.StackState, error) {
	s.acting.Lock()
	defer s.acting.Unlock()
	state, err := s.stackState(ctx, struct{}{})
	if err != nil || state.Boot != p.Boot {
		return state, err // the host has already rebooted
	}
	if err := os.MkdirAll(string(s.stack), 0o700); err != nil {
		return calls.StackState{}, fmt.Errorf("make the folder of the lock: %w", err)
	}
	unlock, err := s.lockStack()
	if err != nil {
		// This order may already have started the reboot: the client may have lost the answer, while an earlier helper still has the lock.
		if told, lost := file.Read(s.stack.file("restarts")); lost == nil && string(told) == p.ID+" "+p.Boot {
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
		now, err := s.currentDiff(ctx, p)
		if err != nil {
			return err
		}
		if _, err := recheck(calls.ActParams{Resource: p.Resource, Changes: p.Changes}, now); err != nil {
			return err
		}
	}
	// Reboot has its own time limit. It must not stop when the connection breaks, which happens as soon as it works.
	if err := s.host.Reboot(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	_ = file.Replace(s.stack.file("restarts"), []byte(p.ID+" "+p.Boot), 0o600) // if this fails, a repeated request gets an error
	return nil
}
