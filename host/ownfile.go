package host

import (
	"fmt"
	"path/filepath"
	"strings"
)

// NCCLConf is the only file that we write without "fabricform" in its name, because NCCL reads no other file by default.
const NCCLConf = "/etc/nccl.conf"

// ProgramFolder holds copies of this program that hosts run at boot.
const ProgramFolder = "/usr/local/lib/fabricform"

// OwnFile returns an error unless a path is one of our own files. We write and remove only NCCLConf, and files below /etc or in
// ProgramFolder with our name in theirs, so that a mistake of a caller cannot affect the files of others.
func OwnFile(path string) error {
	if path == NCCLConf {
		return nil
	}
	ours := strings.HasPrefix(path, "/etc/") || filepath.Dir(path) == ProgramFolder
	if filepath.Clean(path) != path || !ours || !strings.Contains(filepath.Base(path), "fabricform") {
		return fmt.Errorf("%q is not one of fabricform's own configuration files", path)
	}
	return nil
}

// ownFolder returns an error unless we may make and remove the folder.
func ownFolder(path string) error {
	if path != ProgramFolder && (filepath.Clean(path) != path || !strings.HasPrefix(path, "/etc/")) {
		return fmt.Errorf("%q is not a folder below /etc", path)
	}
	return nil
}
