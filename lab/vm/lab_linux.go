package vm

import (
	"maps"
	"path/filepath"
	"slices"
	"strconv"
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
	Rack    site.Process    `json:"rack"`  // the process that runs the machines and cables
	Image   string          `json:"image"` // the directory of the guests' image
	Hosts   map[string]Host `json:"hosts"`
	Links   []site.Cable    `json:"links"`
}

// Host is one virtual machine.
type Host struct {
	Port int   `json:"port"` // on loopback, forwarded to the guest's SSH server
	NICs []NIC `json:"nics"`
}

// NIC is a card of a guest, in the order of its slots.
type NIC struct {
	Netdev string `json:"netdev"`
	MAC    string `json:"mac"`
	Port   int    `json:"port"` // of the switchboard
	// Member is true for a member of a bond. It has a speed, because LACP does not use a port without one (bond_update_speed_duplex in
	// drivers/net/bonding/bond_main.c).
	Member bool `json:"member,omitempty"`
}

// Open returns the lab in that folder.
func Open(dir string) (*Lab, error) {
	l := &Lab{dir: dir}
	return l, site.Read(dir, &l.state)
}

func (l *Lab) hosts() []string {
	return slices.Sorted(maps.Keys(l.state.Hosts))
}

// Status returns which hosts are running, and the faults of cables.
func (l *Lab) Status() (site.Status, error) {
	s := site.Status{Name: l.state.Name, Backend: site.VM, Links: l.state.Links}
	alive := map[string]bool{}
	if l.state.Rack.Alive() {
		a, err := l.ask(request{Op: opStatus})
		if err != nil {
			return s, err
		}
		alive = a.Alive
	}
	for _, n := range l.hosts() {
		s.Hosts = append(s.Hosts, site.HostStatus{Name: n, Address: "127.0.0.1:" + strconv.Itoa(l.state.Hosts[n].Port), Alive: alive[n],
			Console: filepath.Join(l.dir, consoleOf(n))})
	}
	return s, nil
}

// Target returns how to reach a host of the lab.
func (l *Lab) Target(host string) (addr string, port int, user, identityFile, knownHosts string) {
	return "127.0.0.1", l.state.Hosts[host].Port, "root", filepath.Join(l.state.Image, keyFile), filepath.Join(l.dir, "known_hosts")
}

// connectTimeout is long, because a login took 8 s with four emulated machines on two processors.
const connectTimeout = time.Minute

// ConnectTimeout is longer than for real hosts.
func (l *Lab) ConnectTimeout() time.Duration { return connectTimeout }

// LinkCapGbps returns 0: the throughput of an emulated machine says nothing about a real one.
func (l *Lab) LinkCapGbps() float64 { return 0 }

// Fault breaks or repairs a cable.
func (l *Lab) Fault(name string, f site.Fault, said string) error {
	j, err := site.Find(l.state.Links, name)
	if err != nil {
		return err
	}
	k := j
	if f.Swap != "" {
		if k, err = site.Find(l.state.Links, f.Swap); err != nil {
			return err
		}
	}
	if _, err := l.ask(request{Op: opFault, Cable: name, Fault: f}); err != nil {
		return err
	}
	for i := range l.state.Links {
		// Repairing either cable of a swap removes the swap.
		if l.state.Links[i].Fault == "swap="+name || l.state.Links[j].Fault == "swap="+l.state.Links[i].Name {
			l.state.Links[i].Fault = ""
		}
	}
	l.state.Links[j].Fault = said
	switch {
	case f.None():
		l.state.Links[j].Fault = ""
	case k != j:
		l.state.Links[k].Fault = "swap=" + name
	}
	return site.Write(l.dir, l.state)
}
