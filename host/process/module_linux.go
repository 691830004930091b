package process

import (
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"sync"
)

// moduleName matches the valid names of kernel modules.
var moduleName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,55}$`) })

// LoadModule loads a kernel module and its dependencies with modprobe(8), which also follows the machine's rules in
// /etc/modprobe.d.
func LoadModule(name string) error {
	if !moduleName().MatchString(name) {
		return fmt.Errorf("%q is not a valid name of a kernel module", name)
	}
	if InLab() {
		return errors.New("a namespace lab shares its machine's kernel and cannot load modules into it")
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
