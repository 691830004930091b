package nccl

import (
	"testing"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
)

func TestTheLaneIsThatOfTheFileWhichNCCLReads(t *testing.T) {
	no := false
	theirs := map[string]facts.File{fabric.NCCLConf: {Text: "NCCL_IB_TC=160\nNCCL_IB_TC=1\nNCCL_IB_SL=5\n"}}
	for name, c := range map[string]struct {
		nccl  fabric.NCCL
		files map[string]facts.File
		want  Lane
	}{
		"NCCL's default":                      {fabric.NCCL{}, nil, Lane{}},
		"declared":                            {fabric.NCCL{Env: map[string]string{"NCCL_IB_TC": "0x6a", "NCCL_IB_SL": "3"}}, nil, Lane{106, 3}},
		"the same as unset":                   {fabric.NCCL{Env: map[string]string{"NCCL_IB_TC": "-1"}}, nil, Lane{}},
		"a file of the host":                  {fabric.NCCL{}, theirs, Lane{160, 5}},
		"a file of the host that we leave":    {fabric.NCCL{Write: &no, Block: fabric.Block{Pos: fabric.Pos{Line: 1}}}, theirs, Lane{160, 5}},
		"a file of the host, and one is ours": {fabric.NCCL{Env: map[string]string{"NCCL_IB_TC": "106"}}, theirs, Lane{106, 5}},
		"a file that apply writes":            {fabric.NCCL{Env: map[string]string{"NCCL_IB_TC": "106"}, Block: fabric.Block{Pos: fabric.Pos{Line: 1}}}, theirs, Lane{106, 0}},
	} {
		h := &fabric.Host{Name: "a"}
		f := &fabric.Fabric{Hosts: []*fabric.Host{h}, NCCL: c.nccl}
		if got := LaneOf(f, h, &facts.Snapshot{Files: c.files}); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
