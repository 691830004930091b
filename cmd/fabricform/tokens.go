package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/lab/site"
)

// tokens are the holds on one apply's open transaction. Who has them can end it: keep it or go back.
type tokens struct {
	ID     string                 `json:"id"` // of the apply: of one saved plan there may be several
	Fabric string                 `json:"fabric"`
	Plan   string                 `json:"plan"`
	Hosts  map[string]agent.TxRef `json:"hosts"`
	Waits  *awaited               `json:"waits,omitempty"` // for a confirmation; nil: the apply runs, or its program died
}

// awaited is what an apply made that waits for its confirmation: which it is, neither the files nor the
// command line of the confirmation say for certain.
type awaited struct {
	Fabric  *fabric.Fabric `json:"fabric"`
	Destroy bool           `json:"destroy,omitempty"`
}

// tokenStore is where a fabric's tokens are kept on the operator's machine: a file for each apply, as
// several may be open, each on hosts of its own. A lab's hosts have the names of the real ones.
type tokenStore struct {
	fabric string
	lab    bool
}

func (a *app) tokensOf(fabric string) tokenStore { return tokenStore{fabric, a.lab != ""} }

func (k tokenStore) folder() (string, error) {
	base, err := site.StateDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(base, "transactions", filepath.Base(k.fabric))
	if k.lab {
		dir = filepath.Join(dir, "lab")
	}
	return dir, nil
}

func (k tokenStore) path(w tokens) (string, error) {
	dir, err := k.folder()
	if err != nil {
		return "", err
	}
	name := filepath.Base(w.ID)
	if w.Waits == nil {
		name += ".running"
	}
	return filepath.Join(dir, name+".json"), nil
}

// save writes the file whole or not at all; without hosts there is none.
func (k tokenStore) save(w tokens) error {
	path, err := k.path(w)
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

// read reads the tokens of one file, which must be of this fabric.
func (k tokenStore) read(path string) (tokens, error) {
	var w tokens
	raw, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(raw, &w)
	}
	if err == nil && w.Fabric != k.fabric {
		err = fmt.Errorf("it is of fabric %q, not %q", w.Fabric, k.fabric)
	}
	if err != nil {
		return tokens{}, fmt.Errorf("read the transaction's tokens in %s: %w", path, err)
	}
	return w, nil
}

// all are those of this machine, or of a file that was named.
func (k tokenStore) all(named string) ([]tokens, error) {
	if named != "" {
		w, err := k.read(named)
		return []tokens{w}, err
	}
	dir, err := k.folder()
	if err != nil {
		return nil, err
	}
	files, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the transactions' tokens: %w", err)
	}
	var out []tokens
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".json") {
			continue
		}
		w, err := k.read(filepath.Join(dir, f.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // its apply ends just now
		}
		if err != nil {
			return nil, fmt.Errorf("%w; remove the file to go on without them: hosts that are still held go back by themselves", err)
		}
		out = append(out, w)
	}
	return out, nil
}

// held are all holds that this machine has on the fabric's transactions, or those of a file that was
// named.
func (k tokenStore) held(named string) (map[string]agent.TxRef, error) {
	all, err := k.all(named)
	if err != nil {
		return nil, err
	}
	out := map[string]agent.TxRef{}
	for _, w := range all {
		maps.Copy(out, w.Hosts)
	}
	return out, nil
}

// forget drops this machine's holds on transactions that have ended.
func (k tokenStore) forget(ended func(host string, on agent.TxRef) bool) error {
	all, err := k.all("")
	if err != nil {
		return err
	}
	for _, w := range all {
		before := len(w.Hosts)
		maps.DeleteFunc(w.Hosts, ended)
		if len(w.Hosts) == before {
			continue
		}
		if err := k.save(w); err != nil {
			return err
		}
	}
	return nil
}

// endedBy says which transactions have, by their fates: a host without one may still be held, and a
// lost one may answer again before its lease runs out.
func endedBy(fates map[string]apply.HostOutcome) func(host string, on agent.TxRef) bool {
	return func(host string, _ agent.TxRef) bool {
		f, has := fates[host]
		return has && f.Fate != "" && f.Fate != apply.Lost
	}
}

// endedIn says which have by what the hosts themselves tell; of a host that did not, nothing is known.
func endedIn(told map[string][]agent.TxInfo) func(host string, on agent.TxRef) bool {
	return func(host string, on agent.TxRef) bool {
		kept, reached := told[host]
		return reached && !slices.ContainsFunc(kept, func(i agent.TxInfo) bool { return i.ID == on.ID && i.State.Open() })
	}
}

// keepTokens leaves them on this machine while the apply runs: should its program die, another run
// can end what it began. Without them that only takes as long as the lease.
func (r *job) keepTokens(tx *apply.Transaction) (drop func()) {
	k, w := r.a.tokensOf(r.p.Fabric), tokens{ID: newPlanID(), Fabric: r.p.Fabric, Plan: r.id, Hosts: tx.Refs()}
	r.a.tell(k.save(w))
	// A host has one transaction at a time.
	r.a.tell(k.forget(func(host string, on agent.TxRef) bool {
		mine, has := w.Hosts[host]
		return has && mine.ID != on.ID
	}))
	tx.Moved = k.follow(w, r.a.tell)
	return func() {
		fates := map[string]apply.HostOutcome{}
		for _, o := range r.report.Outcomes {
			fates[o.Host] = o
		}
		maps.DeleteFunc(w.Hosts, endedBy(fates)) // those that wait are kept by leaveOpen
		r.a.tell(k.save(w))
	}
}

// tell says what failed and keeps nobody from going on.
func (a *app) tell(err error) {
	if err != nil {
		a.err.Progressf("%v", err)
	}
}

// follow saves the tokens anew whenever a host has another one.
func (k tokenStore) follow(w tokens, told func(error)) func(host string, to agent.TxRef) {
	var mu sync.Mutex
	return func(host string, to agent.TxRef) {
		mu.Lock()
		defer mu.Unlock()
		w.Hosts[host] = to
		told(k.save(w))
	}
}

func takeOverFlag(c *cobra.Command, from *string) {
	c.Flags().StringVar(from, "takeover", "", "show the tokens in this `file`, which apply left in the fabric's folder in fabricform/transactions below $XDG_STATE_HOME (~/.local/state) of the machine where it ran")
}
