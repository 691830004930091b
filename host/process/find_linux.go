package process

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fabricform/fabricform/host/file"
)

// programFolders are the folders with the machine's programs, whatever the PATH of the login. NVIDIA's iproute2 has a
// folder of its own.
var programFolders = []string{"/usr/sbin", "/sbin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/local/bin", "/opt/mellanox/iproute2/sbin"}

// FindProgram returns the path of a program of that name in the folders of the system and of vendors' tools.
func FindProgram(name string) (string, error) {
	for _, dir := range programFolders {
		path := filepath.Join(dir, name)
		if unix.Access(path, unix.X_OK) == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("this host has no %s", name)
}

// FindInPath returns the absolute path of a program of that name in the folders of this process's PATH; "" if none of them has it.
func FindInPath(name string) string {
	path, err := exec.LookPath(name)
	if err != nil || !filepath.IsAbs(path) {
		return ""
	}
	return path
}

// ownProgram returns the path of a program that we unpacked. It must be below our own folder, even after symbolic links
// are resolved.
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
