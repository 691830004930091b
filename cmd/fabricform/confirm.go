package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/lab/site"
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
	base, err := site.StateDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(base, "transactions", filepath.Base(fabric)+".json"), nil
}

// dropWaiting forgets a transaction that has ended, if one waited.
func dropWaiting(fabric string) error {
	path, err := waitingFile(fabric)
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget the transaction's tokens: %w", err)
	}
	return nil
}

// leaveOpen ends an apply that waits for its confirmation. What it enters into the hosts' records
// goes with the rest, should the confirmation not come.
func (r *job) leaveOpen(ctx context.Context, tx *apply.Transaction) (int, error) {
	w := waiting{Fabric: r.p.Fabric, Plan: r.id, Until: time.Now().Add(r.o.lease), Hosts: tx.Refs()}
	for i := range r.report.Outcomes {
		if _, open := w.Hosts[r.report.Outcomes[i].Host]; open {
			r.report.Outcomes[i].Fate, r.report.Outcomes[i].Why = apply.Waiting, "until "+w.Until.Format("15:04:05")
		}
	}
	path, err := waitingFile(r.p.Fabric)
	if err != nil {
		return exitError, err
	}
	raw, err := json.MarshalIndent(w, "", "  ")
	if err == nil {
		err = errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, raw, 0o600))
	}
	if err != nil {
		return r.back(ctx, tx, exitError, fmt.Errorf("keep the transaction's tokens: %w", err))
	}
	err = r.enrolLate(ctx)
	tx.Close()
	r.open = true
	r.a.report().Note("The changes are made and wait until %s: `fabricform confirm` keeps them; without it the hosts go back by themselves.", w.Until.Format("15:04:05"))
	return exitOK, err
}

func confirmCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "confirm [FABRIC]", Short: "Keep the changes of an apply that waits for it", Args: cobra.MaximumNArgs(1),
		Long: `confirm ends an "apply -confirm manual" on all of its hosts: the changes stay. It needs the tokens that
apply left on this machine; without it the hosts go back by themselves. Where one host has gone back
already, all do.`,
	}
	a.fleetFlags(c)
	c.RunE = a.onHosts(func(ctx context.Context, s *session) error {
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
		tx := s.fleet.Resume(s.fabric.Name, w.Hosts)
		defer tx.Close()
		// An interrupt must not part the hosts.
		late := context.WithoutCancel(ctx)
		if err = errors.Join(tx.Persist(late, nil), tx.Reach(late)); err == nil {
			fates, err := tx.Commit(late)
			return a.tellFates(fates, errors.Join(err, dropWaiting(s.fabric.Name)))
		}
		// Some cannot be committed any more: then none is.
		fates, _ := tx.Revert(late, tx.Hosts(), "it was not confirmed in time") // the fates say it, host by host
		told := a.tellFates(fates, errors.Join(err, dropWaiting(s.fabric.Name)))
		return &exit{code: worse(exitRolledBack, fateCode(fates)), err: told}
	})
	return c
}
