// Package providers is the explicit table of resource kinds: nothing registers itself.
package providers

import (
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/providers/loginmesh"
	"github.com/fabricform/fabricform/providers/ncclconf"
	"github.com/fabricform/fabricform/providers/netif"
	"github.com/fabricform/fabricform/providers/ofed"
	"github.com/fabricform/fabricform/providers/persist"
	"github.com/fabricform/fabricform/providers/qos"
	"github.com/fabricform/fabricform/providers/rxe"
	"github.com/fabricform/fabricform/resource"
)

// kindPackage is one package of this folder, with its kinds.
type kindPackage struct {
	kinds func() resource.Kinds
	// desired returns the resources that the files declare for one host; nil if Derived or Joined returns them.
	desired func(*fabric.Fabric, *fabric.Host) []resource.Resource
	// early packages come first among the desired resources: a driver stack provides devices, and a network
	// manager must release a NIC before the NIC is changed.
	early bool
}

// packages is the table, in the order in which kinds depend on each other.
var packages = []kindPackage{
	{ofed.Kinds, ofed.Desired, true},
	{netif.Kinds, netif.Desired, false},
	{rxe.Kinds, rxe.Desired, false},
	{qos.Kinds, qos.Desired, false},
	{persist.Kinds, persist.Desired, true},
	{ncclconf.Kinds, nil, false},
	{loginmesh.Kinds, nil, false},
}

// Kinds returns every kind that this build can apply, in the order in which kinds depend on each other.
func Kinds() (out resource.Kinds) {
	for _, r := range packages {
		out = append(out, r.kinds()...)
	}
	return out
}

// Desired returns the resources that the files declare for one host.
func Desired(f *fabric.Fabric, h *fabric.Host) (out []resource.Resource) {
	for _, early := range []bool{true, false} {
		for _, r := range packages {
			if r.desired != nil && r.early == early {
				out = append(out, r.desired(f, h)...)
			}
		}
	}
	return out
}

// Derived returns the resources that also depend on the host's facts and on the records of fabrics there.
func Derived(f *fabric.Fabric, h *fabric.Host, snap *facts.Snapshot, records []resource.Record) []resource.Resource {
	return ncclconf.Derived(f, h, snap, rxe.Vanishing(f, h, records)...)
}

// Joined returns the resources that depend on the facts of several hosts.
func Joined(f *fabric.Fabric, h *fabric.Host, snaps map[string]*facts.Snapshot) []resource.Resource {
	return loginmesh.Joined(f, h, snaps)
}

// Looks returns resources that are only read: those that Derived and Joined need.
func Looks(f *fabric.Fabric, h *fabric.Host) []resource.Resource {
	return append(ncclconf.Looks(f, h), loginmesh.Looks(f, h)...)
}

// Compared returns resources that are only read to compare the hosts with each other.
func Compared(h *fabric.Host) []resource.Resource { return ofed.Looks(h) }
