// Package lab builds rehearsal fabrics on one machine from the declared model. There are two kinds:
// of network namespaces, which are up in a second, and of virtual machines, which have a kernel of
// their own and so can do RDMA, reboot and be owned by a network manager.
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

// Lab is a lab that is up.
type Lab interface {
	// Status says who lives, and what is wrong with the cables.
	Status() (site.Status, error)
	// Target is how a host is reached, through NetDial.
	Target(host string) (addr string, port int, user, identityFile, knownHosts string)
	// ConnectTimeout is how long hosts may take to let somebody in, where their files do not say; 0: as
	// long as real ones.
	ConnectTimeout() time.Duration
	// NetDial connects from where the lab's operator stands.
	NetDial(ctx context.Context, network, addr string) (net.Conn, error)
	// Exec runs a command on a host and answers its exit status.
	Exec(ctx context.Context, host string, argv []string, stdin io.Reader, stdout, stderr io.Writer) (int, error)
	// Fault breaks a cable, or mends it; said is how its user wrote it.
	Fault(cable string, f site.Fault, said string) error
	// Reboot restarts a host and waits until it answers again; hard is a cut of its power.
	Reboot(ctx context.Context, host string, hard bool) error
	// LinkCapGbps is what links are shaped to at most; 0: they are not shaped, and what they carry
	// says nothing of real ones.
	LinkCapGbps() float64
	// Down ends and removes the lab, also after a crash.
	Down() error
}

// Backends are the kinds of labs.
var Backends = []string{netns.Backend, vm.Backend}

// Up builds a lab. What a failure leaves is removed.
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

// vacate removes what is left of an earlier lab, unless it lives.
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
