// Package site holds what all kinds of labs share: a directory, processes, keys, and cables with faults.
package site

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/fabricform/fabricform/host/file"
)

// The kinds of labs.
const (
	Netns = "netns"
	VM    = "vm"
)

// Options configure a lab.
type Options struct {
	Program        string       // the program of the lab's own processes; "": this program
	SSHD           string       // OpenSSH's sshd in a namespace lab; "": that of the machine
	NetworkManager string       // network manager of the guests in a lab of virtual machines; "": systemd-networkd
	Progress       func(string) // nil: quiet
}

// Say reports progress.
func (o Options) Say(format string, args ...any) {
	if o.Progress != nil {
		o.Progress(fmt.Sprintf(format, args...))
	}
}

// Self returns the program that the lab's processes run.
func (o Options) Self() (string, error) {
	if o.Program != "" {
		return o.Program, nil
	}
	return os.Executable()
}

// Status describes a lab for views.
type Status struct {
	Name    string       `json:"name"`
	Backend string       `json:"backend"`
	Hosts   []HostStatus `json:"hosts"`
	Links   []Cable      `json:"links"`
}

// HostStatus is one host of a lab.
type HostStatus struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	Alive   bool   `json:"alive"`
	Console string `json:"console,omitempty"` // the file with the output of the host's console; "": none
}

// Cable is one link of a lab, or one member's port of a network.
type Cable struct {
	Name  string  `json:"name"`            // of the link, or network:member
	A     string  `json:"a"`               // host.nic
	B     string  `json:"b"`               // host.nic, or the network
	Gbps  float64 `json:"gbps,omitempty"`  // shaped rate; 0: not shaped
	Fault string  `json:"fault,omitempty"` // as Fault.String returns it; "": none
	// Distance is the declared one, in each direction; a lab of namespaces has none.
	Distance Distance `json:"distance,omitzero"`
}

// CableName returns the name, for Find. The kinds of labs embed Cable in their own types.
func (c Cable) CableName() string { return c.Name }

// StateDir returns the directory for this program's state on the operator's machine (XDG Base Directory
// Specification, XDG_STATE_HOME).
func StateDir() (string, error) {
	base := os.Getenv("XDG_STATE_HOME")
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("find the state directory: %w; set HOME or XDG_STATE_HOME", err)
		}
		base = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(base, "fabricform"), nil
}

// Place returns the directory of a lab. The name is that of a fabric, which has only safe characters.
func Place(name string) (string, error) {
	base, err := StateDir()
	return filepath.Join(base, "lab", filepath.Base(name)), err
}

// Remove removes a lab's directory. It also removes the directories of the program's state that are then empty.
func Remove(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	base, err := StateDir()
	if err != nil {
		return err
	}
	var dirs []string
	err = filepath.WalkDir(base, func(path string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Dir(path) == filepath.Dir(dir) {
			return fs.SkipDir // the directory of another lab
		}
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // another `lab down` removed it at this moment
		}
		return err
	})
	for _, d := range slices.Backward(dirs) {
		_ = os.Remove(d) // fails if the directory is not empty
	}
	return err
}

// Names returns the fabrics that have a lab, in order.
func Names() ([]string, error) {
	base, err := StateDir()
	if err != nil {
		return nil, err
	}
	states, err := filepath.Glob(filepath.Join(base, "lab", "*", "lab.json"))
	for i, path := range states {
		states[i] = filepath.Base(filepath.Dir(path))
	}
	return states, err
}

// noLab is the error for a fabric, by its name, that has no lab. It is fs.ErrNotExist.
type noLab string

func (name noLab) Error() string { return fmt.Sprintf("there is no lab for fabric %q", string(name)) }

func (noLab) Is(target error) bool { return target == fs.ErrNotExist }

// Read reads a lab's state from its folder. The error is fs.ErrNotExist if there is none.
func Read(dir string, into any) error {
	raw, err := os.ReadFile(filepath.Join(dir, "lab.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return noLab(filepath.Base(dir))
	}
	if err == nil {
		err = json.Unmarshal(raw, into)
	}
	if err != nil {
		return fmt.Errorf("read lab: %w", err)
	}
	return nil
}

// Write replaces a lab's state atomically.
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
