package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// InstallMain carries out the order that a helper left. It is a process of its own.
func InstallMain(ctx context.Context, h host.Host, kinds resource.Kinds) error {
	unlock, err := host.TryLock(stackLock)
	if err != nil {
		return fmt.Errorf("install a driver stack: %w", err)
	}
	defer unlock()
	host.SpareMe()
	raw, err := os.ReadFile(orderFile)
	if err != nil {
		return fmt.Errorf("read the order: %w", err)
	}
	var o StackOrder
	if err := json.Unmarshal(raw, &o); err != nil {
		return fmt.Errorf("read the order: %w", err)
	}
	me, err := host.Self()
	if err != nil {
		return err
	}
	boot, err := host.BootID()
	if err != nil {
		return err
	}
	j := &journal{job: facts.StackJob{ID: o.ID, Fabric: o.Fabric, Who: o.Who, State: facts.JobRunning, Step: "the beginning", Boot: boot, Process: me}}
	if j.log, err = os.OpenFile(StackLog, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600); err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	defer j.log.Close()
	if err := j.write(); err != nil {
		return err
	}
	err = install(ctx, h, kinds, o, j)
	j.job.State = facts.JobDone
	if err != nil {
		j.job.State, j.job.Why = facts.JobFailed, err.Error()
	}
	return errors.Join(err, j.write())
}

// install makes the changes, and sees that nothing of them is left to do but what a reboot does.
func install(ctx context.Context, h host.Host, kinds resource.Kinds, o StackOrder, j *journal) error {
	kind, ok := kinds.Lookup(o.Resource.Addr.Kind)
	if !ok {
		return fmt.Errorf("there is no kind %q", o.Resource.Addr.Kind)
	}
	if err := kind.Apply(resource.WithLog(ctx, j), h, o.Resource.Spec, o.Changes); err != nil {
		return err
	}
	j.job.State = facts.JobChecking
	if err := j.write(); err != nil {
		return err
	}
	left, err := (&server{host: h}).difference(kind, o.Resource)
	if err != nil {
		return fmt.Errorf("read the host after the installation: %w", err)
	}
	for _, c := range left {
		if c.Disruption < resource.DriverReload {
			return fmt.Errorf("the programs ended well, and still: %s", c)
		}
	}
	return nil
}

// journal is the log, whose lines "# …" name the steps.
type journal struct {
	mu  sync.Mutex // a program's output and its errors come side by side
	log *os.File
	job facts.StackJob
}

func (j *journal) write() error {
	raw, err := json.Marshal(j.job)
	if err != nil {
		return err
	}
	if err := host.ReplaceFile(facts.JobFile, raw, 0o600); err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	return nil
}

// Write implements io.Writer. A step is in the journal, on the disk, before it begins.
func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if step, is := strings.CutPrefix(string(p), "# "); is {
		step, _, _ = strings.Cut(step, "\n")
		j.job.Step = short(step)
		if err := j.write(); err != nil {
			return 0, err
		}
	}
	return j.log.Write(p)
}

// short keeps a command line readable.
func short(step string) string {
	const most = 120
	if r := []rune(step); len(r) > most {
		return string(r[:most]) + "…"
	}
	return step
}
