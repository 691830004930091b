// Package providers is the explicit table of resource kinds: nothing registers itself.
package providers

import (
	"slices"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/providers/netif"
	"github.com/fabricform/fabricform/providers/netif/persist"
	"github.com/fabricform/fabricform/providers/rxe"
	"github.com/fabricform/fabricform/resource"
)

// Kinds is every kind that this build carries out, in the order in which kinds depend on each other.
func Kinds() resource.Kinds {
	return slices.Concat(netif.Kinds(), rxe.Kinds(), persist.Kinds())
}

// Desired turns what the files declare for one host into resources. What no provider carries out
// yet is among them: the planner finds no kind for it and says so, rather than that all is well.
func Desired(f *fabric.Fabric, h *fabric.Host) []resource.Resource {
	// Who is to keep off a NIC does so before the NIC is changed; the rest of what lasts says itself
	// what it comes after.
	out := slices.Concat(persist.Desired(f, h), netif.Desired(f, h), rxe.Desired(h))
	later := func(kind, name string, pos fabric.Pos) {
		out = append(out, resource.Resource{Addr: resource.Addr{Host: h.Name, Kind: kind, Name: name}, Pos: pos})
	}
	if h.OFED != nil {
		later("ofed", h.OFED.Stack, h.OFED.Pos)
	}
	return out
}
