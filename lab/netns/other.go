//go:build !linux

package netns

import (
	"context"
	"errors"
	"io"
	"net"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/lab/site"
)

var errLinux = errors.New("a lab of namespaces needs Linux")

// Up needs Linux.
func Up(context.Context, string, *fabric.Fabric, site.Options) (*Lab, error) { return nil, errLinux }

// Down needs Linux.
func (*Lab) Down() error { return errLinux }

// Fault needs Linux.
func (*Lab) Fault(string, site.Fault, string) error { return errLinux }

// NetDial needs Linux.
func (*Lab) NetDial(context.Context, string, string) (net.Conn, error) { return nil, errLinux }

// Exec needs Linux.
func (*Lab) Exec(context.Context, string, []string, io.Reader, io.Writer, io.Writer) (int, error) {
	return 0, errLinux
}

// HostMain needs Linux.
func HostMain([]string) error { return errLinux }
