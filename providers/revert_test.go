package providers

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
)

// TestARollbackNamesThingsAsTheFilesDo: the atoms have the host's names. What the files do not declare keeps those.
func TestARollbackNamesThingsAsTheFilesDo(t *testing.T) {
	f, snap := cables()
	in := planner.HostInput{Name: "a", Resources: Desired(f, f.Hosts[0])}
	back := []resource.Change{
		{Attribute: "mtu", From: "9000", To: "1500", Atom: "nic eth1 mtu"},
		{Attribute: "mtu", From: "9000", To: "1500", Atom: "nic eth7 mtu"},
		{Attribute: "route", From: "10.9.0.0/16 via 10.0.0.2", Atom: "route 254 10.9.0.0/16 0"},
		{Attribute: "route", From: "10.8.0.0/16 via 10.0.0.2", Atom: "route 254 10.8.0.0/16 0"},
	}
	kept := []resource.Change{{Attribute: "address", To: "10.0.0.9/30", Atom: "nic eth0 address 10.0.0.9/30"}}
	names := func() (out []string) {
		for _, a := range planner.RevertActions(f.Name, Kinds(), in, back, kept) {
			out = append(out, a.Resource.Addr.Kind+"."+a.Resource.Addr.Name)
		}
		return out
	}
	if d := cmp.Diff([]string{"nic.eth1", "nic.eth7", "nic.eth0", "route.10.9.0.0/16", "route.10.8.0.0/16"}, names()); d != "" {
		t.Errorf("of a host that could not be read:\n%s", d)
	}
	in.Snapshot = snap
	if d := cmp.Diff([]string{"nic.rail1", "nic.eth7", "nic.rail0", "route.far", "route.10.8.0.0/16"}, names()); d != "" {
		t.Error(d)
	}
}
