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

// snapshotVersion is the form of the file; a helper refuses what it does not know.
const snapshotVersion = 1

// maxSnapshot bounds what is read back: a device with 10,000 routes is about 2 MiB.
const maxSnapshot = 64 << 20

// Snapshot is what a host was, as far as a transaction can reach.
type Snapshot struct {
	Version int    `json:"version"`
	Parts   []Part `json:"parts"` // in the order of the kinds, which is that of restoring
	Files   []File `json:"files,omitempty"`
	// Forward is what the persist stage does, for whoever has to end it after a reset. It stands here
	// so that it is on the disk, whole and with a hash, before anything is changed.
	Forward json.RawMessage `json:"forward,omitempty"`
}

// Part is one room's; only its keeper reads it.
type Part struct {
	Room string          `json:"room"`
	Data json.RawMessage `json:"data"`
}

// Take reads what changes of the atoms can reach, and the files of those paths. It changes nothing.
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

// Restore brings back all parts and files, past any that fails. left says on one line each what
// still differs; no line and no error mean that the host is as it was.
func (s *Snapshot) Restore(ctx context.Context, h host.Host, kinds resource.Kinds) (left []string, err error) {
	for _, p := range s.Parts {
		k, ok := kinds.KeeperOf(p.Room)
		if !ok {
			err = errors.Join(err, fmt.Errorf("this helper cannot bring back what %s changed", p.Room))
			continue
		}
		lines, e := k.Restore(ctx, h, p.Data)
		left, err = append(left, lines...), errors.Join(err, e)
	}
	for _, f := range s.Files {
		if e := f.restore(); e != nil {
			err = errors.Join(err, fmt.Errorf("bring back %s: %w", f.Path, e))
		}
		if now, e := takeFile(f.Path); e != nil || !now.equal(f) {
			left = append(left, f.Path+" is not as it was")
		}
	}
	return left, err
}

func snapshotName(id string) string { return id + ".snapshot" }

// Keep puts the snapshot on the disk and its hash into the transaction; only then is a change
// allowed (Live). It goes once, while the transaction is armed.
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
			return errors.New("the transaction is not this client's, or is further than its snapshot")
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

// Snapshot reads a transaction's, which must be the one that was kept; nil where nothing was changed.
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
		return nil, fmt.Errorf("read the snapshot: %s is not what transaction %s kept", path, t.ID)
	}
	return decodeSnapshot(raw)
}

func decodeSnapshot(raw []byte) (*Snapshot, error) {
	var snap Snapshot
	if err := json.Unmarshal(raw, &snap); err != nil {
		return nil, fmt.Errorf("read the snapshot: %w", err)
	}
	if snap.Version != snapshotVersion {
		return nil, fmt.Errorf("the snapshot has version %d, this build knows %d: use the release that took it", snap.Version, snapshotVersion)
	}
	if slices.ContainsFunc(snap.Files, func(f File) bool { return !filepath.IsAbs(f.Path) || filepath.Clean(f.Path) != f.Path }) {
		return nil, errors.New("the snapshot names a file without its whole path")
	}
	return &snap, nil
}
