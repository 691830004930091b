package roce

import (
	"fmt"
	"net/netip"
	"strings"
)

// Row is a packet as a line of a table.
type Row struct {
	Source   netip.Addr `json:"source"`
	Target   netip.Addr `json:"target"`
	Opcode   string     `json:"opcode"`
	TargetQP uint32     `json:"target_qp"`
	PSN      uint32     `json:"psn"`
	Payload  int        `json:"payload"` // bytes
	// Detail describes the extension headers and anything unusual.
	Detail string `json:"detail,omitempty"`
}

// Row returns the packet as a line of a table.
func (p *Packet) Row() Row {
	return Row{Source: p.Source, Target: p.Target, Opcode: p.Opcode.String(), TargetQP: p.TargetQP, PSN: p.PSN, Payload: p.Payload,
		Detail: p.detail()}
}

func (p *Packet) detail() string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if p.DETH != nil {
		add("from QP %d, qkey %#x", p.DETH.SourceQP, p.DETH.QKey)
	}
	if p.RETH != nil {
		add("%d bytes at %#x, rkey %#x", p.RETH.Length, p.RETH.VirtualAddress, p.RETH.RKey)
	}
	if p.Atomic != nil {
		add("at %#x, rkey %#x", p.Atomic.VirtualAddress, p.Atomic.RKey)
	}
	if p.AETH != nil {
		add("%s, MSN %d", p.AETH.Syndrome, p.AETH.MSN)
	}
	if p.Immediate != nil {
		add("immediate %#x", *p.Immediate)
	}
	if p.Invalidate != nil {
		add("invalidates rkey %#x", *p.Invalidate)
	}
	if p.AckRequest {
		add("ACK requested")
	}
	if p.CongestionExperienced() {
		add("congestion marked")
	}
	if p.ICRCState == Bad {
		add("ICRC is wrong")
	}
	return strings.Join(out, "; ")
}
