// Package netns builds rehearsal fabrics on one Linux machine from the declared model. Each host is a set of
// namespaces with an SSH server; each link is a cable between two hosts. Another namespace has the middle of all
// cables and the management network. Nothing is created in the machine's own network namespace.
package netns

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/fabricform/fabricform/lab/site"
)

// Lab is a running lab.
type Lab struct {
	dir   string
	state state
}

// state is the content of lab.json.
type state struct {
	Backend string          `json:"backend"`
	Name    string          `json:"name"`
	Net     site.Process    `json:"net"`              // holds the namespace of the cables and of the management network
	Router  *site.Process   `json:"router,omitempty"` // has the networks' gateways
	Hosts   map[string]Host `json:"hosts"`
	Links   []Cable         `json:"links"`
}

// Host is one host of the lab.
type Host struct {
	Process site.Process `json:"process"`
	Address string       `json:"address"` // management address
}

// Cable is a cable. Its middle is a bridge in the namespace of the cables, so that a cut removes the carrier at both
// ends, and far ends can be exchanged.
type Cable struct {
	site.Cable
	Ends []End `json:"ends"`
}

// End is an end of a cable in the namespace of the cables.
type End struct {
	Device string `json:"device"`
	Bridge string `json:"bridge"`
}

// capGbps is the highest rate of a lab's links: two cores cannot simulate more.
const capGbps = 1

// Open returns the lab in that folder.
func Open(dir string) (*Lab, error) {
	l := &Lab{dir: dir}
	return l, site.Read(dir, &l.state)
}

func (l *Lab) save() error { return site.Write(l.dir, l.state) }

// Status returns which hosts are running, and the faults of cables.
func (l *Lab) Status() (site.Status, error) {
	s := site.Status{Name: l.state.Name, Backend: site.Netns}
	for _, c := range l.state.Links {
		s.Links = append(s.Links, c.Cable)
	}
	for _, name := range slices.Sorted(maps.Keys(l.state.Hosts)) {
		h := l.state.Hosts[name]
		s.Hosts = append(s.Hosts, site.HostStatus{Name: name, Address: h.Address, Alive: h.Process.Alive()})
	}
	return s, nil
}

// Target returns how to reach a host through NetDial.
func (l *Lab) Target(host string) (addr string, port int, user, identityFile, knownHosts string) {
	return l.state.Hosts[host].Address, 22, "root", filepath.Join(l.dir, "id_ed25519"), filepath.Join(l.dir, "known_hosts")
}

// ConnectTimeout returns 0: the same as for real hosts.
func (l *Lab) ConnectTimeout() time.Duration { return 0 }

// LinkCapGbps returns the highest rate of shaped links.
func (l *Lab) LinkCapGbps() float64 { return capGbps }

// Reboot returns an error: namespaces cannot reboot.
func (l *Lab) Reboot(context.Context, string, bool) error {
	return errors.New("a lab of namespaces cannot reboot hosts; build the lab with `fabricform lab up -backend vm`")
}
