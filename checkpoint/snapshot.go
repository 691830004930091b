//go:build linux

package checkpoint

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// snapshotVersion is the version of the file format. A helper rejects other versions.
const snapshotVersion = 1

// maxSnapshot limits the size of a snapshot: a device with 10,000 routes takes about 2 MiB.
const maxSnapshot = 64 << 20

// Snapshot is the state of a host, as far as a transaction can affect it.
type Snapshot struct {
	Version int    `json:"version"`
	Parts   []Part `json:"parts"` // in the order of the kinds, in which they are restored
	Files   []File `json:"files,omitempty"`
	// Forward is the work of the persist stage, so that it can be completed after a reset. It is part of
	// the snapshot so that it is on disk, complete and with a hash, before anything is changed.
	Forward json.RawMessage `json:"forward,omitempty"`
}

// Part is the state that one room saved. Only that room reads it.
type Part struct {
	Room string          `json:"room"`
	Data json.RawMessage `json:"data"`
}

// Take reads the state that changes of the atoms can affect, and the files at the paths. It changes nothing.
func Take(ctx context.Context, r host.Reader, kinds resource.Kinds, atoms []resource.Atom, files []string) (*Snapshot, error) {
	keepers, by, err := kinds.Keepers(atoms)
	if err != nil {
		return nil, err
	}
	s := &Snapshot{Version: snapshotVersion}
	for _, k := range keepers {
		data, err := k.Snapshot(ctx, r, by[k.Room()])
		if err != nil {
			return nil, err
		}
		s.Parts = append(s.Parts, Part{k.Room(), data})
	}
	for _, path := range files {
		f, err := takeFile(path)
		if err != nil {
			return nil, fmt.Errorf("take a snapshot of %s: %w", path, err)
		}
		s.Files = append(s.Files, f)
	}
	return s, nil
}

// Restore restores all parts and files, and continues after a failure. left has one line for each remaining
// difference; no line and no error mean that the host equals the snapshot.
func (s *Snapshot) Restore(ctx context.Context, h host.Host, kinds resource.Kinds) (left []string, err error) {
	for _, p := range s.Parts {
		k, ok := kinds.KeeperOf(p.Room)
		if !ok {
			err = errors.Join(err, fmt.Errorf("this helper cannot restore the changes of %s", p.Room))
			continue
		}
		lines, e := k.Restore(ctx, h, p.Data)
		left, err = append(left, lines...), errors.Join(err, e)
	}
	for _, f := range s.Files {
		if e := f.restore(); e != nil {
			err = errors.Join(err, fmt.Errorf("restore %s: %w", f.Path, e))
		}
		if now, e := takeFile(f.Path); e != nil || !now.equal(f) {
			left = append(left, f.Path+" is not as it was")
		}
	}
	return left, err
}

func snapshotName(id string) string { return id + ".snapshot" }

// Keep writes the snapshot to disk and its hash into the transaction. Only then Live allows changes. It works
// once, while the transaction is armed.
func (s *Store) Keep(id, token string, snap *Snapshot) (*Transaction, error) {
	raw, err := json.Marshal(snap)
	if err != nil {
		return nil, fmt.Errorf("keep the snapshot: %w", err)
	}
	sum := sha256.Sum256(raw)
	var t *Transaction
	err = s.locked(func(now Moment) error {
		before, err := s.Read(id)
		if err != nil {
			return err
		}
		if before.State != Armed || before.Snapshot != "" || before.Token != token {
			return errors.New("the transaction belongs to another client, or already has a snapshot")
		}
		if err := s.replace(filepath.Join(s.dir, snapshotName(id)), raw, 0o600); err != nil {
			return err
		}
		t, err = s.stepLocked(id, token, Beat, func(t *Transaction) {
			t.Snapshot, t.SnapshotHash = snapshotName(id), hex.EncodeToString(sum[:])
		}, now)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("keep the snapshot: %w", err)
	}
	return t, nil
}

// Snapshot reads the snapshot of a transaction and verifies its hash. It returns nil if nothing was changed.
func (s *Store) Snapshot(t *Transaction) (*Snapshot, error) {
	if t.Snapshot == "" {
		return nil, nil
	}
	path := filepath.Join(s.dir, t.Snapshot)
	if info, err := os.Stat(path); err == nil && info.Size() > maxSnapshot {
		return nil, fmt.Errorf("read the snapshot: %s is larger than 64 MiB", path)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the snapshot: %w", err)
	}
	if sum := sha256.Sum256(raw); hex.EncodeToString(sum[:]) != t.SnapshotHash {
		return nil, fmt.Errorf("read the snapshot: %s does not match the hash in transaction %s", path, t.ID)
	}
	return decodeSnapshot(raw)
}

func decodeSnapshot(raw []byte) (*Snapshot, error) {
	var snap Snapshot
	if err := json.Unmarshal(raw, &snap); err != nil {
		return nil, fmt.Errorf("read the snapshot: %w", err)
	}
	if snap.Version != snapshotVersion {
		return nil, fmt.Errorf("the snapshot has version %d, but this build supports %d: use the release that made it", snap.Version, snapshotVersion)
	}
	if slices.ContainsFunc(snap.Files, func(f File) bool { return !filepath.IsAbs(f.Path) || filepath.Clean(f.Path) != f.Path }) {
		return nil, errors.New("the snapshot contains a relative path")
	}
	return &snap, nil
}
