package apply

import (
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/nccl"
	"github.com/fabricform/fabricform/resource"
)

// HostFacts is what was read from one host.
type HostFacts struct {
	Name    string            `json:"name"`
	NICs    map[string]string `json:"nics,omitempty"` // netdev -> NIC of the files
	Facts   *facts.Snapshot   `json:"facts"`
	Records []resource.Record `json:"records,omitempty"`
	// Findings are remarks on GPUs and NICs.
	Findings []string `json:"findings,omitempty"`
}

// HostFacts returns what was read last from each host that answered, in the order of the files.
func (s *Session) HostFacts() (out []HostFacts) {
	seen, records := s.Facts(), s.Records()
	for _, h := range s.Fabric.Hosts {
		snap := seen[h.Name]
		if snap == nil {
			continue
		}
		f := HostFacts{Name: h.Name, NICs: map[string]string{}, Facts: snap, Records: records[h.Name],
			Findings: nccl.Findings(s.Fabric, h, snap)}
		for _, n := range h.NICs {
			if l := nccl.Netdev(snap, n); l != nil {
				f.NICs[l.Name] = n.Name
			}
		}
		out = append(out, f)
	}
	return out
}
