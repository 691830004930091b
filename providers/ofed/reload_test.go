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
	held := func(users ...string) []facts.StackModule {
		return []facts.StackModule{{Name: "ib_core", Is: true, Users: users}}
	}
	for _, c := range []struct {
		name   string
		stack  facts.Stack
		rxe    []string
		reason string // "": none
	}{
		{"nothing is loaded", facts.Stack{}, nil, ""},
		{"nobody is in the way", facts.Stack{Modules: held("ib_cm", "ib_uverbs", "mlx5_ib", "rdma_cm"), Reload: &facts.StackReload{}}, nil, ""},
		{"what openibd unloads", facts.Stack{Modules: held("mlx5_fwctl", "mlx5_dpll", "mlxdevm", "rdma_rxe", "rdma_ucm")}, nil, ""},
		{"what it unloads, and somebody misses", facts.Stack{Modules: held("mlx5_vdpa", "rnbd_client", "rds_rdma", "iw_cxgb4", "mlx5_ib")}, nil,
			"iw_cxgb4, mlx5_vdpa, rds_rdma, rnbd_client use it (unload them)"},
		{"Lustre", facts.Stack{Modules: held("ko2iblnd", "rdma_cm")}, nil, "ko2iblnd uses it (unload it)"},
		{"another maker's card", facts.Stack{Modules: held("bnxt_re")}, nil, "bnxt_re uses it (unload it)"},
		{"a subnet manager", facts.Stack{Reload: &facts.StackReload{Users: []host.RDMAUser{opensm}}}, nil, "process opensm (pid 812) has /dev/infiniband/umad0 open (stop it)"},
		{"those that openibd stops", facts.Stack{Reload: &facts.StackReload{Users: []host.RDMAUser{{Name: "ibacm", PID: 3}, {Name: "srp_daemon", PID: 4}}}}, nil, ""},
		{"a job", facts.Stack{Reload: &facts.StackReload{Users: []host.RDMAUser{rank(1), rank(2), rank(3), rank(4), rank(5)}}}, nil,
			"process python3 (pid 1) has /dev/infiniband/uverbs0 open, process python3 (pid 2) has /dev/infiniband/uverbs0 open, process python3 (pid 3) has /dev/infiniband/uverbs0 open and 2 more (stop them)"},
		{"virtual functions", facts.Stack{Reload: &facts.StackReload{Functions: []string{"0000:17:00.0", "0000:17:00.1"}}}, nil,
			"0000:17:00.0, 0000:17:00.1 have virtual functions, which would be gone (release their users, and write 0 to sriov_numvfs)"},
		{"openibd is forbidden to", facts.Stack{Reload: &facts.StackReload{Forbidden: true}}, nil,
			"/etc/infiniband/openib.conf forbids it, as it should where the root file system is on remote storage (set ALLOW_STOP=yes there if it is not)"},
		{"Soft-RoCE", facts.Stack{Modules: held("rdma_rxe")}, []string{"rxe0"}, "Soft-RoCE runs on rxe0, which vendors' stacks do not have (remove it)"},
		{"several", facts.Stack{Modules: held("nvidia_peermem"), Reload: &facts.StackReload{Users: []host.RDMAUser{opensm}}}, nil,
			"nvidia_peermem uses it (unload it), and while process opensm (pid 812) has /dev/infiniband/umad0 open (stop it)"},
	} {
		host := func(s *facts.Snapshot) {
			s.Stack.Modules, s.Stack.Reload = c.stack.Modules, c.stack.Reload
			for _, name := range c.rxe {
				s.RDMA = append(s.RDMA, facts.RDMADevice{Name: name, Port: 1, Driver: "rxe", Virtual: true})
			}
		}
		mlnx := Spec{Stack: facts.MLNXOFED, Bundle: note000}
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
	}{{Spec{Stack: facts.DOCAOFED}, true}, {Spec{Stack: facts.DOCAOFED, Reboot: true}, false}, {Spec{Stack: facts.Inbox}, false}} {
		if got := needs(c.want).Reload; got != c.asks {
			t.Errorf("%+v: %v", c.want, got)
		}
	}
}

// TestAPlanHoldsWhoeverComesAndGoes: a process that opens a device makes no plan stale.
func TestAPlanHoldsWhoeverComesAndGoes(t *testing.T) {
	raw, err := json.Marshal(Spec{Stack: facts.MLNXOFED, Bundle: note000})
	if err != nil {
		t.Fatal(err)
	}
	var digests []string
	for _, users := range [][]host.RDMAUser{nil, {{Name: "ibacm", PID: 3}}} {
		d, err := Kinds()[0].Plan(note000Host(func(s *facts.Snapshot) { s.Stack.Reload = &facts.StackReload{Users: users} }), raw)
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, d.Seen)
	}
	if digests[0] != digests[1] {
		t.Error(digests)
	}
}
