// Package lab builds rehearsal fabrics on one machine from the declared model. There are two kinds: labs of
// network namespaces, which start in a second, and labs of virtual machines, which have their own kernels
// and therefore support RDMA, reboots and network managers.
package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/lab/netns"
	"github.com/fabricform/fabricform/lab/site"
	"github.com/fabricform/fabricform/lab/vm"
)

// Lab is a running lab.
type Lab interface {
	// Status returns which hosts are running, and the faults of cables.
	Status() (site.Status, error)
	// Target returns how to reach a host through NetDial.
	Target(host string) (addr string, port int, user, identityFile, knownHosts string)
	// ConnectTimeout is the default connect timeout of hosts; 0: that of real hosts.
	ConnectTimeout() time.Duration
	// NetDial connects from the operator's place in the lab.
	NetDial(ctx context.Context, network, addr string) (net.Conn, error)
	// Exec runs a command on a host and returns its exit status.
	Exec(ctx context.Context, host string, argv []string, stdin io.Reader, stdout, stderr io.Writer) (int, error)
	// Fault breaks or repairs a cable; said is the fault as the user wrote it.
	Fault(cable string, f site.Fault, said string) error
	// Reboot restarts a host and waits until it answers again; hard cuts its power.
	Reboot(ctx context.Context, host string, hard bool) error
	// LinkCapGbps is the highest rate to which links are shaped; 0: links are not shaped, and their
	// throughput says nothing about real links.
	LinkCapGbps() float64
	// Down stops and removes the lab, even after a crash.
	Down() error
}

// Backends are the kinds of labs.
var Backends = []string{netns.Backend, vm.Backend}

// Up builds a lab. If it fails, it removes everything it created.
func Up(ctx context.Context, backend string, f *fabric.Fabric, o site.Options) (Lab, error) {
	dir, err := site.Place(f.Name)
	if err != nil {
		return nil, err
	}
	if err := vacate(dir, f.Name); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the lab's folder: %w", err)
	}
	switch backend {
	case netns.Backend:
		if o.Owner != "" {
			return nil, errors.New("hosts of a namespace lab have no network manager: -owner goes with -backend vm")
		}
		return netns.Up(ctx, dir, f, o)
	case vm.Backend:
		return vm.Up(ctx, dir, f, o)
	}
	return nil, fmt.Errorf("there is no lab backend %q; there are %q", backend, Backends)
}

// vacate removes the remains of an earlier lab, unless that lab is running.
func vacate(dir, name string) error {
	old, err := open(dir)
	if err != nil {
		return nil //nolint:nilerr // no lab, or one whose state was never written
	}
	s, err := old.Status()
	if err != nil {
		return err
	}
	for _, h := range s.Hosts {
		if h.Alive {
			return fmt.Errorf("the lab of fabric %q is up already; `fabricform lab down` removes it", name)
		}
	}
	if err := old.Down(); err != nil {
		return fmt.Errorf("remove what is left of an earlier lab: %w", err)
	}
	return nil
}

// Open returns the lab of that fabric.
func Open(name string) (Lab, error) {
	dir, err := site.Place(name)
	if err != nil {
		return nil, err
	}
	return open(dir)
}

func open(dir string) (Lab, error) {
	var kind struct{ Backend string }
	if err := site.Read(dir, &kind); err != nil {
		return nil, err
	}
	if kind.Backend == vm.Backend {
		return vm.Open(dir)
	}
	return netns.Open(dir)
}
