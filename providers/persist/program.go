package persist

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/netmanager"
	"github.com/fabricform/fabricform/resource"
)

// KindProgram is the kind of the copy of this program that a host runs at boot: the helper that apply uploaded may be in the home of a
// user. Each fabric has a copy of its own, so that fabrics that were applied by different builds do not share one, and a fabric that is
// destroyed removes its own.
const KindProgram = "program"

// Program is the copy of one fabric.
type Program struct {
	Fabric string `json:"fabric"`
}

// Copy compares the copy with this program.
type Copy struct {
	Path      string
	Now, Want string // digests; "" if there is none
}

// Absent reports whether the copy is missing.
func (c *Copy) Absent() bool { return c.Now == "" }

// self is this program, also if its file was removed or replaced since it was started (proc_pid_exe(5)).
const self = "/proc/self/exe"

func copyPath(fabric string) string { return host.ProgramFolder + "/" + netmanager.Base(fabric) }

func copyAtom(fabric string) resource.Atom {
	return resource.NewAtom(KindProgram, "copy", copyPath(fabric))
}

func sum(text []byte) string {
	s := sha256.Sum256(text)
	return hex.EncodeToString(s[:])
}

// asCopy returns a file with the mode of a copy.
func asCopy(text []byte) facts.File {
	return facts.File{FileStat: host.FileStat{Mode: 0o755}, Text: string(text)}
}

// copied is a copy as it was found.
type copied struct {
	Other  string      `json:"other,omitempty"` // what it is, if it is not a regular file
	Digest string      `json:"digest,omitempty"`
	Mode   fs.FileMode `json:"mode,omitempty"`
	// Packed is the content, compressed, in a backup only.
	Packed []byte `json:"packed,omitempty"`
	text   []byte
}

// readCopy reads the file at a path; nil if there is none.
func readCopy(ctx context.Context, r host.Reader, at string) (*copied, error) {
	stat, err := r.Stat(ctx, at)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", at, err)
	case !stat.Mode.IsRegular():
		return &copied{Other: stat.Mode.Type().String()}, nil
	}
	text, err := r.ReadFile(ctx, at)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", at, err)
	}
	f := facts.File{FileStat: stat, Text: string(text)}
	return &copied{Digest: f.Digest(), Mode: stat.Mode.Perm(), text: text}, nil
}

// whyOpen returns why others than root could replace a copy; "" if they could not.
func whyOpen(ctx context.Context, r host.Reader) string {
	for dir := host.ProgramFolder; ; dir = path.Dir(dir) {
		stat, err := r.Stat(ctx, dir)
		switch {
		case errors.Is(err, fs.ErrNotExist) && dir == host.ProgramFolder: // apply makes it
		case err != nil:
			return err.Error()
		case !stat.Mode.IsDir():
			return dir + " is not a folder"
		case stat.UID != 0:
			return fmt.Sprintf("%s belongs to the user %d: give it to root", dir, stat.UID)
		case stat.Mode.Perm()&0o022 != 0:
			return fmt.Sprintf("others than root can write to %s: run `chmod go-w %s`", dir, dir)
		}
		if dir == "/" {
			return ""
		}
	}
}

type programs struct{}

// Part holds this program and its copies.
func (programs) Part() facts.AnyPart { return bootPart }

// Gather reads the copies, and the file with the hash of ours.
func (programs) Gather(ctx context.Context, r host.Reader, look resource.Look[Program]) error {
	var copies []string
	for _, want := range look.Wants {
		copies = append(copies, copyPath(want.Fabric))
	}
	for _, a := range look.Atoms {
		if (programs{}).Names(a) {
			copies = append(copies, a.Value())
		}
	}
	netmanager.Gather(ctx, r, look.Snapshot)
	if err := look.Snapshot.ReadFiles(ctx, r, bootFolder); err != nil {
		return err
	}
	return gatherBoot(ctx, r, look.Snapshot, len(look.Wants) > 0, copies...)
}

// Observe returns an error if the file is not a copy that we made.
func (programs) Observe(snap *facts.Snapshot, want Program) (*Copy, error) {
	boot := bootPart.Of(snap)
	got := &Copy{Path: copyPath(want.Fabric)}
	if nobody(snap) || !boot.Systemd {
		return got, nil // the notes on the files say so
	}
	if !plainName().MatchString(want.Fabric) {
		return nil, fmt.Errorf("fabric %q: the name cannot be part of a file name; rename the fabric", want.Fabric)
	}
	if boot.Open != "" {
		return nil, fmt.Errorf("systemd runs %s as root at boot: %s; or set `persist = false`", got.Path, boot.Open)
	}
	f := boot.Copies[got.Path]
	got.Now, got.Want = f.Digest, boot.Digest
	switch {
	case f.Other != "":
		return nil, fmt.Errorf("%s is not a regular file (%s), and fabricform did not make it: move it away", got.Path, f.Other)
	case f.Digest != "" && f.Digest != got.Want && !slices.ContainsFunc([]string{sumPath(want.Fabric), classesPath(want.Fabric)}, func(beside string) bool {
		return netmanager.Ours(snap.Files[beside].Text, want.Fabric)
	}):
		return nil, fmt.Errorf("%s already exists, but fabricform did not write it for the fabric %q: move it away", got.Path, want.Fabric)
	}
	return got, nil
}

// Diff returns a change if the copy is missing or damaged, or if another build made it.
func (programs) Diff(want Program, got *Copy) []resource.Change {
	if got == nil || got.Now == got.Want || got.Want == "" {
		return nil
	}
	c := copyAtom(want.Fabric).Change(got.Now, got.Want)
	c.Stage = resource.StagePersist
	return []resource.Change{c}
}

