package nccl

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
)

// railOn is a host with one declared NIC, as it is found.
func railOn(found *facts.RDMADevice, rxe bool, addresses ...string) (*fabric.Host, *facts.Snapshot) {
	n := &fabric.NIC{Name: "rail0", Host: "a", Netdev: "eth0", Up: true, AddressesSet: true}
	for _, a := range addresses {
		n.Addresses = append(n.Addresses, netip.MustParsePrefix(a))
	}
	h := &fabric.Host{Name: "a", NICs: []*fabric.NIC{n}}
	if rxe {
		h.RXE = []*fabric.RXE{{Name: "rxe0", Host: "a", NIC: n.Ref()}}
	}
	snap := &facts.Snapshot{Links: []host.Link{{Index: 2, Name: "eth0"}, {Index: 3, Name: "eth1"}}}
	if found != nil {
		snap.RDMA = []facts.RDMADevice{*found}
	}
	return h, snap
}

func device(name, netdev, state string, slots ...string) *facts.RDMADevice {
	return &facts.RDMADevice{Name: name, Port: 1, State: state, LinkLayer: "Ethernet", Netdev: netdev, GIDs: table(slots...)}
}

func TestGIDTablesAfterApply(t *testing.T) {
	const ll = "fe80::1"
	for name, c := range map[string]struct {
		found     *facts.RDMADevice
		rxe       bool
		addresses []string
		want      []string // "-" is a hole
	}{
		"as declared already": {device("mlx5_0", "eth0", "ACTIVE", ll+" v1", ll+" v2", "10.0.0.1 v1", "10.0.0.1 v2"), false, []string{"10.0.0.1/30"},
			[]string{ll + " v1", ll + " v2", "10.0.0.1 v1", "10.0.0.1 v2"}},
		"nothing yet": {device("mlx5_0", "eth0", "DOWN", ll+" v1", ll+" v2"), false, []string{"10.0.0.1/30"},
			[]string{ll + " v1", ll + " v2", "10.0.0.1 v1", "10.0.0.1 v2"}},
		"another address goes, and the new one takes its place": {device("mlx5_0", "eth0", "ACTIVE", ll+" v1", ll+" v2", "10.9.9.9 v1", "10.9.9.9 v2"), false, []string{"10.0.0.1/30"},
			[]string{ll + " v1", ll + " v2", "10.0.0.1 v1", "10.0.0.1 v2"}},
		"another address goes, ours stays where it is": {device("mlx5_0", "eth0", "ACTIVE", ll+" v1", ll+" v2", "10.9.9.9 v1", "10.9.9.9 v2", "10.0.0.1 v1", "10.0.0.1 v2"), false, []string{"10.0.0.1/30"},
			[]string{ll + " v1", ll + " v2", "-", "-", "10.0.0.1 v1", "10.0.0.1 v2"}},
		"Soft-RoCE to come": {nil, true, []string{"10.0.0.1/30", "fd00::1/64"}, []string{ll + " v2", "10.0.0.1 v2", "fd00::1 v2"}},
		"a device that was down with an empty table": {device("mlx5_0", "eth0", "DOWN"), false, []string{"10.0.0.1/30"},
			[]string{"-", "-", "10.0.0.1 v1", "10.0.0.1 v2"}},
	} {
		h, snap := railOn(c.found, c.rxe, c.addresses...)
		got := AfterApply(h, snap).RDMA
		if len(got) != 1 || got[0].State != "ACTIVE" {
			t.Fatalf("%s: %+v", name, got)
		}
		if d := cmp.Diff(table(c.want...), got[0].GIDs, cmpopts.EquateComparable(netip.Addr{})); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		if c.found != nil && !slices.Equal(snap.RDMA[0].GIDs, c.found.GIDs) {
			t.Errorf("%s: the snapshot itself was changed", name)
		}
		// What it says of a host that is as it says is the same.
		snap.RDMA = got
		if d := cmp.Diff(got, AfterApply(h, snap).RDMA, cmpopts.EquateComparable(netip.Addr{})); d != "" {
			t.Errorf("%s: not stable: %s", name, d)
		}
	}
}

func TestDevicesAfterApply(t *testing.T) {
	names := func(s *facts.Snapshot) (out []string) {
		for _, d := range s.RDMA {
			out = append(out, d.Name+" "+d.Netdev+" "+d.State)
		}
		return out
	}
	for name, c := range map[string]struct {
		found *facts.RDMADevice
		rxe   bool
		up    bool
		gone  []string
		want  []string
	}{
		"a cable is out":                {device("mlx5_0", "eth0", "DOWN"), false, true, nil, []string{"mlx5_0 eth0 ACTIVE"}},
		"declared down":                 {device("mlx5_0", "eth0", "ACTIVE"), false, false, nil, []string{"mlx5_0 eth0 DOWN"}},
		"a NIC that no block names":     {device("mlx5_1", "eth1", "DOWN"), false, true, nil, []string{"mlx5_1 eth1 DOWN"}},
		"ours, and no longer declared":  {device("rxe0", "eth0", "ACTIVE"), false, true, []string{"rxe0"}, nil},
		"declared on another NIC":       {device("rxe0", "eth1", "ACTIVE"), true, true, nil, []string{"rxe0 eth0 ACTIVE"}},
		"declared where one is already": {device("siw0", "eth0", "ACTIVE"), true, true, nil, []string{"siw0 eth0 ACTIVE"}}, // the plan refuses it
	} {
		h, snap := railOn(c.found, c.rxe, "10.0.0.1/30")
		h.NICs[0].Up = c.up
		if got := names(AfterApply(h, snap, c.gone...)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
