//go:build !linux

package vm

import (
	"context"
	"errors"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/lab/site"
)

var errLinux = errors.New("a lab of virtual machines needs Linux")

// Up needs Linux.
func Up(context.Context, string, *fabric.Fabric, site.Options) (*Lab, error) { return nil, errLinux }

// Down needs Linux.
func (*Lab) Down() error { return errLinux }

// RackMain needs Linux.
func RackMain(context.Context, []string) error { return errLinux }

func freeze(context.Context, string, string) error { return errLinux }

func lockFile(string) (func(), error) { return nil, errLinux }
