//go:build linux

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fabricform/fabricform/host/process"
)

// line is one way to run a program later, independently of this process.
type line struct {
	name  string // "guardian" or "systemd", as Fired reports it
	title string // in messages
	start func(ctx context.Context, unit string, after time.Duration, argv []string) error
}

// lines returns the lines of defence of this host: a detached process and, with systemd, a timer.
func lines() []line {
	out := []line{{"guardian", "detached guardian", func(_ context.Context, _ string, _ time.Duration, argv []string) error {
		p, err := process.Detach(argv)
		if err != nil {
			return err
		}
		return errors.Join(process.LeaveJob(p.Pid), p.Release())
	}}}
	if process.HasSystemd() {
		out = append(out, line{"systemd", "systemd timer", process.StartTimer})
	}
	return out
}

// Guardians returns how many guardians watch a transaction on this host: one of them is not enough if it is killed.
func Guardians() int { return len(lines()) }

// unit returns the name of a transaction's systemd units.
func unit(id string) string { return "fabricform-" + id }

// Arm starts the guardians of a transaction. helper is the program to run; it must pass its arguments after
// "guard" to GuardMain. Nothing may be changed before Arm has returned nil.
func (s *Store) Arm(ctx context.Context, helper string, t *Transaction) error {
	argv := []string{helper, "guard", "watch", s.dir, t.ID}
	var errs []error
	for _, l := range lines() {
		if err := l.start(ctx, unit(t.ID), t.Lease, argv); err != nil {
			errs = append(errs, fmt.Errorf("arm the %s: %w", l.title, err))
		}
	}
	return errors.Join(errs...)
}

// Disarm removes the timer of a finished transaction. This only tidies up: both guardians notice the end of the
// transaction on their own, the detached one within a second.
func (s *Store) Disarm(ctx context.Context, t *Transaction) error {
	if !process.HasSystemd() {
		return nil
	}
	return process.StopTimer(ctx, unit(t.ID))
}

// GuardMain is the main function of the program that Arm and Rehearse start. args are those after "guard".
func GuardMain(ctx context.Context, args []string, restore RestoreFunc) error {
	if len(args) == 5 && args[0] == "rehearse" {
		return fire(ctx, args[1], args[2], args[3], args[4])
	}
	if len(args) != 3 || args[0] != "watch" {
		return errors.New("guard: invalid arguments; this command is for internal use")
	}
	process.SpareMe()
	return Guardian{Store: NewStore(args[1], Now), Restore: restore}.Watch(ctx, args[2])
}
