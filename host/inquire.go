package host

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrNoProgram is why Ask or Inquire failed where the machine has no such program.
var ErrNoProgram = errors.New("there is no such program")

// inquiries are the programs that only look, each with what its arguments must begin with: package
// managers that would install without it simulate by it.
var inquiries = map[string][]string{
	"apt-get":   {"--simulate"},
	"dnf":       {"--assumeno"},
	"modinfo":   nil,
	"ofed_info": {"-s"},
	"rpm":       {"-q"},
	"yum":       {"--assumeno"},
	"zypper":    {"--non-interactive", "--xmlout", "--no-refresh", "install", "--dry-run"},
}

// Inquiry says why a program may not be run by who only looks; nil: it may.
func Inquiry(name string, args []string) error {
	first, known := inquiries[name]
	if !known || len(args) < len(first) || !slices.Equal(args[:len(first)], first) {
		return fmt.Errorf("%s is not among the programs that only look", strings.Join(append([]string{name}, args...), " "))
	}
	return nil
}
