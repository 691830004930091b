package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/checkpoint"
)

// waiting is a transaction that waits for its confirmation: who has this file can give it.
type waiting struct {
	Fabric string                 `json:"fabric"`
	Plan   string                 `json:"plan"`
	Until  time.Time              `json:"until"`
	Hosts  map[string]agent.TxRef `json:"hosts"`
}

// waitingFile is where the tokens of a fabric's open transaction are kept on the operator's machine.
func waitingFile(fabric string) (string, error) {
	base := os.Getenv("XDG_STATE_HOME")
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("find a place for the transaction's tokens: %w", err)
		}
		base = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(base, "fabricform", "transactions", filepath.Base(fabric)+".json"), nil
}

// leaveOpen ends an apply that waits for its confirmation.
func (r *job) leaveOpen(tx *apply.Transaction) (int, error) {
	w := waiting{Fabric: r.p.Fabric, Plan: r.id, Until: time.Now().Add(r.o.lease), Hosts: tx.Refs()}
	path, err := waitingFile(r.p.Fabric)
	if err != nil {
		return exitError, err
	}
	raw, err := json.MarshalIndent(w, "", "  ")
	if err == nil {
		err = errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, raw, 0o600))
	}
	if err != nil {
		return exitError, fmt.Errorf("keep the transaction's tokens: %w", err)
	}
	tx.Close()
	for i := range r.report.Outcomes {
		if _, open := w.Hosts[r.report.Outcomes[i].Host]; open {
			r.report.Outcomes[i].Fate, r.report.Outcomes[i].Why = apply.Waiting, "until "+w.Until.Format("15:04:05")
		}
	}
	r.open = true
	r.a.report().Note("The changes are made and wait until %s: `fabricform confirm` keeps them; without it the hosts go back by themselves.", w.Until.Format("15:04:05"))
	return exitOK, nil
}

func pendingCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "pending [FABRIC]", Short: "Show open transactions, and how long they last", Args: cobra.MaximumNArgs(1),
	}
	a.fleetFlags(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := a.open(cmd.Context(), fabricArg(args))
		if err != nil {
			return err
		}
		defer s.fleet.Close()
		open := 0
		for _, host := range s.fleet.Hosts() {
			all, err := s.fleet.Transactions(cmd.Context(), host)
			if err != nil {
				return fmt.Errorf("host %s: %w", host, err)
			}
			for _, i := range all {
				if i.State.Open() {
					open++
					a.out.Linef("%s  %s", host, apply.Describe(i))
					for _, l := range i.Remain {
						a.out.Linef("    %s", l)
					}
				}
			}
		}
		if open == 0 {
			a.out.Linef("No transaction is open.")
		}
		return a.told(s)
	}
	return c
}

// told names the hosts that could not be reached.
func (a *app) told(s *session) error {
	unreachable := map[string]string{}
	for name, err := range s.fleet.Unreachable {
		unreachable[name] = err.Error()
	}
	if len(unreachable) == 0 {
		return nil
	}
	a.err.Unreachable(unreachable)
	return told(exitUnreachable)
}

func confirmCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "confirm [FABRIC]", Short: "Keep the changes of an apply that waits for it", Args: cobra.MaximumNArgs(1),
		Long: `confirm ends an "apply -confirm manual" on all of its hosts: the changes stay. It needs the tokens that
apply left on this machine; without it the hosts go back by themselves.`,
	}
	a.fleetFlags(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := a.open(cmd.Context(), fabricArg(args))
		if err != nil {
			return err
		}
		defer s.fleet.Close()
		path, err := waitingFile(s.fabric.Name)
		if err != nil {
			return err
		}
		raw, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("no apply of fabric %q waits for a confirmation from this machine", s.fabric.Name)
		}
		var w waiting
		if err == nil {
			err = json.Unmarshal(raw, &w)
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		fates, err := s.fleet.Resume(s.fabric.Name, w.Hosts).Commit(cmd.Context())
		if errors.Is(err, os.ErrNotExist) || err == nil || fates != nil {
			err = errors.Join(err, os.Remove(path))
		}
		return a.tellFates(fates, err)
	}
	return c
}

