package facts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/host"
)

// SensitiveMark begins a line of nccl.conf that names a variable whose value is sensitive, and a salt. The salt keeps
// the file's digest, which plans show, from being that of a value that can be guessed.
const SensitiveMark = "# sensitive: "

// SensitiveIn returns the salts of the variables that a text marks as sensitive.
func SensitiveIn(text string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(text) {
		if mark, is := strings.CutPrefix(line, SensitiveMark); is {
			name, salt, _ := strings.Cut(strings.TrimSpace(mark), " ")
			out[name] = salt
		}
	}
	return out
}

// Masked returns the snapshot without the sensitive values in files. redact removes those that the caller knows.
func (s *Snapshot) Masked(redact func(string) string) *Snapshot {
	out := *s
	out.Files = maps.Clone(s.Files)
	for at, f := range out.Files {
		marked := SensitiveIn(f.Text)
		var text strings.Builder
		for line := range strings.Lines(f.Text) {
			name, _, set := strings.Cut(line, "=")
			if mark, is := strings.CutPrefix(line, SensitiveMark); is {
				name, _, _ = strings.Cut(strings.TrimSpace(mark), " ")
				line = SensitiveMark + name + "\n"
			} else if _, hide := marked[strings.TrimSpace(name)]; set && hide {
				line = name + "=(sensitive)\n" // as fabric.Sensitive, of a package that this one does not know
			}
			text.WriteString(line)
		}
		f.Text = redact(text.String())
		out.Files[at] = f
	}
	return &out
}

// maxFile bounds a configuration file of ours.
const maxFile = 1 << 20

// File is one of fabricform's own configuration files. Files of others may hold secrets and are never in a snapshot,
// with one exception: nccl.conf, which holds only settings, and which NCCL reads whoever wrote it. Text is empty if
// it is not a regular file.
type File struct {
	host.FileStat
	Text string `json:"text"`
}

// Digest identifies a file's content, mode and owner. Root as the owner is left out.
func (f File) Digest() string {
	sum := sha256.Sum256([]byte(f.Text))
	out := fmt.Sprintf(digestKind+"%s,%04o", hex.EncodeToString(sum[:8]), f.Mode.Perm())
	if f.UID != 0 || f.GID != 0 {
		out += fmt.Sprintf(",owner=%d:%d", f.UID, f.GID)
	}
	return out
}

const digestKind = "sha256:"

// CutDigest splits what Digest returned into the digest of the content and the rest. is reports whether it is one.
func CutDigest(value string) (content, rest string, is bool) {
	content, rest, is = strings.Cut(value, ",")
	return content, rest, is && strings.HasPrefix(value, digestKind)
}

// ReadFiles reads our own files in the folders. A folder that does not exist is absent from Folders.
func (s *Snapshot) ReadFiles(ctx context.Context, r host.Reader, folders ...string) error {
	for _, dir := range folders {
		if slices.Contains(s.Folders, dir) {
			continue // another kind has read it
		}
		names, err := r.ReadDir(ctx, dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("list %s: %w", dir, err)
		}
		s.Folders = append(s.Folders, dir)
		for _, name := range names {
			at := path.Join(dir, name)
			if host.OwnFile(at) != nil || strings.HasPrefix(name, ".") {
				continue
			}
			f, err := FileAt(ctx, r, at)
			if err != nil {
				return err
			}
			if f == nil || !f.Mode.IsRegular() && at != host.NCCLConf {
				continue
			}
			if s.Files == nil {
				s.Files = map[string]File{}
			}
			s.Files[at] = *f
		}
	}
	return nil
}

// FilesAt reads the files at the paths. A path without a file has a nil value.
func FilesAt(ctx context.Context, r host.Reader, paths []string) (map[string]*File, error) {
	out := map[string]*File{}
	for _, at := range paths {
		f, err := FileAt(ctx, r, at)
		if err != nil {
			return nil, err
		}
		out[at] = f
	}
	return out, nil
}

// FileAt reads the file at a path; nil if there is none. Only a regular file has text.
func FileAt(ctx context.Context, r host.Reader, at string) (*File, error) {
	stat, err := r.Stat(ctx, at)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", at, err)
	case !stat.Mode.IsRegular():
		return &File{FileStat: stat}, nil
	}
	text, err := r.ReadFile(ctx, at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // removed meanwhile
	}
	if err == nil && len(text) > maxFile {
		err = errors.New("larger than 1 MiB, the limit for configuration files")
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", at, err)
	}
	return &File{stat, string(text)}, nil
}