// Stage is the stage of the files that start the copy.
func (programs) Stage() string { return resource.StagePersist }

// Apply copies this program.
func (programs) Apply(ctx context.Context, h host.Host, want Program, changes []resource.Change) error {
	for range changes {
		text, err := h.ReadFile(ctx, self)
		if err != nil {
			return fmt.Errorf("read this program: %w", err)
		}
		if err := putCopy(h, copyPath(want.Fabric), text, 0o755); err != nil {
			return err
		}
	}
	return nil
}

func putCopy(h host.Host, at string, text []byte, mode fs.FileMode) error {
	if err := h.PutFolder(path.Dir(at)); err != nil {
		return err
	}
	return h.PutFile(at, text, mode)
}

// removeCopy also removes the folder, unless another fabric has a copy in it.
func removeCopy(ctx context.Context, h host.Host, at string) error {
	if err := h.RemoveFile(at); err != nil {
		return err
	}
	if names, err := h.ReadDir(ctx, path.Dir(at)); err != nil || len(names) > 0 {
		return nil //nolint:nilerr // the folder does not exist
	}
	return h.RemoveFile(path.Dir(at))
}

// Names reports whether the atom is a copy in our folder.
func (programs) Names(a resource.Atom) bool {
	return a.Thing() == "copy" && path.Dir(a.Value()) == host.ProgramFolder && host.OwnFile(a.Value()) == nil
}

// Claims reports whether the atom is the fabric's copy.
func (programs) Claims(_ *facts.Snapshot, want Program, a resource.Atom) bool {
	return a == copyAtom(want.Fabric)
}

// Undo never affects the operator's connection.
func (programs) Undo(snap *facts.Snapshot, a resource.Atom, to string) (resource.Change, string) {
	return a.Change(bootPart.Of(snap).Copies[a.Value()].Digest, to), ""
}

// ApplyUndo removes the copy: there was none before ours.
func (programs) ApplyUndo(ctx context.Context, h host.Host, _ *facts.Snapshot, a resource.Atom, to string) error {
	if to != "" {
		return fmt.Errorf("cannot restore %s: the backup has no earlier file", a)
	}
	return removeCopy(ctx, h, a.Value())
}

// copyRestorer restores copies exactly. A backup holds the content, because the rollback may be made by another build.
type copyRestorer struct {
	resource.ValueRestorer[*copied] // by path; nil if there was none
}

// Restorer returns a restorer of copies.
func (programs) Restorer() resource.Restorer {
	return copyRestorer{resource.ValueRestorer[*copied]{Of: "copies of fabricform", Read: readCopies,
		Lists: func(at string, f *copied) []resource.Item {
			if f == nil {
				return nil
			}
			return []resource.Item{{Key: at, State: f.Digest + f.Other, Shown: f.Digest + f.Other,
				As: resource.Change{Attribute: at, Atom: resource.NewAtom(KindProgram, "copy", at)}}}
		}}}
}

func readCopies(ctx context.Context, r host.Reader, paths []string) (map[string]*copied, error) {
	out := map[string]*copied{}
	for _, at := range paths {
		f, err := readCopy(ctx, r, at)
		if err != nil {
			return nil, err
		}
		out[at] = f
	}
	return out, nil
}

// Name names the part.
func (copyRestorer) Name() string { return KindProgram }

// Save reads the copies with their content.
func (k copyRestorer) Save(ctx context.Context, r host.Reader, atoms []resource.Atom) (json.RawMessage, error) {
	var paths []string
	for _, a := range atoms {
		if !(programs{}).Names(a) {
			return nil, fmt.Errorf("%q: this build cannot change such a value", a)
		}
		paths = append(paths, a.Value())
	}
	copies, err := readCopies(ctx, r, paths)
	if err != nil {
		return nil, fmt.Errorf("make a backup: %w", err)
	}
	for _, f := range copies {
		if f == nil || f.Other != "" {
			continue
		}
		var packed bytes.Buffer
		z, _ := gzip.NewWriterLevel(&packed, gzip.BestSpeed) // the level is valid
		_, err := z.Write(f.text)
		if err := errors.Join(err, z.Close()); err != nil {
			return nil, fmt.Errorf("make a backup: %w", err)
		}
		f.Packed = packed.Bytes()
	}
	return json.Marshal(copies)
}

// Restore writes or removes the copies that differ.
func (k copyRestorer) Restore(ctx context.Context, h host.Host, part json.RawMessage) ([]string, error) {
	was, err := k.Decode(part)
	if err != nil {
		return nil, err
	}
	var errs []error
	var left []string
	for _, at := range slices.Sorted(maps.Keys(was)) {
		errs = append(errs, restoreCopy(ctx, h, at, was[at]))
		if now, err := readCopy(ctx, h, at); err != nil || !sameCopy(now, was[at]) {
			left = append(left, at+" is not as it was")
		}
	}
	return left, errors.Join(errs...)
}

func restoreCopy(ctx context.Context, h host.Host, at string, was *copied) error {
	now, err := readCopy(ctx, h, at)
	switch {
	case err != nil:
		return err
	case was == nil: // a reset during a write leaves a temporary file
		return removeCopy(ctx, h, at)
	case sameCopy(now, was):
		return nil
	case was.Packed == nil:
		return fmt.Errorf("restore %s: the backup does not have its content", at)
	}
	z, err := gzip.NewReader(bytes.NewReader(was.Packed))
	if err != nil {
		return fmt.Errorf("restore %s: %w", at, err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		return fmt.Errorf("restore %s: %w", at, err)
	}
	return putCopy(h, at, text, was.Mode)
}

func sameCopy(a, b *copied) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Digest == b.Digest && a.Other == b.Other
}
