package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/lab/site"
)

// tokens are the holds on a fabric's open transaction. Who has them can end it: keep it or go back.
type tokens struct {
	Fabric string                 `json:"fabric"`
	Plan   string                 `json:"plan"`
	Until  time.Time              `json:"until,omitzero"` // it waits for a confirmation; zero: it does not
	Hosts  map[string]agent.TxRef `json:"hosts"`
}

// What tokens on the operator's machine are of.
const (
	tokensWaiting = ""         // an apply that has ended and waits for its confirmation
	tokensRunning = ".running" // one that runs, or whose program died
)

// tokensFile is where the tokens of a fabric's open transaction are kept on the operator's machine.
func tokensFile(fabric, of string) (string, error) {
	base, err := site.StateDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(base, "transactions", filepath.Base(fabric)+of+".json"), nil
}

// save writes the file whole or not at all; without hosts there is none.
func (w tokens) save(of string) error {
	path, err := tokensFile(w.Fabric, of)
	if err != nil {
		return err
	}
	if len(w.Hosts) == 0 {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("forget the transaction's tokens: %w", err)
		}
		return nil
	}
	raw, err := json.MarshalIndent(w, "", "  ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = host.ReplaceFile(path, raw, 0o600)
	}
	if err != nil {
		return fmt.Errorf("keep the transaction's tokens: %w", err)
	}
	return nil
}

// readTokens reads this machine's, or those of a file that was named; nil where this machine has none.
func readTokens(fabric, of, named string) (*tokens, error) {
	path, err := tokensFile(fabric, of)
	if named != "" {
		path, err = named, nil
	}
	if err != nil {
		return nil, err
	}
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && named == "" {
		return nil, nil
	}
	var w tokens
	if err == nil {
		err = json.Unmarshal(raw, &w)
	}
	if err == nil && w.Fabric != fabric {
		err = fmt.Errorf("it is of fabric %q, not %q", w.Fabric, fabric)
	}
	if err != nil && named == "" {
		return nil, fmt.Errorf("read the transaction's tokens in %s: %w; remove the file to go on without them: hosts that are still held go back by themselves", path, err)
	}
	if err != nil {
		return nil, fmt.Errorf("read the transaction's tokens in %s: %w", path, err)
	}
	return &w, nil
}

// dropTokens forgets the holds on hosts whose transaction has ended: the others may still be held, and
// a lost one may answer again before its lease runs out.
func dropTokens(fabric string, fates map[string]apply.HostOutcome, of ...string) error {
	for _, of := range of {
		w, err := readTokens(fabric, of, "")
		if err != nil {
			return err
		}
		if w == nil {
			continue
		}
		maps.DeleteFunc(w.Hosts, func(host string, _ agent.TxRef) bool {
			f, has := fates[host]
			return has && f.Fate != apply.Lost
		})
		if err := w.save(of); err != nil {
			return err
		}
	}
	return nil
}

// heldHere are all holds that this machine has on a fabric's transactions, or those of a file that
// was named.
func heldHere(fabric, named string) (map[string]agent.TxRef, error) {
	if named != "" {
		w, err := readTokens(fabric, "", named)
		if err != nil {
			return nil, err
		}
		return w.Hosts, nil
	}
	out := map[string]agent.TxRef{}
	for _, of := range []string{tokensWaiting, tokensRunning} {
		w, err := readTokens(fabric, of, "")
		if err != nil {
			return nil, err
		}
		if w != nil {
			maps.Copy(out, w.Hosts)
		}
	}
	return out, nil
}

// keepTokens leaves them on this machine while the apply runs: should its program die, another run
// can end what it began. Without them that only takes as long as the lease.
func (r *job) keepTokens(tx *apply.Transaction) (drop func()) {
	w := tokens{Fabric: r.p.Fabric, Plan: r.id, Hosts: tx.Refs()}
	r.a.tell(w.save(tokensRunning))
	tx.Moved = w.follow(tokensRunning, r.a.tell)
	return func() { r.a.tell(tokens{Fabric: r.p.Fabric}.save(tokensRunning)) }
}

// tell says what failed and keeps nobody from going on.
func (a *app) tell(err error) {
	if err != nil {
		a.err.Progressf("%v", err)
	}
}

// follow saves the tokens anew whenever a host has another one.
func (w tokens) follow(of string, told func(error)) func(host string, to agent.TxRef) {
	var mu sync.Mutex
	return func(host string, to agent.TxRef) {
		mu.Lock()
		defer mu.Unlock()
		w.Hosts[host] = to
		told(w.save(of))
	}
}

func takeOverFlag(c *cobra.Command, from *string) {
	c.Flags().StringVar(from, "takeover", "", "show the tokens in this `file`, which apply left in fabricform/transactions below $XDG_STATE_HOME (~/.local/state) of the machine where it ran")
}
