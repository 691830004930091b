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
	"github.com/fabricform/fabricform/planner"
)

// tokens authorise a client to end one apply's open transaction on each host: to commit it or to revert it.
type tokens struct {
	ID     string                 `json:"id"` // of the apply; a saved plan may have several
	Fabric string                 `json:"fabric"`
	Plan   string                 `json:"plan"`
	Hosts  map[string]calls.TxRef `json:"hosts"`
	Waits  *pendingApply          `json:"waits,omitempty"` // nil if the apply is running, or its program died
}

// pendingApply is what an apply made that is pending. It is stored because the files may differ by the time
// of the confirm.
type pendingApply struct {
	Fabric  *fabric.Fabric `json:"fabric"`
	Destroy bool           `json:"destroy,omitempty"`
	// LeftOut lists what the apply left as it was.
	LeftOut []planner.LeftOut `json:"left_out,omitempty"`
}

// TokenStore keeps a fabric's tokens on the operator's machine, in one file for each apply: several may be
// open, each on its own hosts. Only the apply and its confirm write the file. Other commands remove it once
// the apply has ended on all of its hosts. So no lock is needed.
type TokenStore struct {
	Fabric string
	Lab    string // "" for real hosts; a lab's hosts have the same names as the real ones
	// State returns the directory for the program's state.
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

// save replaces the file atomically.
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
		return fmt.Errorf("save the transaction's tokens: %w", err)
	}
	return nil
}

func (k TokenStore) remove(w tokens) error {
	path, err := k.path(w)
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the transaction's tokens: %w", err)
	}
	return nil
}

// read reads the tokens of one file, which must belong to this fabric.
func (k TokenStore) read(path string) (tokens, error) {
	var w tokens
	raw, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(raw, &w)
	}
	if err == nil && w.Fabric != k.Fabric {
		err = fmt.Errorf("the file belongs to fabric %q, not %q", w.Fabric, k.Fabric)
	}
	if err == nil {
		err = w.check()
	}
	if err != nil {
		return tokens{}, fmt.Errorf("read the transaction's tokens in %s: %w", path, err)
	}
	return w, nil
}

// check returns an error if the tokens lack what is needed to end the apply.
func (w tokens) check() error {
	switch {
	case w.ID == "" || len(w.Hosts) == 0:
		return errors.New("the token file is incomplete: the apply's id or its hosts are missing")
	case w.Waits == nil:
		return nil
	case w.Waits.Fabric == nil:
		return errors.New("the token file is incomplete: the applied fabric is missing")
	}
	if err := w.Waits.Fabric.CheckEntries(); err != nil {
		return fmt.Errorf("the token file is corrupt: %w", err)
	}
	for _, host := range slices.Sorted(maps.Keys(w.Hosts)) {
		if w.Waits.Fabric.Host(host) == nil {
			return fmt.Errorf("the token file is incomplete: the applied fabric has no host %q", host)
		}
	}
	return nil
}

// all returns the tokens in the named file, or all tokens of this machine.
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
			continue // its apply has just ended
		}
		if err != nil {
			return nil, fmt.Errorf("%w. To continue without them, remove the file: hosts with an open transaction revert automatically",
				err)
		}
		out = append(out, w)
	}
	return out, nil
}

// openRefs returns the references to transactions that have not ended: a host has at most one.
func openRefs(all []tokens, ended func(host string, on calls.TxRef) bool) map[string]calls.TxRef {
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

// removeEnded removes the tokens of applies that have ended on all of their hosts. Until then the file keeps
// all hosts: if one host reverted automatically, the others must not commit.
func (k TokenStore) removeEnded(all []tokens, ended func(host string, on calls.TxRef) bool) error {
	var errs []error
	for _, w := range all {
		if w.endedOnAll(ended) {
			errs = append(errs, k.remove(w))
		}
	}
	return errors.Join(errs...)
}

// endedOnAll reports whether the apply has ended on all of its hosts.
func (w tokens) endedOnAll(ended func(host string, on calls.TxRef) bool) bool {
	for host, on := range w.Hosts {
		if !ended(host, on) {
			return false
		}
	}
	return true
}

// endedBy returns a test whether a transaction has ended, by its fate. Without a fate, or if the host is
// lost, the transaction may still be open.
func endedBy(fates map[string]HostOutcome) func(host string, on calls.TxRef) bool {
	return func(host string, _ calls.TxRef) bool {
		f, has := fates[host]
		return has && f.Fate != "" && f.Fate != Lost
	}
}

// endedIn returns a test whether a transaction has ended, by the host's own report. Without a report, it
// counts as open.
func endedIn(reported map[string][]calls.TxInfo) func(host string, on calls.TxRef) bool {
	return func(host string, on calls.TxRef) bool {
		kept, reached := reported[host]
		return reached && !slices.ContainsFunc(kept, func(i calls.TxInfo) bool { return i.ID == on.ID && i.State.Open() })
	}
}

// replacedIn returns a test whether a newer transaction followed on the host: then the older one has ended.
func replacedIn(reported map[string][]calls.TxInfo) func(host string, on calls.TxRef) bool {
	return func(host string, on calls.TxRef) bool {
		kept, reached := reported[host]
		return reached && (len(kept) == 0 || kept[len(kept)-1].ID != on.ID)
	}
}

// saveTokens stores the tokens on this machine while the apply runs: if its program dies, another run can
// end the transaction without waiting for the lease to expire.
func (r *run) saveTokens(tx *coordinator) (drop func()) {
	k, w := r.s.Options.Tokens, tokens{ID: NewID(), Fabric: r.p.Fabric, Plan: r.id, Hosts: tx.Refs()}
	others, err := k.all("")
	warn(r.e, err)
	warn(r.e, k.save(w))
	// A host has one transaction at a time.
	warn(r.e, k.removeEnded(others, func(host string, on calls.TxRef) bool {
		mine, has := w.Hosts[host]
		return has && mine.ID != on.ID
	}))
	tx.Moved = k.follow(w, func(err error) { warn(r.e, err) })
	return func() {
		fates := map[string]HostOutcome{}
		for _, o := range r.report.Outcomes {
			fates[o.Host] = o
		}
		maps.DeleteFunc(w.Hosts, endedBy(fates)) // leaveOpen stores the tokens of pending hosts
		if len(w.Hosts) == 0 {
			warn(r.e, k.remove(w))
			return
		}
		warn(r.e, k.save(w))
	}
}

// follow returns a function that saves the tokens whenever a host has a new one.
func (k TokenStore) follow(w tokens, onError func(error)) func(host string, to calls.TxRef) {
	var mu sync.Mutex
	return func(host string, to calls.TxRef) {
		mu.Lock()
		defer mu.Unlock()
		w.Hosts[host] = to
		onError(k.save(w))
	}
}
