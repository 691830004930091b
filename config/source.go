package config

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
)

// SourceID names the text that a fabric was read from: its commit, where it is in git, and a digest
// of the files, which also tells changes that are not committed.
func SourceID(path string) string {
	sum := sha256.New()
	names, err := Files(path)
	if err != nil {
		return "unknown"
	}
	for _, name := range names {
		if src, err := os.ReadFile(name); err == nil {
			sum.Write([]byte(filepath.Base(name) + "\x00"))
			sum.Write(src)
		}
	}
	digest := "files " + hex.EncodeToString(sum.Sum(nil)[:6])
	if commit := commitOf(path); commit != "" {
		return "commit " + commit + ", " + digest
	}
	return digest
}

// commitOf reads the commit that is checked out around a path; "" outside of git. It reads git's
// files (gitrepository-layout(5)) rather than start a program.
func commitOf(path string) string {
	dir, err := filepath.Abs(path)
	if err != nil {
		return ""
	}
	for {
		head, err := os.ReadFile(filepath.Join(dir, ".git", "HEAD"))
		if err == nil {
			return resolveHead(filepath.Join(dir, ".git"), strings.TrimSpace(string(head)))
		}
		if dir == filepath.Dir(dir) {
			return ""
		}
		dir = filepath.Dir(dir)
	}
}

func resolveHead(git, head string) string {
	ref, symbolic := strings.CutPrefix(head, "ref: ")
	if !symbolic {
		return abbreviated(head)
	}
	if raw, err := os.ReadFile(filepath.Join(git, filepath.FromSlash(ref))); err == nil {
		return abbreviated(strings.TrimSpace(string(raw)))
	}
	packed, err := os.ReadFile(filepath.Join(git, "packed-refs"))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(packed)) {
		if commit, name, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name == ref {
			return abbreviated(commit)
		}
	}
	return ""
}

func abbreviated(commit string) string {
	if len(commit) < 12 || strings.Trim(commit, "0123456789abcdef") != "" {
		return ""
	}
	return commit[:12]
}
