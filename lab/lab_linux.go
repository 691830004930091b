package lab

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/lab/netns"
	"github.com/fabricform/fabricform/lab/site"
	"github.com/fabricform/fabricform/lab/vm"
)

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
	case site.Netns:
		if o.NetworkManager != "" {
			return nil, errors.New("hosts of a namespace lab have no network manager: -owner needs -backend vm")
		}
		return netns.Up(ctx, dir, f, o)
	case site.VM:
		return vm.Up(ctx, dir, f, o)
	}
	return nil, fmt.Errorf("unknown lab backend %q; use one of %q", backend, Backends)
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
			return fmt.Errorf("the lab of fabric %q is up already: remove it with lab down first", name)
		}
	}
	if err := old.Down(); err != nil {
		return fmt.Errorf("remove the remains of an earlier lab: %w", err)
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
	if kind.Backend == site.VM {
		return vm.Open(dir)
	}
	return netns.Open(dir)
}

// Image makes the image of virtual machines with that network manager, if it does not exist yet.
func Image(ctx context.Context, owner string, o site.Options) (dir, accel string, err error) {
	return vm.Image(ctx, owner, o)
}
