package ofed

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
)

// TestAReloadThatOpenibdWouldRefuseIsRefusedInThePlan names who is in the way, and how it is cleared.
func TestAReloadThatOpenibdWouldRefuseIsRefusedInThePlan(t *testing.T) {
	opensm := host.RDMAUser{Name: "opensm", PID: 812, File: "/dev/infiniband/umad0"}
	rank := func(pid int) host.RDMAUser {
		return host.RDMAUser{Name: "python3", PID: pid, File: "/dev/infiniband/uverbs0"}
	}
	held := func(users ...string) []Module {
		return []Module{{Name: "ib_core", Is: true, Users: users}}
	}
	for _, c := range []struct {
		name   string
		stack  Stack
		rxe    []string
		reason string // "": none
	}{
		{"nothing is loaded", Stack{}, nil, ""},
		{"nobody is in the way", Stack{Modules: held("ib_cm", "ib_uverbs", "mlx5_ib", "rdma_cm"), Reload: &Reload{}}, nil, ""},
		{"what openibd unloads", Stack{Modules: held("mlx5_fwctl", "mlx5_dpll", "mlxdevm", "rdma_rxe", "rdma_ucm")}, nil, ""},
		{"what it unloads, and somebody misses", Stack{Modules: held("mlx5_vdpa", "rnbd_client", "rds_rdma", "iw_cxgb4", "mlx5_ib")}, nil,
			"iw_cxgb4, mlx5_vdpa, rds_rdma, rnbd_client use it (unload them)"},
		{"Lustre", Stack{Modules: held("ko2iblnd", "rdma_cm")}, nil, "ko2iblnd uses it (unload it)"},
		{"another maker's card", Stack{Modules: held("bnxt_re")}, nil, "bnxt_re uses it (unload it)"},
		{"a subnet manager", Stack{Reload: &Reload{Users: []host.RDMAUser{opensm}}}, nil, "process opensm (pid 812) has /dev/infiniband/umad0 open (stop it)"},
		{"those that openibd stops", Stack{Reload: &Reload{Users: []host.RDMAUser{{Name: "ibacm", PID: 3}, {Name: "srp_daemon", PID: 4}}}}, nil, ""},
		{"a job", Stack{Reload: &Reload{Users: []host.RDMAUser{rank(1), rank(2), rank(3), rank(4), rank(5)}}}, nil,
			"process python3 (pid 1) has /dev/infiniband/uverbs0 open, process python3 (pid 2) has /dev/infiniband/uverbs0 open, process python3 (pid 3) has /dev/infiniband/uverbs0 open and 2 more (stop them)"},
		{"virtual functions", Stack{Reload: &Reload{Functions: []string{"0000:17:00.0", "0000:17:00.1"}}}, nil,
			"0000:17:00.0, 0000:17:00.1 have virtual functions, which a reload would remove (release their users, and write 0 to sriov_numvfs)"},
		{"openibd is forbidden to", Stack{Reload: &Reload{Forbidden: true}}, nil,
			"/etc/infiniband/openib.conf forbids it (this is right if the root file system is on remote storage; otherwise set ALLOW_STOP=yes there)"},
		{"Soft-RoCE", Stack{Modules: held("rdma_rxe")}, []string{"rxe0"}, "Soft-RoCE runs on rxe0, and vendors' stacks do not support it (remove it)"},
		{"several", Stack{Modules: held("nvidia_peermem"), Reload: &Reload{Users: []host.RDMAUser{opensm}}}, nil,
			"nvidia_peermem uses it (unload it), and while process opensm (pid 812) has /dev/infiniband/umad0 open (stop it)"},
	} {
		host := func(s *facts.Snapshot) {
			part.Of(s).Modules, part.Of(s).Reload = c.stack.Modules, c.stack.Reload
			for _, name := range c.rxe {
				s.RDMA = append(s.RDMA, facts.RDMADevice{Name: name, Port: 1, Driver: "rxe", Virtual: true})
			}
		}
		mlnx := Spec{Stack: MLNXOFED, Bundle: note000}
		got := difference(t, note000Host(host), mlnx)
		want := difference(t, note000Host(nil), mlnx)
		if c.reason != "" {
			want = []string{"refused: the driver cannot be reloaded while " + c.reason + `: do that first, or set reboot = "allow" in the ofed block`}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s:\n%q, want\n%q", c.name, got, want)
		}
		mlnx.Reboot = true
		if got, want := difference(t, note000Host(host), mlnx), difference(t, note000Host(nil), mlnx); !slices.Equal(got, want) {
			t.Errorf("%s, and it is restarted: %q", c.name, got)
		}
	}
}

// TestOnlyAReloadAsksWhoIsInItsWay: it takes a walk through all processes.
func TestOnlyAReloadAsksWhoIsInItsWay(t *testing.T) {
	for _, c := range []struct {
		want Spec
		asks bool
	}{{Spec{Stack: DOCAOFED}, true}, {Spec{Stack: DOCAOFED, Reboot: true}, false}, {Spec{Stack: Inbox}, false}} {
		if got := needsOf(c.want).Reload; got != c.asks {
			t.Errorf("%+v: %v", c.want, got)
		}
	}
}

// TestAPlanHoldsWhoeverComesAndGoes: a process that opens a device makes no plan stale.
func TestAPlanHoldsWhoeverComesAndGoes(t *testing.T) {
	raw, err := json.Marshal(Spec{Stack: MLNXOFED, Bundle: note000})
	if err != nil {
		t.Fatal(err)
	}
	var digests []string
	for _, users := range [][]host.RDMAUser{nil, {{Name: "ibacm", PID: 3}}} {
		d, err := Kinds()[0].Plan(note000Host(func(s *facts.Snapshot) { part.Of(s).Reload = &Reload{Users: users} }), raw)
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, d.Seen)
	}
	if digests[0] != digests[1] {
		t.Error(digests)
	}
}
