package process

import (
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
)

// moduleName is what a kernel module may be called.
var moduleName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,55}$`)

// LoadModule loads a kernel module and those that it needs, as modprobe(8) does: only it knows the
// machine's own rules in /etc/modprobe.d.
func LoadModule(name string) error {
	if !moduleName.MatchString(name) {
		return fmt.Errorf("%q is no kernel module's name", name)
	}
	if InLab() {
		return errors.New("a lab of namespaces shares its machine's kernel, and loads nothing into it")
	}
	path, err := FindProgram("modprobe")
	if err != nil {
		return err
	}
	if out, err := exec.Command(path, "--", name).CombinedOutput(); err != nil {
		return fmt.Errorf("load module %s: %w: %s", name, err, strings.TrimSpace(string(out)))
	}
	return nil
}
