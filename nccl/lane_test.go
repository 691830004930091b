package nccl

import (
	"strings"
	"testing"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
)

func TestTheLaneIsThatOfTheFileWhichNCCLReads(t *testing.T) {
	no, dscp, priority := false, 40, 5
	lossless := &fabric.QoS{Name: "lossless", DSCP: &dscp, Priority: &priority}
	theirs := map[string]facts.File{fabric.NCCLConf: {Text: "NCCL_IB_TC=160\nNCCL_IB_TC=1\nNCCL_IB_SL=5\n"}}
	for name, c := range map[string]struct {
		nccl  fabric.NCCL
		qos   *fabric.QoS
		files map[string]facts.File
		want  Lane
	}{
		"NCCL's default":                       {fabric.NCCL{}, nil, nil, Lane{}},
		"declared":                             {fabric.NCCL{Env: map[string]string{"NCCL_IB_TC": "0x6a", "NCCL_IB_SL": "3"}}, nil, nil, Lane{106, 3}},
		"the same as unset":                    {fabric.NCCL{Env: map[string]string{"NCCL_IB_TC": "-1"}}, nil, nil, Lane{}},
		"a file of the host":                   {fabric.NCCL{}, nil, theirs, Lane{160, 5}},
		"a file of the host that we leave":     {fabric.NCCL{Write: &no, Block: fabric.Block{Pos: fabric.Pos{Line: 1}}}, nil, theirs, Lane{160, 5}},
		"a file of the host, and one is ours":  {fabric.NCCL{Env: map[string]string{"NCCL_IB_TC": "106"}}, nil, theirs, Lane{106, 5}},
		"a file that apply writes":             {fabric.NCCL{Env: map[string]string{"NCCL_IB_TC": "106"}, Block: fabric.Block{Pos: fabric.Pos{Line: 1}}}, nil, theirs, Lane{106, 0}},
		"the NIC's class":                      {fabric.NCCL{}, lossless, nil, Lane{160, 5}},
		"the NIC's class, and a file":          {fabric.NCCL{}, lossless, map[string]facts.File{fabric.NCCLConf: {Text: "NCCL_IB_TC=106\n"}}, Lane{160, 5}},
		"the class of another NIC is declared": {fabric.NCCL{Env: map[string]string{"NCCL_IB_TC": "104"}}, lossless, nil, Lane{160, 5}},
		"declared beside the class":            {fabric.NCCL{Env: map[string]string{"NCCL_IB_TC": "0xa0"}}, lossless, nil, Lane{160, 5}},
	} {
		n := &fabric.NIC{Name: "rail0", Host: "a", QoS: c.qos}
		h := &fabric.Host{Name: "a", NICs: []*fabric.NIC{n}}
		f := &fabric.Fabric{Hosts: []*fabric.Host{h}, NCCL: c.nccl}
		if got := LaneOf(f, h, n, &facts.Snapshot{Files: c.files}); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// TestNCCLGetsTheClassOfItsNICs: of the NICs for collectives, with the reason, and not with sockets.
func TestNCCLGetsTheClassOfItsNICs(t *testing.T) {
	dscp, priority, ecn := 40, 5, true
	f, h := pairOf()
	h.NICs[0].QoS = &fabric.QoS{Name: "lossless", DSCP: &dscp, Priority: &priority, ECN: &ecn}
	derived := func() string {
		env, _ := Derive(f, h, snapshot("ACTIVE"))
		got, err := RenderConf(env)
		if err != nil {
			t.Fatal(err)
		}
		return string(got)
	}
	for _, want := range []string{"# qos.lossless of rail0: DSCP 40 times 4, plus 2 because switches may mark the packets (ECN)\nNCCL_IB_TC=162\n",
		"# qos.lossless of rail0: the priority of packets with a VLAN tag\nNCCL_IB_SL=5\n"} {
		if got := derived(); !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	f.NCCL.Env = map[string]string{"NCCL_IB_TC": "160"} // without the bits of ECN, which NICs set themselves
	if got := derived(); !strings.Contains(got, "declared in nccl.env, instead of 162\nNCCL_IB_TC=160\n") {
		t.Error(got)
	}
	f.NCCL = fabric.NCCL{Transport: "socket"}
	if got := derived(); strings.Contains(got, "NCCL_IB_TC") {
		t.Error(got)
	}
	f.NCCL, f.Links[0].Role = fabric.NCCL{}, "storage"
	if got := derived(); strings.Contains(got, "NCCL_IB_TC") {
		t.Error(got)
	}
}
