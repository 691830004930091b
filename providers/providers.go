// Package providers is the explicit table of resource kinds: nothing registers itself.
package providers

import (
	"slices"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/providers/ncclconf"
	"github.com/fabricform/fabricform/providers/netif"
	"github.com/fabricform/fabricform/providers/ofed"
	"github.com/fabricform/fabricform/providers/persist"
	"github.com/fabricform/fabricform/providers/rxe"
	"github.com/fabricform/fabricform/resource"
)

// Kinds is every kind that this build carries out, in the order in which kinds depend on each other.
func Kinds() resource.Kinds {
	return slices.Concat(ofed.Kinds(), netif.Kinds(), rxe.Kinds(), persist.Kinds(), ncclconf.Kinds())
}

// Desired turns what the files declare for one host into resources.
func Desired(f *fabric.Fabric, h *fabric.Host) []resource.Resource {
	// A driver stack comes first: devices come with it. Who is to keep off a NIC does so before the NIC
	// is changed; the rest of what lasts says itself what it comes after.
	return slices.Concat(ofed.Desired(h), persist.Desired(f, h), netif.Desired(f, h), rxe.Desired(h))
}

// Derived are the resources that follow from what the host is, too, and from what fabrics made there.
func Derived(f *fabric.Fabric, h *fabric.Host, snap *facts.Snapshot, records []resource.Record) []resource.Resource {
	var gone []string
	for _, r := range records {
		for a := range r.Atoms {
			declared := slices.ContainsFunc(h.RXE, func(x *fabric.RXE) bool { return x.Name == a.Thing() })
			if r.Fabric == f.Name && a.Kind() == rxe.Kind && !declared {
				gone = append(gone, a.Thing())
			}
		}
	}
	return ncclconf.Derived(f, h, snap, gone...)
}

// Looks are resources for reading alone: what Derived looks at on the host, and, where hosts are compared
// with each other, what they are compared by.
func Looks(f *fabric.Fabric, h *fabric.Host, comparing bool) []resource.Resource {
	out := ncclconf.Looks(f, h)
	if comparing {
		out = append(out, ofed.Looks(h)...)
	}
	return out
}
