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
	"github.com/fabricform/fabricform/host/file"
	"github.com/fabricform/fabricform/resource"
)

// backupVersion is the version of the file format. A helper rejects other versions.
const backupVersion = 1

// maxBackup limits the size of a backup: a device with 10,000 routes takes about 2 MiB.
const maxBackup = 64 << 20

// Backup is the state of a host from before a transaction, as far as the transaction can affect it.
type Backup struct {
	Version int          `json:"version"`
	Parts   []BackupPart `json:"parts"` // in the order of the kinds, in which they are restored
	Files   []File       `json:"files,omitempty"`
	// Forward is the work of the persist stage, so that it can be completed after a reset. It is part of
	// the backup so that it is on disk, complete and with a hash, before anything is changed.
	Forward json.RawMessage `json:"forward,omitempty"`
	// Applied is what the host is once the transaction is committed (resource.Applied); empty leaves what the host keeps.
	Applied json.RawMessage `json:"applied,omitempty"`
	// Atoms are the values that the transaction may set. Path is how the operator reached the host; nil in backups of
	// earlier builds.
	Atoms []resource.Atom `json:"atoms,omitempty"`
	Path  *ManagementPath `json:"path,omitempty"`
	// Stays are those of Atoms whose values the transaction leaves as they are. Earlier builds did not store them.
	Stays []resource.Atom `json:"stays,omitempty"`

	// WasCommitted is true if the transaction was committed. Committed is the state then; nil if it was not stored.
	WasCommitted bool    `json:"-"`
	Committed    *Backup `json:"-"`
	// Prepared is the state when all changes of the running system were made; nil if it is not known. Unwritten is true
	// if the persist stage has written nothing since.
	Prepared  *Backup `json:"-"`
	Unwritten bool    `json:"-"`
	Foreign   bool    `json:"-"` // revert what others changed since then, too
	// Reversal is what Restore did.
	Reversal Reversal `json:"-"`
}

// BackupPart is the state that one restorer saved. Only that restorer reads it.
type BackupPart struct {
	Name string          `json:"room"` // of the restorer
	Data json.RawMessage `json:"data"`
}

// TakeBackup reads the state that changes of the atoms can affect, and the files at the paths. It changes nothing.
func TakeBackup(ctx context.Context, r host.Reader, kinds resource.Kinds, atoms []resource.Atom, files []string) (*Backup, error) {
	restorers, by, err := kinds.Restorers(atoms)
	if err != nil {
		return nil, err
	}
	b := &Backup{Version: backupVersion, Atoms: atoms}
	for _, k := range restorers {
		data, err := k.Save(ctx, r, by[k.Name()])
		if err != nil {
			return nil, err
		}
		b.Parts = append(b.Parts, BackupPart{k.Name(), data})
	}
	for _, path := range files {
		f, err := backUpFile(path)
		if err != nil {
			return nil, fmt.Errorf("back up %s: %w", path, err)
		}
		b.Files = append(b.Files, f)
	}
	return b, nil
}

// Again reads what the backup covers as it is now. It changes nothing.
func (b *Backup) Again(ctx context.Context, r host.Reader, kinds resource.Kinds) (*Backup, error) {
	now := &Backup{Version: backupVersion}
	for _, p := range b.Parts {
		k, ok := kinds.RestorerOf(p.Name)
		if !ok {
			return nil, fmt.Errorf("this helper cannot read the changes of %s", p.Name)
		}
		data, err := k.Again(ctx, r, p.Data)
		if err != nil {
			return nil, err
		}
		now.Parts = append(now.Parts, BackupPart{p.Name, data})
	}
	return now, nil
}

// Changed returns the values that the transaction makes, changes or removes.
func (b *Backup) Changed() []resource.Atom {
	return slices.DeleteFunc(slices.Clone(b.Atoms), func(a resource.Atom) bool { return slices.Contains(b.Stays, a) })
}

