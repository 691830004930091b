// Package site holds what every kind of lab has: a folder, processes, keys, cables with faults.
package site

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/fabricform/fabricform/host/file"
)

// Options steer a lab.
type Options struct {
	Program  string       // what runs in the lab's own processes; "": this program
	SSHD     string       // of a namespace lab: OpenSSH's sshd; "": the one of the machine
	Owner    string       // of a lab of virtual machines: the guests' network manager; "": systemd-networkd
	Progress func(string) // nil: quiet
}

// Say tells of progress.
func (o Options) Say(format string, args ...any) {
	if o.Progress != nil {
		o.Progress(fmt.Sprintf(format, args...))
	}
}

// Self is the program that the lab's processes run.
func (o Options) Self() (string, error) {
	if o.Program != "" {
		return o.Program, nil
	}
	return os.Executable()
}

// Status is what a lab is, for views.
type Status struct {
	Name    string
	Backend string
	Hosts   []HostStatus
	Links   []Cable
}

// HostStatus is one host of a lab.
type HostStatus struct {
	Name, Address string
	Alive         bool
	Console       string // the file that has what the host's console said; "": it has none
}

// Cable is one link of a lab, or one member's port of a network.
type Cable struct {
	Name  string  `json:"name"`            // of the link, or network:member
	A     string  `json:"a"`               // host.nic
	B     string  `json:"b"`               // host.nic, or the network
	Gbps  float64 `json:"gbps,omitempty"`  // shaped to; 0: as quick as it goes
	Fault string  `json:"fault,omitempty"` // as Fault.String has it; "": whole
}

// CableName is for Find: kinds of labs have more of a cable than this.
func (c Cable) CableName() string { return c.Name }

// StateDir is where this program keeps what it must remember on the operator's machine (XDG Base
// Directory Specification, XDG_STATE_HOME).
func StateDir() (string, error) {
	base := os.Getenv("XDG_STATE_HOME")
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("find a place for what is to be remembered: %w", err)
		}
		base = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(base, "fabricform"), nil
}

// Place is a lab's folder. The name is a fabric's, which the language keeps to plain characters.
func Place(name string) (string, error) {
	base, err := StateDir()
	return filepath.Join(base, "lab", filepath.Base(name)), err
}

// Read reads a lab's state from its folder.
func Read(dir string, into any) error {
	raw, err := os.ReadFile(filepath.Join(dir, "lab.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no lab of fabric %q; `fabricform lab up` builds it: %w", filepath.Base(dir), err)
	}
	if err == nil {
		err = json.Unmarshal(raw, into)
	}
	if err != nil {
		return fmt.Errorf("read lab: %w", err)
	}
	return nil
}

// Write replaces a lab's state as a whole.
func Write(dir string, state any) error {
	raw, err := json.MarshalIndent(state, "", "  ")
	if err != nil {
		return fmt.Errorf("save lab: %w", err)
	}
	if err := file.Replace(filepath.Join(dir, "lab.json"), raw, 0o600); err != nil {
		return fmt.Errorf("save lab: %w", err)
	}
	return nil
}
