package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/fabricform/fabricform/host/process"
)

const procSys = "/proc/sys"

// below returns the full path of a sysctl, or an error if the path would leave /proc/sys.
func below(path string) (string, error) {
	full := filepath.Join(procSys, path)
	if !strings.HasPrefix(full, procSys+"/") || strings.Contains(path, "..") {
		return "", fmt.Errorf("sysctl %q is not a path below %s", path, procSys)
	}
	return full, nil
}

func (kernel) Sysctl(_ context.Context, path string) (string, error) {
	full, err := below(path)
	if err != nil {
		return "", err
	}
	raw, err := readKernelFile(full)
	if err != nil {
		return "", fmt.Errorf("read sysctl: %w", err)
	}
	return strings.TrimSpace(string(raw)), nil
}

func (kernel) SetSysctl(path, value string) error {
	full, err := below(path)
	if err != nil {
		return err
	}
	// A namespace shares all sysctls outside net/ with its machine.
	if process.InLab() && !strings.HasPrefix(full, procSys+"/net/") {
		return errors.New("set sysctl " + path + ": a namespace lab has only network sysctls of its own")
	}
	if err := os.WriteFile(full, []byte(value), 0o644); err != nil {
		return fmt.Errorf("set sysctl: %w", err)
	}
	return nil
}
