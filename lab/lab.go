// Package lab builds rehearsal fabrics on one machine from the declared model. There are two kinds: labs of
// network namespaces, which start in a second, and labs of virtual machines, which have their own kernels
// and therefore support RDMA, reboots and network managers.
package lab

import (
	"context"
	"io"
	"net"
	"time"

	"github.com/fabricform/fabricform/lab/site"
)

// Lab is a running lab.
type Lab interface {
	// Status returns which hosts are running, and the faults of cables.
	Status() (site.Status, error)
	// Target returns how to reach a host through NetDial.
	Target(host string) (addr string, port int, user, identityFile, knownHosts string)
	// ConnectTimeout is the default connect timeout of hosts; 0 means that of real hosts.
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
var Backends = []string{site.Netns, site.VM}
