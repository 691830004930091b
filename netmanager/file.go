package netmanager

import (
	"io/fs"
	"path"
	"strings"
)

// File is a file that fabricform writes. A folder has no text and is created only if it is missing.
type File struct {
	Path   string
	Mode   fs.FileMode
	Text   string
	Folder bool
}

// Header is the head of our files. Its first line marks the file, the second is for readers.
func Header(fabric string) string {
	return mark(fabric) + "# What is written here by hand is undone by its next apply.\n"
}

// mark names the fabric that owns a file. Earlier and later builds know their files by it, so it does not change.
func mark(fabric string) string { return "# Made by fabricform for the fabric \"" + fabric + "\".\n" }

// Ours reports whether this fabric owns a file with that text, whichever build wrote it.
func Ours(text, fabric string) bool {
	return strings.HasPrefix(strings.TrimPrefix(text, "#!/bin/sh\n"), mark(fabric))
}

// Base is the common part of the names of a fabric's files.
func Base(fabric string) string { return "fabricform-" + fabric }

// in returns the files of a folder.
func in(files []File, folder string) []File {
	var out []File
	for _, f := range files {
		if path.Dir(f.Path) == folder {
			out = append(out, f)
		}
	}
	return out
}

// namesAfter returns the names that follow a word in our files, one for each line.
func namesAfter(text, word string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if name, is := strings.CutPrefix(line, word); is {
			out = append(out, strings.Trim(strings.TrimSpace(name), `"`))
		}
	}
	return out
}
