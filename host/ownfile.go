package host

import (
	"fmt"
	"path/filepath"
	"strings"
)

// NCCLConf is the only file that we write without "fabricform" in its name, because NCCL reads no other file by default.
const NCCLConf = "/etc/nccl.conf"

// OwnFile returns an error unless a path is one of our own configuration files. We write and remove only NCCLConf and
// files below /etc with our name in theirs, so that a mistake of a caller cannot affect the files of others.
func OwnFile(path string) error {
	if path == NCCLConf {
		return nil
	}
	if filepath.Clean(path) != path || !strings.HasPrefix(path, "/etc/") || !strings.Contains(filepath.Base(path), "fabricform") {
		return fmt.Errorf("%q is not one of fabricform's own configuration files", path)
	}
	return nil
}
