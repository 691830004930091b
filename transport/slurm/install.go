//go:build linux

package slurm

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// installSelf moves this program to its place on a node, from where guardians can start it after the step, and goes on there: it does
// not return, unless it fails or already is in its place.
func installSelf(version string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	place := installed(version)
	if self == place {
		return nil
	}
	if err := os.MkdirAll(installDir, 0o700); err != nil {
		return err
	}
	if err := rootsAlone(installDir, filepath.Dir(installDir)); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(installDir, "new-")
	if err != nil {
		return err
	}
	err = errors.Join(fill(tmp, self), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), place)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("install the helper in %s: %w", installDir, err), os.Remove(tmp.Name()), removeSent(self))
	}
	if err := removeSent(self); err != nil {
		return err
	}
	return fmt.Errorf("start %s: %w", place, syscall.Exec(place, append([]string{place}, os.Args[1:]...), os.Environ()))
}

// rootsAlone returns an error for a folder in which anybody but root can write.
func rootsAlone(dirs ...string) error {
	for _, dir := range dirs {
		info, err := os.Lstat(dir)
		if err != nil {
			return err
		}
		if s := info.Sys().(*syscall.Stat_t); !info.IsDir() || s.Uid != root || info.Mode().Perm()&0o022 != 0 {
			return fmt.Errorf("install the helper: %s must be a folder of root in which nobody else can write", dir)
		}
	}
	return nil
}

// What begins the folders to which slurmd's tree carries programs: nobody but root can make one there first, or an ordinary user can.
const (
	sentByRoot = installDir + "/sent-"
	sentBySudo = "/var/tmp/fabricform-"
)

// removeSent removes a program that slurmd's tree has carried to this node, and a folder that was made for it.
func removeSent(path string) error {
	dir := filepath.Dir(path)
	if !hasAnyPrefix(dir, sentByRoot, sentBySudo) {
		return nil // it was started by hand
	}
	return errors.Join(os.Remove(path), os.Remove(dir))
}

func fill(to *os.File, path string) error {
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer from.Close()
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Chmod(0o700), to.Sync())
}
