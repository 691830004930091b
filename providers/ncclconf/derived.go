package ncclconf

import (
	"cmp"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/nccl"
	"github.com/fabricform/fabricform/resource"
)

// Looks returns resources that make Gather read the facts for Derived. They include the folder of the file even if no
// file is written, because NCCL reads any file there.
func Looks(f *fabric.Fabric, h *fabric.Host) []resource.Resource {
	return []resource.Resource{resource.New(h.Name, Kind, "sources", fabric.Pos{},
		Spec{File: cmp.Or(f.NCCLFile(h), host.NCCLConf), Sources: true})}
}

// Derived returns the resource for the host's NCCL file, for the state that the host has after apply; none if the fabric
// declares no file. gone lists existing Soft-RoCE devices that apply removes.
func Derived(f *fabric.Fabric, h *fabric.Host, snap *facts.Snapshot, gone ...string) []resource.Resource {
	file := f.NCCLFile(h)
	if file == "" {
		return nil
	}
	after := nccl.AfterApply(h, snap, gone...)
	block := f.NCCLOf(h)
	s := Spec{Fabric: f.Name, File: file, Replace: block.Replace != nil && *block.Replace}
	var problems []nccl.Problem
	s.Env, problems = nccl.Derive(f, h, after)
	for _, v := range s.Env {
		if fabric.IsSensitive(v.Value) {
			if s.Sensitive == nil {
				s.Sensitive = map[string]string{}
			}
			s.Sensitive[v.Name] = fabric.Salt(v.Value)
		}
	}
	// A wrong GID fails silently and late, so nothing is written that would choose a wrong one. The effect of an
	// address that is not declared cannot be known in advance: it is reported, and verify fails.
	for _, p := range problems {
		if n := h.NIC(p.NIC); p.Of == nccl.WrongGID && n.AddressesSet {
			s.Wrong = append(s.Wrong, p.Text)
		} else {
			s.Notes = append(s.Notes, "NCCL: "+p.Text)
		}
	}
	s.Notes = append(s.Notes, elsewhere(snap, file)...)
	pos := h.NCCL.Pos
	if pos == (fabric.Pos{}) {
		pos = f.NCCL.Pos
	}
	return []resource.Resource{resource.New(h.Name, Kind, "file", pos, s)}
}
