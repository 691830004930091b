// Package providers is the explicit table of resource kinds: nothing registers itself.
package providers

import (
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/providers/netif"
	"github.com/fabricform/fabricform/resource"
)

// Kinds is every kind that this build carries out, in the order in which kinds depend on each other.
func Kinds() resource.Kinds {
	return netif.Kinds()
}

// Desired turns what the files declare for one host into resources.
func Desired(f *fabric.Fabric, h *fabric.Host) []resource.Resource {
	return netif.Desired(f, h)
}
