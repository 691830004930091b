package apply

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

	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/host/file"
)

// tokens are the holds on one apply's open transaction. Who has them can end it: keep it or go back.
type tokens struct {
	ID     string                 `json:"id"` // of the apply: of one saved plan there may be several
	Fabric string                 `json:"fabric"`
	Plan   string                 `json:"plan"`
	Hosts  map[string]calls.TxRef `json:"hosts"`
	Waits  *awaited               `json:"waits,omitempty"` // for a confirmation; nil: the apply runs, or its program died
}

// awaited is what an apply made that waits for its confirmation: which it is, neither the files nor the
// command line of the confirmation say for certain.
type awaited struct {
	Fabric  *fabric.Fabric `json:"fabric"`
	Destroy bool           `json:"destroy,omitempty"`
}

// TokenStore is where a fabric's tokens are kept on the operator's machine: a file for each apply, as
// several may be open, each on hosts of its own. Only the apply, or who confirms it, writes its file;
// others remove it whole, once it has ended on all of its hosts: so nobody needs a lock.
type TokenStore struct {
	Fabric string
	Lab    string // "" is none: hosts of labs have the names of the real ones, and of each other's
	// State is the folder in which programs keep what they have to remember.
	State func() (string, error)
}

func (k TokenStore) folder() (string, error) {
	base, err := k.State()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(base, "transactions", filepath.Base(k.Fabric))
	if k.Lab != "" {
		dir = filepath.Join(dir, "lab", filepath.Base(k.Lab))
	}
	return dir, nil
}

func (k TokenStore) path(w tokens) (string, error) {
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

// save writes the file whole or not at all.
func (k TokenStore) save(w tokens) error {
	path, err := k.path(w)
	if err != nil {
		return err
	}
	raw, err := json.MarshalIndent(w, "", "  ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = file.Replace(path, raw, 0o600)
	}
	if err != nil {
		return fmt.Errorf("keep the transaction's tokens: %w", err)
	}
	return nil
}

func (k TokenStore) remove(w tokens) error {
	path, err := k.path(w)
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget the transaction's tokens: %w", err)
	}
	return nil
}

// read reads the tokens of one file, which must be of this fabric.
func (k TokenStore) read(path string) (tokens, error) {
	var w tokens
	raw, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(raw, &w)
	}
	if err == nil && w.Fabric != k.Fabric {
		err = fmt.Errorf("it is of fabric %q, not %q", w.Fabric, k.Fabric)
	}
	if err == nil {
		err = w.whole()
	}
	if err != nil {
		return tokens{}, fmt.Errorf("read the transaction's tokens in %s: %w", path, err)
	}
	return w, nil
}

// whole says what a file lacks that whoever goes on with its apply needs.
func (w tokens) whole() error {
	switch {
	case w.ID == "" || len(w.Hosts) == 0:
		return errors.New("it is not whole: the apply's id or its hosts are missing")
	case w.Waits == nil:
		return nil
	case w.Waits.Fabric == nil || slices.Contains(w.Waits.Fabric.Hosts, nil):
		return errors.New("it is not whole: what the apply made is missing")
	}
	for _, host := range slices.Sorted(maps.Keys(w.Hosts)) {
		if w.Waits.Fabric.Host(host) == nil {
			return fmt.Errorf("it is not whole: what the apply made on host %q is missing", host)
		}
	}
	return nil
}

// all are those of this machine, or of a file that was named.
func (k TokenStore) all(named string) ([]tokens, error) {
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

// held are the holds on transactions that have not ended: a host has one at a time.
func held(all []tokens, ended func(host string, on calls.TxRef) bool) map[string]calls.TxRef {
	out := map[string]calls.TxRef{}
	for _, w := range all {
		for host, on := range w.Hosts {
			if !ended(host, on) {
				out[host] = on
			}
		}
	}
	return out
}

// forget removes those of all that have ended on all of their hosts. Until then none is left out: what
// went back on one host by itself must not be kept on the others.
func (k TokenStore) forget(all []tokens, ended func(host string, on calls.TxRef) bool) error {
	var errs []error
	for _, w := range all {
		if w.over(ended) {
			errs = append(errs, k.remove(w))
		}
	}
	return errors.Join(errs...)
}

// over says whether the apply has ended on all of its hosts.
func (w tokens) over(ended func(host string, on calls.TxRef) bool) bool {
	for host, on := range w.Hosts {
		if !ended(host, on) {
			return false
		}
	}
	return true
}

// endedBy says which transactions have, by their fates: a host without one may still be held, and a
// lost one may answer again before its lease runs out.
func endedBy(fates map[string]HostOutcome) func(host string, on calls.TxRef) bool {
	return func(host string, _ calls.TxRef) bool {
		f, has := fates[host]
		return has && f.Fate != "" && f.Fate != Lost
	}
}

// endedIn says which have by what the hosts themselves tell; of a host that did not, nothing is known.
func endedIn(told map[string][]calls.TxInfo) func(host string, on calls.TxRef) bool {
	return func(host string, on calls.TxRef) bool {
		kept, reached := told[host]
		return reached && !slices.ContainsFunc(kept, func(i calls.TxInfo) bool { return i.ID == on.ID && i.State.Open() })
	}
}

// replacedIn says which were followed by another one on their host, and so have ended.
func replacedIn(told map[string][]calls.TxInfo) func(host string, on calls.TxRef) bool {
	return func(host string, on calls.TxRef) bool {
		kept, reached := told[host]
		return reached && (len(kept) == 0 || kept[len(kept)-1].ID != on.ID)
	}
}

// keepTokens leaves them on this machine while the apply runs: should its program die, another run
// can end what it began. Without them that only takes as long as the lease.
func (r *run) keepTokens(tx *transaction) (drop func()) {
	k, w := r.s.Options.Tokens, tokens{ID: NewID(), Fabric: r.p.Fabric, Plan: r.id, Hosts: tx.Refs()}
	others, err := k.all("")
	warn(r.e, err)
	warn(r.e, k.save(w))
	// A host has one transaction at a time.
	warn(r.e, k.forget(others, func(host string, on calls.TxRef) bool {
		mine, has := w.Hosts[host]
		return has && mine.ID != on.ID
	}))
	tx.Moved = k.follow(w, func(err error) { warn(r.e, err) })
	return func() {
		fates := map[string]HostOutcome{}
		for _, o := range r.report.Outcomes {
			fates[o.Host] = o
		}
		maps.DeleteFunc(w.Hosts, endedBy(fates)) // those that wait are kept by leaveOpen
		if len(w.Hosts) == 0 {
			warn(r.e, k.remove(w))
			return
		}
		warn(r.e, k.save(w))
	}
}

// follow saves the tokens anew whenever a host has another one.
func (k TokenStore) follow(w tokens, told func(error)) func(host string, to calls.TxRef) {
	var mu sync.Mutex
	return func(host string, to calls.TxRef) {
		mu.Lock()
		defer mu.Unlock()
		w.Hosts[host] = to
		told(k.save(w))
	}
}
