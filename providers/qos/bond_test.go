package qos

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/host"
)

// lag is a host whose mlx5 NIC eth1 is a member of bond0, and whose one RDMA device is that of RoCE LAG: its GIDs name the bond
// (mlx5_ib_get_netdev in the kernel's drivers/infiniband/hw/mlx5/main.c).
type lag struct{ *nic }

func (l lag) Links(ctx context.Context) ([]host.Link, error) {
	links, err := l.nic.Links(ctx)
	links[0].Master = 5
	return append(links, host.Link{Index: 5, Name: "bond0", Kind: "bond", Up: true}), err
}

// TestTheDefaultOfRDMACMOfABondIsThatOfItsDevice: a member has no RDMA device of its own.
func TestTheDefaultOfRDMACMOfABondIsThatOfItsDevice(t *testing.T) {
	const device = "mlx5_bond_0"
	h := lag{mlx5()}
	for at := range h.files {
		if strings.HasPrefix(at, "/sys/class/infiniband/mlx5_0/") {
			delete(h.files, at)
		}
	}
	for file, text := range map[string]string{"state": "4: ACTIVE", "link_layer": "Ethernet", "gids/0": "fe80:0000:0000:0000:0000:0000:0000:0001", "gid_attrs/ndevs/0": "bond0",
		"gid_attrs/types/0": "RoCE v2"} {
		h.files["/sys/class/infiniband/"+device+"/ports/1/"+file] = text
	}
	class := Spec{On: eth1, RDMACM: of(true), TOS: 162}
	got, changes, err := planOn(t, h, class)
	if err != nil || len(changes) != 1 || changes[0] != "live: rdma_cm:  > tos 162, RoCE v2" {
		t.Fatalf("%+v: %q, %v", got, changes, err)
	}
	if err := (provider{}).Apply(t.Context(), h, class, provider{}.Diff(class, got)); err != nil {
		t.Fatal(err)
	}
	if tos := h.files["/sys/kernel/config/rdma_cm/"+device+"/ports/1/default_roce_tos"]; tos != "162" {
		t.Errorf("the default of %s is %q: %v", device, tos, h.files)
	}
	if _, changes, err := planOn(t, h, class); err != nil || len(changes) > 0 {
		t.Errorf("once more: %q, %v", changes, err)
	}
}

// TestOneMemberSetsTheDefaultOfRDMACM, because the device of a bond has one.
func TestOneMemberSetsTheDefaultOfRDMACM(t *testing.T) {
	class := &fabric.QoS{Name: "lossless", RDMACM: of(true), DSCP: of(40)}
	nic := func(name string) *fabric.NIC { return &fabric.NIC{Host: "a", Name: name, Netdev: name, QoS: class} }
	p0, p1, b0 := nic("p0"), nic("p1"), nic("b0")
	b0.Bond = &fabric.Bond{NICs: []fabric.NICRef{p0.Ref(), p1.Ref()}}
	alone := nic("p2")
	h := &fabric.Host{Name: "a", NICs: []*fabric.NIC{b0, p1, p0, alone}}
	var sets []string
	for _, r := range Desired(nil, h) {
		var s Spec
		if err := json.Unmarshal(r.Spec, &s); err != nil {
			t.Fatal(err)
		}
		if s.RDMACM != nil {
			sets = append(sets, r.Addr.Name)
		}
	}
	if got := strings.Join(sets, " "); got != "p0 p2" {
		t.Errorf("set by %s", got)
	}
}