// Restore restores all parts and files, except for what others changed and what stays (Reverse). It continues after a
// failure. left has one line for each remaining difference; no line and no error mean that the host is as it should be.
func (b *Backup) Restore(ctx context.Context, h host.Host, kinds resource.Kinds) (left []string, err error) {
	ctx = resource.WithChanged(ctx, b.Changed())
	to, rev, err := b.reverse(ctx, h, kinds)
	switch {
	case err == nil:
		b.Reversal = rev
	case b.Committed != nil: // what others changed must not be lost because it cannot be read
		return nil, err
	default: // the host must be restored, whatever else is wrong
		to, err = b, nil
	}
	found := make([]struct {
		left []string
		err  error
	}, len(to.Parts))
	for i, p := range to.Parts {
		k, ok := kinds.RestorerOf(p.Name)
		if !ok {
			found[i].err = fmt.Errorf("this helper cannot restore the changes of %s", p.Name)
			continue
		}
		found[i].left, found[i].err = k.Restore(ctx, h, p.Data)
		if _, wakes := k.(resource.Waker); !wakes {
			continue
		}
		for j, earlier := range to.Parts[:i] {
			if k, ok := kinds.RestorerOf(earlier.Name); ok {
				found[j].left, found[j].err = k.Restore(ctx, h, earlier.Data)
			}
		}
	}
	for _, f := range found {
		left, err = append(left, f.left...), errors.Join(err, f.err)
	}
	for _, f := range b.Files {
		if e := f.restore(); e != nil {
			err = errors.Join(err, fmt.Errorf("restore %s: %w", f.Path, e))
		}
		if now, e := backUpFile(f.Path); e != nil || !now.equal(f) {
			left = append(left, f.Path+" is not as it was")
		}
	}
	return left, err
}

// backupName keeps the suffix of earlier builds, whose files a host may still have.
func backupName(id string) string { return id + ".snapshot" }

func preparedName(id string) string { return id + ".prepared" }

func committedName(id string) string { return id + ".committed" }

// SaveBackup writes the backup to disk and its hash into the transaction. Only then Live allows changes. It works
// once, while the transaction is armed.
func (s *Store) SaveBackup(id, token string, b *Backup) (*Transaction, error) {
	raw, err := json.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("save the backup: %w", err)
	}
	sum := sha256.Sum256(raw)
	var t *Transaction
	err = s.withLock(func(now Moment) error {
		before, err := s.Read(id)
		if err != nil {
			return err
		}
		if before.State != Armed || before.Backup != "" || before.Token != token {
			return errors.New("the transaction belongs to another client, or already has a backup")
		}
		if err := s.replace(filepath.Join(s.dir, backupName(id)), raw, 0o600); err != nil {
			return err
		}
		t, err = s.stepLocked(id, token, Beat, func(t *Transaction) {
			t.Backup, t.BackupHash, t.Unwritten = backupName(id), hex.EncodeToString(sum[:]), true
		}, now)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("save the backup: %w", err)
	}
	return t, nil
}

// ReadBackup reads the backup of a transaction and verifies its hash. It returns nil if nothing was changed. The backup of
// a committed transaction has the state at its commit, that of a prepared one the state then.
func (s *Store) ReadBackup(t *Transaction) (*Backup, error) {
	if t.Backup == "" {
		return nil, nil
	}
	b, err := s.readBackup(t.ID, t.Backup, t.BackupHash)
	if err != nil {
		return nil, err
	}
	if b.WasCommitted = t.State == Committed || t.Rollback != nil; b.WasCommitted && t.CommittedHash != "" {
		b.Committed, err = s.readBackup(t.ID, committedName(t.ID), t.CommittedHash)
	}
	if b.Unwritten = t.Unwritten; !b.WasCommitted && t.PreparedHash != "" && !t.Rebooted {
		b.Prepared, _ = s.readBackup(t.ID, preparedName(t.ID), t.PreparedHash) // the host can be restored without it
	}
	b.Foreign = t.Rollback != nil && t.Rollback.Foreign
	return b, err
}

func (s *Store) readBackup(id, name, hash string) (*Backup, error) {
	path := filepath.Join(s.dir, name)
	if info, err := os.Stat(path); err == nil && info.Size() > maxBackup {
		return nil, fmt.Errorf("read the backup: %s is larger than 64 MiB", path)
	}
	raw, err := file.Read(path)
	if err != nil {
		return nil, fmt.Errorf("read the backup: %w", err)
	}
	if sum := sha256.Sum256(raw); hex.EncodeToString(sum[:]) != hash {
		return nil, fmt.Errorf("read the backup: %s does not match the hash in transaction %s", path, id)
	}
	return decodeBackup(raw)
}

func decodeBackup(raw []byte) (*Backup, error) {
	var b Backup
	if err := json.Unmarshal(raw, &b); err != nil {
		return nil, fmt.Errorf("read the backup: %w", err)
	}
	if b.Version != backupVersion {
		return nil, fmt.Errorf("the backup has version %d, but this build supports %d: use the release that made it",
			b.Version, backupVersion)
	}
	if slices.ContainsFunc(b.Files, func(f File) bool { return !filepath.IsAbs(f.Path) || filepath.Clean(f.Path) != f.Path }) {
		return nil, errors.New("the backup contains a relative path")
	}
	return &b, nil
}
