package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fabricform/fabricform/host/file"
)

// programFolders are where programs of the machine are, whatever PATH a login gave us; NVIDIA's
// perftest and iproute2 have folders of their own.
var programFolders = []string{"/usr/sbin", "/sbin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/local/bin", "/opt/mellanox/iproute2/sbin"}

// FindProgram finds a program of the machine: of a name, in the system's folders and in those of vendors' tools.
func FindProgram(name string) (string, error) {
	for _, dir := range programFolders {
		path := filepath.Join(dir, name)
		if unix.Access(path, unix.X_OK) == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("this host has no %s", name)
}

// ownProgram is a program that we unpacked: below our own folder, with nothing that leads out of it.
func ownProgram(path string) (string, error) {
	if filepath.Clean(path) != path || !strings.HasPrefix(path, file.StateDir+"/") {
		return "", fmt.Errorf("%s is not a program of the machine", path)
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(real); err != nil || !strings.HasPrefix(real, file.StateDir+"/") || !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a program below %s", path, file.StateDir)
	}
	return real, nil
}
