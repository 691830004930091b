//go:build linux

package checkpoint

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fabricform/fabricform/host/file"
)

// Dir is the directory of a host's transactions, beside the ownership records.
const Dir = "/var/lib/fabricform/transactions"

// maxFinished is the number of finished transactions that a host retains, each with its backup.
const maxFinished = 5

// Store holds the transactions of a host: one file each, replaced atomically under one lock (flock). It is safe
// for concurrent use by any number of processes.
type Store struct {
	dir     string
	clock   Clock
	replace func(path string, text []byte, perm fs.FileMode) error // replaces a file atomically
}

// NewStore returns the store in a directory, usually Dir, with a clock, usually Now. It does no I/O.
func NewStore(dir string, clock Clock) *Store {
	return &Store{filepath.Clean(dir), clock, file.Replace}
}

// Request opens a transaction.
type Request struct {
	Fabric string
	Plan   string
	Run    string   // names the apply on all of its hosts
	Hosts  []string // of the apply, MaxHosts at most
	Holder Holder
	Server netip.Addr    // the host's address that the client connected to; invalid if unknown
	Lease  time.Duration // 0 means DefaultLease
	Helper *Helper       // the process to stop before a revert; nil if there is none
}

// Begin opens a transaction and starts its lease. The error is a *HeldError if another transaction is open.
func (s *Store) Begin(r Request) (*Transaction, error) {
	if r.Lease == 0 {
		r.Lease = DefaultLease
	}
	var t *Transaction
	err := s.withLock(func(now Moment) error {
		all, err := s.recordReboots(now)
		if err != nil {
			return err
		}

		number := 1
		for _, old := range all {
			if old.State.Open() {
				return newHeldError(old, now)
			}
			number = counter(old.ID) + 1
		}
		if err := s.prune(all, maxFinished); err != nil {
			return err
		}

		t = &Transaction{
			Version: transactionVersion, ID: fmt.Sprintf("%06d-%s", number%1000000, random(4)), State: Armed,
			Fabric: r.Fabric, Plan: r.Plan,
			Holder: Holder{clip(r.Holder.User), clip(r.Holder.From), clip(r.Holder.Client)}, Server: r.Server,
			Token: random(16), Helper: r.Helper,
			Run: r.Run, Hosts: r.Hosts,
			Since: now.Wall.UTC(), Boot: now.Boot, Lease: r.Lease, Deadline: now.Uptime + r.Lease,
		}
		if err := t.check(t.ID); err != nil {
			return err
		}

		if err := s.reserve(); err != nil {
			return err
		}
		if err := s.write(t); err != nil {
			return errors.Join(err, os.Remove(s.reservePath()))
		}
		return nil
	})
	if err != nil {
		return nil, wrap("open a transaction", err)
	}
	return t, nil
}

// wrap adds context to an error, except to a HeldError, which is an answer and not a failure.
func wrap(what string, err error) error {
	var h *HeldError
	if err == nil || errors.As(err, &h) {
		return err
	}
	return fmt.Errorf("%s: %w", what, err)
}

// counter returns the first part of an identifier.
func counter(id string) int {
	n := 0
	for _, c := range id[:6] {
		n = n*10 + int(c-'0')
	}
	return n
}

func random(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return hex.EncodeToString(b)
}

// Read reads a transaction. It does not need the lock, because files are replaced atomically.
func (s *Store) Read(id string) (*Transaction, error) {
	if !identifier().MatchString(id) {
		return nil, fmt.Errorf("read transaction %q: not a transaction ID", id)
	}
	path := filepath.Join(s.dir, id+".json")
	if info, err := os.Stat(path); err == nil && info.Size() > maxFile {
		return nil, fmt.Errorf("read transaction %s: %s is larger than 1 MiB", id, path)
	}
	raw, err := file.Read(path)
	if err != nil {
		return nil, fmt.Errorf("read transaction: %w", err)
	}
	t, err := decodeTransaction(id, raw)
	if err != nil {
		return nil, fmt.Errorf("read transaction %s: %w; look at %s", id, err, path)
	}
	return t, nil
}

// readNow reads a transaction, and then the clock, which it returns even if the transaction cannot be read. The other way round, a
// heartbeat between the two would put the deadline further ahead than a whole lease, which counts as expired.
func (s *Store) readNow(id string) (*Transaction, Moment, error) {
	t, unread := s.Read(id)
	now, err := s.clock()
	return t, now, errors.Join(unread, err)
}

// List returns all transactions, the latest last. It does not wait for the lock.
func (s *Store) List() ([]*Transaction, error) {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list transactions: %w", err)
	}
	var out []*Transaction
	for _, e := range entries {
		id, is := strings.CutSuffix(e.Name(), ".json")
		if !is || !identifier().MatchString(id) {
			continue
		}
		t, err := s.Read(id)
		if errors.Is(err, fs.ErrNotExist) {
			continue // pruned meanwhile
		}
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b *Transaction) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}

// Pending returns the open transaction, or nil, and the time left on its lease.
func (s *Store) Pending() (*Transaction, time.Duration, error) {
	all, err := s.List()
	if err != nil {
		return nil, 0, err
	}
	now, err := s.clock() // after reading, as in readNow
	if err != nil {
		return nil, 0, err
	}
	for _, t := range all {
		if t.State.Open() {
			return t, t.Remaining(now), nil
		}
	}
	return nil, 0, nil
}
