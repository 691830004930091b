//go:build linux

package helper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"

	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/checkpoint"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/host/clock"
	"github.com/fabricform/fabricform/host/file"
	"github.com/fabricform/fabricform/host/process"
	"github.com/fabricform/fabricform/resource"
)

// InstallMain installs a driver stack, as ordered by a helper. It runs in its own process.
func InstallMain(ctx context.Context, h host.Host, kinds resource.Kinds, store *checkpoint.Store) error {
	return installer{h, kinds, store, host.StackDir, arrivals}.run(ctx)
}

// installer is the process of an installation.
type installer struct {
	host     host.Host
	kinds    resource.Kinds
	store    *checkpoint.Store
	stack    stackFolder
	arrivals string
}

func (i installer) run(ctx context.Context) error {
	unlock, err := (&server{host: i.host, stack: i.stack}).lockStack()
	if err != nil {
		return err
	}
	defer unlock()
	// A transaction that is opened later sees the lock; noTransaction sees an earlier one.
	if err := noTransaction(i.store); err != nil {
		return err
	}
	process.SpareMe()
	raw, err := file.Read(i.stack.order())
	if err != nil {
		return fmt.Errorf("read the order: %w", err)
	}
	var o calls.StackOrder
	if err := json.Unmarshal(raw, &o); err != nil {
		return fmt.Errorf("read the order: %w", err)
	}
	me, err := process.Self()
	if err != nil {
		return err
	}
	boot, err := clock.BootID()
	if err != nil {
		return err
	}
	if done := resource.ReadJob(ctx, i.host, boot); done != nil && done.ID == o.ID {
		return fmt.Errorf("the order %s was already carried out", o.ID)
	}
	if o.Bundle != nil { // before the lock was held, another bundle may have been uploaded or installed
		if err := i.stack.has(*o.Bundle); err != nil {
			return err
		}
	}
	j := &journal{path: i.stack.file("job.json"), job: resource.Job{ID: o.ID, Fabric: o.Fabric, Who: o.Who, Stack: o.Resource.Addr.Name, State: resource.JobRunning, Step: "start", Boot: boot, Process: me}}
	log, err := os.OpenFile(i.stack.file("log"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY|syscall.O_NONBLOCK, 0o600) // a named pipe in the way is an error
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	defer log.Close()
	j.log = log
	if err := j.write(); err != nil {
		return err
	}
	err = i.install(ctx, o, j)
	j.job.State = resource.JobDone
	if err != nil {
		j.job.State, j.job.Why = resource.JobFailed, err.Error()
	}
	if wrote := j.write(); err != nil || wrote != nil {
		return errors.Join(err, wrote, j.lost)
	}
	return errors.Join(j.lost, removeBut(i.stack.bundles(), ""), removeBut(i.arrivals, ""))
}

// install makes the changes, and checks that only changes are left that need a driver reload or a reboot.
func (i installer) install(ctx context.Context, o calls.StackOrder, j *journal) error {
	kind, ok := i.kinds.Lookup(o.Resource.Addr.Kind)
	if !ok {
		return fmt.Errorf("unknown kind %q", o.Resource.Addr.Kind)
	}
	if err := kind.Apply(resource.WithLog(ctx, j), i.host, o.Resource.Spec, o.Changes); err != nil {
		return err
	}
	j.job.State = resource.JobChecking
	if err := j.write(); err != nil {
		return err
	}
	left, err := (&server{host: i.host}).difference(ctx, kind, o.Resource)
	if err != nil {
		return fmt.Errorf("read the host after the installation: %w", err)
	}
	for _, c := range left {
		if c.Disruption < resource.DriverReload {
			return fmt.Errorf("the programs succeeded, but a difference remains: %s", c)
		}
	}
	return nil
}

// journal has the progress of the installation, and the log of its programs' output.
type journal struct {
	path string
	log  io.Writer
	job  resource.Job
	mu   sync.Mutex // guards log and lost
	lost error      // the first error of a write to the log
}

func (j *journal) write() error {
	raw, err := json.Marshal(j.job)
	if err != nil {
		return err
	}
	if err := file.Replace(j.path, raw, 0o600); err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	return nil
}

// Step implements resource.StepLog. It writes the step to the journal on disk before the step begins.
func (j *journal) Step(what string) error {
	j.job.Step = short(what)
	if err := j.write(); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(j, "# %s\n", what) // Write records its error in lost
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lost
}

// Write implements resource.StepLog. It never returns an error, because that would stop a program half-way. Instead,
// the next step does not start.
func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, err := j.log.Write(p); err != nil && j.lost == nil {
		j.lost = fmt.Errorf("write the log: %w", err)
	}
	return len(p), nil
}

// short shortens a command line for display.
func short(step string) string {
	const most = 120
	if r := []rune(step); len(r) > most {
		return string(r[:most]) + "…"
	}
	return step
}
