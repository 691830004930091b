//go:build !linux

package lab

import (
	"context"
	"errors"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/lab/site"
)

var errLinux = errors.New("a lab needs Linux")

// Up needs Linux.
func Up(context.Context, string, *fabric.Fabric, site.Options) (Lab, error) { return nil, errLinux }

// Open needs Linux.
func Open(string) (Lab, error) { return nil, errLinux }

// Image needs Linux.
func Image(context.Context, string, site.Options) (dir, accel string, err error) {
	return "", "", errLinux
}
