//go:build linux

package e2e

import (
	"context"

	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/providers"
	"github.com/fabricform/fabricform/transport"
)

// openSession opens the program's session, to measure parts of a command. l is nil for the declared hosts; glance
// reads each host once, as a plan does.
func openSession(f *fabric.Fabric, l apply.Lab, d *transport.Dialer, glance bool) *apply.Session {
	return apply.Open(context.Background(), f, apply.SessionOptions{Dial: d.Start, Build: build, Parallelism: 64, Lab: l, Glance: glance,
		Resources: apply.Resources{Kinds: providers.Kinds(), Desired: providers.Desired, Derived: providers.Derived, Joined: providers.Joined, Looks: providers.Looks, Compared: providers.Compared}})
}

// target is how a host of the lab is reached.
func (b *benchLab) target(h *fabric.Host) transport.Target {
	addr, port, user, identity, known := b.lab.Target(h.Name)
	return transport.Target{Name: h.Name, Address: addr, Port: port, User: user, IdentityFile: identity, KnownHosts: known}
}
