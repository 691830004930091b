// Package lab builds rehearsal fabrics on one Linux machine from the declared model: each host is a
// set of namespaces with an SSH server, each link a cable between them. A further namespace holds
// the cables' middles and the management network; nothing is ever created in the machine's own
// network namespace.
package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Options steer a lab.
type Options struct {
	Program  string       // what runs as process 1 of the hosts; "": this program
	SSHD     string       // OpenSSH's sshd; "": the one of the machine
	Progress func(string) // nil: quiet
}

// Lab is a lab that is up.
type Lab struct {
	dir   string
	state state
}

// state is what lab.json holds.
type state struct {
	Name   string          `json:"name"`
	Net    process         `json:"net"`              // holds the cables and the management network
	Router *process        `json:"router,omitempty"` // has the networks' gateways
	Hosts  map[string]Host `json:"hosts"`
	Links  []Cable         `json:"links"`
}

// process is one holder. A process id alone may have been given to another program since.
type process struct {
	PID   int    `json:"pid"`
	Start string `json:"start"` // field 22 of /proc/PID/stat: ticks since boot
}

// Host is one host of the lab.
type Host struct {
	Process process `json:"process"`
	Address string  `json:"address"` // management address
}

// Cable is one link of the lab, or one member's port of a network. Its middle is a bridge in the
// holder's namespace, so that a cut takes the carrier from both ends and far ends can change places.
type Cable struct {
	Name  string  `json:"name"` // of the link, or network:member
	A     string  `json:"a"`    // host.nic
	B     string  `json:"b"`    // host.nic, or the network
	Ends  []End   `json:"ends"`
	Gbps  float64 `json:"gbps"` // shaped to
	Fault string  `json:"fault,omitempty"`
}

// End is where a cable's end is plugged, in the holder's namespace.
type End struct {
	Device string `json:"device"`
	Bridge string `json:"bridge"`
}

// CapGbps is what a lab's links carry at most: two cores cannot pretend to more.
const CapGbps = 1

// Status is what a lab is, for views.
type Status struct {
	Name  string
	Hosts []HostStatus
	Links []Cable
}

// HostStatus is one host of a lab.
type HostStatus struct {
	Name, Address string
	Alive         bool
}

// place is the lab's folder. The name is a fabric's, which the language keeps to plain characters.
func place(name string) (string, error) {
	base := os.Getenv("XDG_STATE_HOME")
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("find a place for the lab: %w", err)
		}
		base = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(base, "fabricform", "lab", filepath.Base(name)), nil
}

// Open returns the lab of that fabric.
func Open(name string, _ Options) (*Lab, error) {
	dir, err := place(name)
	if err != nil {
		return nil, err
	}
	raw, err := os.ReadFile(filepath.Join(dir, "lab.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no lab of fabric %q; `fabricform lab up` builds it", name)
	}
	if err != nil {
		return nil, fmt.Errorf("read lab: %w", err)
	}
	l := &Lab{dir: dir}
	if err := json.Unmarshal(raw, &l.state); err != nil {
		return nil, fmt.Errorf("read lab: %w", err)
	}
	return l, nil
}

// save replaces lab.json as a whole.
func (l *Lab) save() error {
	raw, err := json.MarshalIndent(l.state, "", "  ")
	if err != nil {
		return fmt.Errorf("save lab: %w", err)
	}
	tmp := filepath.Join(l.dir, "lab.json.new")
	if err := os.WriteFile(tmp, raw, 0o600); err != nil {
		return fmt.Errorf("save lab: %w", err)
	}
	return os.Rename(tmp, filepath.Join(l.dir, "lab.json"))
}

// Status says who lives.
func (l *Lab) Status() (Status, error) {
	s := Status{Name: l.state.Name, Links: l.state.Links}
	for _, name := range l.hosts() {
		h := l.state.Hosts[name]
		s.Hosts = append(s.Hosts, HostStatus{Name: name, Address: h.Address, Alive: h.Process.alive()})
	}
	return s, nil
}

func (l *Lab) hosts() []string {
	names := make([]string, 0, len(l.state.Hosts))
	for n := range l.state.Hosts {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// Target is how a host of the lab is reached, through NetDial.
func (l *Lab) Target(host string) (addr string, port int, user, identityFile, knownHosts string) {
	return l.state.Hosts[host].Address, 22, "root", filepath.Join(l.dir, "id_ed25519"), filepath.Join(l.dir, "known_hosts")
}

func (p process) alive() bool {
	start, err := startTime(p.PID)
	return p.PID > 1 && err == nil && start == p.Start
}

func startTime(pid int) (string, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	// The command's name stands in brackets and may hold anything; the fields after it are plain.
	f := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	if len(f) < 20 {
		return "", errors.New("short /proc/PID/stat")
	}
	return f[19], nil
}
