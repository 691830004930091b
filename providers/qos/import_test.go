package qos

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host/dcb"
	"github.com/fabricform/fabricform/resource"
)

// set gives the NIC a class, as apply does.
func set(t *testing.T, n *nic, want Spec) {
	t.Helper()
	snap, err := resource.Gather[Spec](t.Context(), n, provider{}, want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := provider{}.Observe(snap, want)
	if err == nil {
		err = provider{}.Apply(t.Context(), n, want, provider{}.Diff(want, got))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// drafted imports the class of eth1.
func drafted(t *testing.T, n *nic) (*fabric.NIC, *resource.Draft) {
	t.Helper()
	snap, err := facts.Gather(t.Context(), n, facts.Connection{None: true})
	if err != nil {
		t.Fatal(err)
	}
	port := &fabric.NIC{Name: "rail0", Netdev: "eth1"}
	d := &resource.Draft{Snapshot: snap, Host: &fabric.Host{NICs: []*fabric.NIC{port}}}
	if err := (provider{}).Import(t.Context(), n, d); err != nil {
		t.Fatal(err)
	}
	return port, d
}

// TestAnImportedClassChangesNothing: what a block has set is imported as that block, and its plan is empty.
func TestAnImportedClassChangesNothing(t *testing.T) {
	bare := func(s Spec) Spec { // what no NIC of that driver tells
		s.ECN, s.CNPDSCP, s.Buffer, s.RDMACM, s.TOS = nil, nil, nil, nil, 0
		return s
	}
	inKernel := lossless()
	inKernel.CNPDSCP, inKernel.TOS = nil, 162 // ECN is told by rdma_cm
	for name, c := range map[string]struct {
		nic       *nic
		set, want Spec
	}{
		"mlx5 of MLNX_OFED": {mlx5().switches(), lossless(), lossless()},
		"mlx5":              {mlx5(), lossless(), inKernel},
		"ice":               {mlx5().ice(), iceClass, bare(iceClass)},
		"bnxt":              {mlx5().bnxt(), iceClass, bare(iceClass)},
		"PFC by PCP":        {mlx5(), Spec{On: eth1, PFC: of(true), Priority: of(3), Trust: "pcp", Pause: of(false)}, Spec{PFC: of(true), Priority: of(3), Trust: "pcp", Pause: of(false)}},
		"DSCP without PFC":  {mlx5(), Spec{On: eth1, DSCP: of(26), Priority: of(3), Trust: "dscp"}, Spec{DSCP: of(26), Priority: of(3), Trust: "dscp"}},
	} {
		t.Run(name, func(t *testing.T) {
			set(t, c.nic, c.set)
			before := c.nic.sets
			n, d := drafted(t, c.nic)
			if n.QoS == nil || len(d.Remarks) > 0 {
				t.Fatalf("%+v, remarks %+v", n.QoS, d.Remarks)
			}
			got, want := specOf(eth1, n.QoS), c.want
			want.On, want.Class, want.TOS = eth1, "", got.TOS
			if !reflect.DeepEqual(got, want) {
				t.Errorf("imported %+v\nwant     %+v", got, want)
			}
			if _, changes, err := plan(t, c.nic, got); err != nil || len(changes) > 0 {
				t.Errorf("the plan is %v, %v", changes, err)
			}
			if c.nic.sets != before {
				t.Error("the import changed the NIC")
			}
		})
	}
}

// TestWhatNoClassCanSayIsARemark, and a NIC as its driver sets it up has no class.
func TestWhatNoClassCanSayIsARemark(t *testing.T) {
	for name, n := range map[string]*nic{"mlx5": mlx5(), "mlx5 of MLNX_OFED": mlx5().switches(), "ice": mlx5().ice(), "bnxt": mlx5().bnxt(), "virtio": {driver: "virtio_net"}} {
		if got, d := drafted(t, n); got.QoS != nil || len(d.Remarks) > 0 {
			t.Errorf("%s: %+v, %+v", name, got.QoS, d.Remarks)
		}
	}
	two := mlx5()
	two.pause, two.pfc[dcb.PFCMask] = [2]bool{}, 1<<3|1<<5
	odd := mlx5().switches()
	set(t, odd, lossless())
	odd.files[rdmaCMFile("mlx5_0", 1, "mode")] = "IB/RoCE v1"
	all := whole(mlx5())
	guess := whole(mlx5())
	guess.pause, guess.pfc[dcb.PFCMask] = [2]bool{}, 1<<5
	for name, c := range map[string]struct {
		nic  *nic
		says string
		dscp int // -1: there is no class
	}{
		"two lossless priorities":  {two, "PFC is on for priorities 3,5, and a qos block has one", -1},
		"a map without a user":     {all, "nothing tells which one is that of RDMA", -1},
		"several DSCPs":            {guess, "DSCP 40 of the class is a guess: DSCPs 40, 41, 42, 43, 44, 45, 46, 47 lead to priority 5", 40},
		"rdma_cm with another GID": {odd, "rdma_cm tos 162, IB/RoCE v1 is more than a qos block can say", 40},
	} {
		n, d := drafted(t, c.nic)
		if len(d.Remarks) != 1 || !strings.Contains(d.Remarks[0].Text, c.says) || (n.QoS == nil) != (c.dscp < 0) || n.QoS != nil && *n.QoS.DSCP != c.dscp {
			t.Errorf("%s: %+v, %+v", name, n.QoS, d.Remarks)
		}
	}
	guess.files[fabric.NCCLConf] = "# ours\nNCCL_IB_TC=170\n"
	if n, d := drafted(t, guess); len(d.Remarks) > 0 || *n.QoS.DSCP != 42 {
		t.Errorf("NCCL's own DSCP: %+v, %+v", n.QoS, d.Remarks)
	}
}

// TestABondHasTheClassOfItsPorts, and a VLAN that of what carries it; ports that differ give it none.
func TestABondHasTheClassOfItsPorts(t *testing.T) {
	n := mlx5()
	set(t, n, lossless())
	snap, err := facts.Gather(t.Context(), n, facts.Connection{None: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		members []fabric.NICRef
		has     bool
	}{{[]fabric.NICRef{{NIC: "rail0"}}, true}, {[]fabric.NICRef{{NIC: "rail0"}, {NIC: "rail1"}}, false}} {
		h := &fabric.Host{NICs: []*fabric.NIC{{Name: "rail0", Netdev: "eth1"}, {Name: "rail1", Netdev: "eth9"}, {Name: "bond0", Netdev: "bond0", Bond: &fabric.Bond{NICs: c.members}},
			{Name: "vlan5", Netdev: "bond0.5", VLAN: &fabric.VLAN{On: fabric.NICRef{NIC: "bond0"}, ID: 5}}}}
		if err := (provider{}).Import(t.Context(), n, &resource.Draft{Snapshot: snap, Host: h}); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal([]bool{h.NICs[0].QoS != nil, h.NICs[2].QoS != nil, h.NICs[3].QoS != nil}, []bool{true, c.has, c.has}) {
			t.Errorf("%v: %+v", c.members, h.NICs)
		}
	}
}
