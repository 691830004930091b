package validators

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/facts"
)

// machine is a host as parity sees it.
func machine(kernel, stack, rdmaCore, firmware string) *facts.Snapshot {
	return &facts.Snapshot{System: facts.System{Kernel: kernel}, GPUDriver: "580.1", NCCL: []facts.Library{{Version: "2.27.3"}, {Version: "2.27.3"}},
		Versions: map[string]facts.Version{facts.DriverStack: {Installed: stack}, "rdma-core": {Installed: rdmaCore}},
		RDMA:     []facts.RDMADevice{{Name: "mlx5_0", Board: "MT_1", Firmware: firmware}, {Name: "mlx5_1", Board: "MT_2", Firmware: "1"}, {Name: "rxe0", Virtual: true}}}
}

func TestParity(t *testing.T) {
	same := func() *facts.Snapshot { return machine("6.12", "inbox", "56.1", "22.40") }
	for _, c := range []struct {
		name   string
		change func(*facts.Snapshot)
		want   string // what is not passed, as "verdict host what: measured"
	}{
		{"equal hosts", func(*facts.Snapshot) {}, ""},
		{"kernel", func(s *facts.Snapshot) { s.System.Kernel = "6.1" }, "warn c version kernel: 6.12 on a b, 6.1 on c"},
		{"stack", func(s *facts.Snapshot) { s.Versions[facts.DriverStack] = facts.Version{Installed: "mlnx_ofed 24.10"} }, "fail c version driver stack: inbox on a b, mlnx_ofed 24.10 on c"},
		{"rdma-core is missing", func(s *facts.Snapshot) { delete(s.Versions, "rdma-core") }, "warn c version rdma-core: 56.1 on a b, none on c"},
		{"perftest on one host only", func(s *facts.Snapshot) { s.Versions["perftest"] = facts.Version{Installed: "25.01"} }, "warn c version perftest: none on a b, 25.01 on c"},
		{"firmware within a PSID", func(s *facts.Snapshot) { s.RDMA[0].Firmware = "22.39" }, "warn c firmware MT_1: 22.40 on a b, 22.39 on c"},
		{"firmware of another PSID", func(s *facts.Snapshot) { s.RDMA[1].Board, s.RDMA[1].Firmware = "MT_3", "9" }, ""},
		{"NCCL", func(s *facts.Snapshot) { s.NCCL[0].Version = "2.21.5" }, "warn c version NCCL: 2.27.3 on a b, 2.21.5 and 2.27.3 on c"},
		{"a host without GPUs", func(s *facts.Snapshot) { s.GPUDriver, s.NCCL = "", nil }, ""},
		{"a broken installation", func(s *facts.Snapshot) {
			s.Versions["perftest"] = facts.Version{Unfinished: "half-configured"}
		}, "fail c installation perftest: half-configured"},
	} {
		r := &run{snapshots: map[string]*facts.Snapshot{"a": same(), "b": same(), "c": same()}}
		c.change(r.snapshots["c"])
		var got []string
		for _, res := range r.parity(t.Context(), nil) {
			if res.Verdict != Pass {
				got = append(got, fmt.Sprintf("%s %s %s %s: %s", res.Verdict, cmp.Or(res.Host, strings.Join(res.Hosts, " ")), res.Item, res.Object, values(res)))
			}
		}
		if strings.Join(got, "; ") != c.want {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}

func TestParityOfOneHostOrOneMachineIsNone(t *testing.T) {
	lab := machine("6.12", "inbox", "56.1", "1")
	lab.System.Lab = true
	r := &run{snapshots: map[string]*facts.Snapshot{"a": lab, "b": lab}}
	if got := r.parity(t.Context(), nil); len(got) != 1 || got[0].Verdict != Skip {
		t.Errorf("%+v", got)
	}
	delete(r.snapshots, "b")
	if got := r.parity(t.Context(), nil); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}
