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
	"time"

	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/checkpoint"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/host/clock"
	"github.com/fabricform/fabricform/host/file"
	"github.com/fabricform/fabricform/host/process"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/retry"
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
	j := &journal{path: i.stack.file("job.json"), job: resource.Installation{ID: o.ID, Fabric: o.Fabric, Who: o.Who,
		Stack: o.Resource.Addr.Name, State: resource.JobRunning, Step: "start", Boot: boot, Process: me}}
	// a named pipe in the way is an error
	log, err := os.OpenFile(i.stack.file("log"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	defer log.Close()
	j.log = log
	if err := j.set(func(*resource.Installation) {}); err != nil {
		return err
	}
	err = i.install(ctx, o, j)
	wrote := j.set(func(job *resource.Installation) {
		job.State, job.Stuck = resource.JobDone, false
		if err != nil {
			job.State, job.Why = resource.JobFailed, err.Error()
		}
	})
	if err != nil || wrote != nil {
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
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { j.watch(watching, process.Activity) })
	err := kind.Apply(resource.WithLog(ctx, j), i.host, o.Resource.Spec, o.Changes)
	stop()
	watch.Wait()
	if err != nil {
		return err
	}
	if err := j.set(func(job *resource.Installation) { job.State = resource.JobChecking }); err != nil {
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
	path  string
	log   io.Writer
	file  sync.Mutex // guards job and its file
	job   resource.Installation
	mu    sync.Mutex // guards log, lost and bytes
	lost  error      // the first error of a write to the log
	bytes int        // of output
}

// set changes the job and writes it to disk.
func (j *journal) set(change func(*resource.Installation)) error {
	j.file.Lock()
	defer j.file.Unlock()
	change(&j.job)
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
	if err := j.set(func(job *resource.Installation) { job.Step = short(what) }); err != nil {
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
	j.bytes += len(p)
	if _, err := j.log.Write(p); err != nil && j.lost == nil {
		j.lost = fmt.Errorf("write the log: %w", err)
	}
	return len(p), nil
}

// watchEvery is how often an installation is looked at.
const watchEvery = 10 * time.Second

// watch writes into the journal when the installation is stuck, and when it goes on. It ends nothing: a package manager
// that is killed leaves packages half configured, and a firmware write that is killed leaves a card without firmware.
func (j *journal) watch(ctx context.Context, activity func() (string, error)) {
	last, since, stuck := "", time.Now(), false
	for retry.Pause(ctx, watchEvery) == nil {
		now, err := activity()
		j.mu.Lock()
		now += fmt.Sprint(" ", j.bytes)
		j.mu.Unlock()
		if now != last || err != nil {
			last, since = now, time.Now()
		}
		if idle := time.Since(since) >= resource.StuckAfter; idle != stuck {
			stuck = idle
			_ = j.set(func(job *resource.Installation) { job.Stuck = stuck }) // the next step reports a journal that cannot be written
		}
	}
}

// short shortens a command line for display.
func short(step string) string {
	const most = 120
	if r := []rune(step); len(r) > most {
		return string(r[:most]) + "…"
	}
	return step
}