// tellFates prints how hosts ended, and answers the exit.
func (a *app) tellFates(fates map[string]apply.HostOutcome, err error) error {
	var list []apply.HostOutcome
	for _, h := range slices.Sorted(maps.Keys(fates)) {
		list = append(list, fates[h])
	}
	a.out.Fates(list)
	code := fateCode(fates)
	if err != nil {
		return &exit{code: worse(code, exitError), err: err}
	}
	return told(code)
}

func rollbackCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "rollback [FABRIC]", Short: "Go back: from an open transaction, or from the last apply", Args: cobra.MaximumNArgs(1),
		Long: `rollback takes every host of the fabric back to what it was before its last transaction, from the
snapshot that the host keeps: of an open one, or of the last that was committed.`,
	}
	a.fleetFlags(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := a.open(cmd.Context(), fabricArg(args))
		if err != nil {
			return err
		}
		defer s.fleet.Close()
		r := &job{a: a, s: s}
		fates, err := r.undoLast(cmd.Context(), s.fleet.Hosts(), "rollback by "+operator())
		if err == nil && len(fates) == 0 {
			return errors.New("there is nothing to go back from: no host keeps a transaction of this fabric")
		}
		if path, e := waitingFile(s.fabric.Name); e == nil {
			_ = os.Remove(path) // it may not be there
		}
		return errors.Join(a.tellFates(fates, err), a.told(s))
	}
	return c
}

// undoLast takes hosts back from this fabric's latest transaction.
func (r *job) undoLast(ctx context.Context, hosts []string, why string) (map[string]apply.HostOutcome, error) {
	fates := map[string]apply.HostOutcome{}
	var errs []error
	for _, host := range hosts {
		all, err := r.s.fleet.Transactions(ctx, host)
		if err != nil {
			errs = append(errs, fmt.Errorf("host %s: %w", host, err))
			continue
		}
		for _, i := range slices.Backward(all) {
			if i.Fabric != r.s.fabric.Name {
				continue
			}
			if i.State == checkpoint.Reverted || i.State == checkpoint.Released {
				break // it is back already
			}
			o, err := r.s.fleet.GoBack(ctx, host, agent.TxRevert{ID: i.ID, Why: why, Undo: i.State == checkpoint.Committed})
			if err != nil {
				errs = append(errs, fmt.Errorf("host %s: %w", host, err))
				break
			}
			fates[host] = o
			break
		}
	}
	return fates, errors.Join(errs...)
}

func unlockCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "unlock [FABRIC]", Short: "End transactions whose rollback failed, once the hosts are in order", Args: cobra.MaximumNArgs(1),
		Long: `unlock ends transactions that could not go back wholly and wait for a person. Put the host in order
first: what it lacks is listed by "fabricform pending". Open transactions of others are not ended: they
go back by themselves when their lease runs out, or at once with "fabricform rollback".`,
	}
	a.fleetFlags(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := a.open(cmd.Context(), fabricArg(args))
		if err != nil {
			return err
		}
		defer s.fleet.Close()
		n := 0
		for _, host := range s.fleet.Hosts() {
			all, err := s.fleet.Transactions(cmd.Context(), host)
			if err != nil {
				return fmt.Errorf("host %s: %w", host, err)
			}
			for _, i := range all {
				if i.State != checkpoint.RevertFailed {
					continue
				}
				if err := s.fleet.Release(cmd.Context(), host, i.ID, operator()); err != nil {
					return fmt.Errorf("host %s: %w", host, err)
				}
				n++
				a.out.Linef("✓ %s: transaction %s is ended. It had left: %s", host, i.ID, strings.Join(i.Remain, "; "))
			}
		}
		if n == 0 {
			a.out.Linef("No transaction waits for a person.")
		}
		return a.told(s)
	}
	return c
}
