//go:build !linux

package slurm

import (
	"context"
	"errors"
	"io"

	"github.com/fabricform/fabricform/transport"
)

// Cluster refuses to start helpers: a coordinator runs on Linux.
type Cluster struct {
	Helper   transport.Helper
	Progress func(host, message string)
	Warn     func(message string)
}

// Start returns an error.
func (c *Cluster) Start(_ context.Context, t transport.Target) (io.ReadWriteCloser, error) {
	return nil, &transport.Error{Host: t.Name, Op: "connect by Slurm", Err: errors.New("this machine does not run Linux"),
		Hint: "run fabricform on a login or controller node of the cluster"}
}

// Close does nothing.
func (c *Cluster) Close() {}

// Drain returns an error.
func (c *Cluster) Drain(context.Context, map[string]string, func([]string)) error {
	return errors.New("this machine does not run Linux")
}

// Resume does nothing: Drain has drained nothing.
func (c *Cluster) Resume(context.Context, []string) error { return nil }

// Keep does nothing, either.
func (c *Cluster) Keep(context.Context, map[string]string) error { return nil }

// Release does nothing: Start has started nothing.
func (c *Cluster) Release([]string) {}

// Drained returns nothing.
func (c *Cluster) Drained() []string { return nil }
