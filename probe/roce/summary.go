package roce

import (
	"cmp"
	"net/netip"
	"slices"
)

// Flow has the packets from one host to one queue pair of another.
type Flow struct {
	Source netip.Addr `json:"source"`
	Target netip.Addr `json:"target"`
	// SourceQP is the sender's queue pair. Only datagrams contain it. For other packets it is found if the
	// sequence numbers of the answers match the requests of exactly one queue pair; otherwise it is 0.
	SourceQP uint32  `json:"source_qp,omitempty"`
	TargetQP uint32  `json:"target_qp"`
	Packets  uint64  `json:"packets"`
	Payload  uint64  `json:"payload"` // bytes
	Opcodes  []Count `json:"opcodes"` // by opcode
	// Retransmitted counts requests and read responses whose PSN was not above all earlier ones. Packets that
	// the network duplicated or reordered count, too.
	Retransmitted uint64 `json:"retransmitted,omitempty"`
	NAKs          uint64 `json:"naks,omitempty"`
	RNRs          uint64 `json:"rnrs,omitempty"`
	CNPs          uint64 `json:"cnps,omitempty"`
	Marked        uint64 `json:"marked,omitempty"`   // by a congested switch
	BadICRC       uint64 `json:"bad_icrc,omitempty"` // the receiver drops these
}

// Count is the number of packets with an opcode.
type Count struct {
	Opcode  string `json:"opcode"`
	Packets uint64 `json:"packets"`
}

// maxFlows limits a summary's memory; every RDMA connection has two flows.
const maxFlows = 4096

// maxTries limits how often a flow's sender is searched for, in all flows.
const maxTries = 16

// Summary counts packets by flow. The zero value is ready to use.
type Summary struct {
	// Others counts packets of flows beyond the first 4096; nothing else is known about them.
	Others uint64
	flows  map[flowKey]*flow
}

type flowKey struct {
	source, target netip.Addr
	qp             uint32
}

type flow struct {
	Flow
	counts              [256]uint64
	requests, responses sequence
	peer                *flow // the other direction, once it is found
	tries               int
}

// Add counts a packet. Packets must be added in the order in which they were captured.
func (s *Summary) Add(p *Packet) {
	f := s.flow(flowKey{p.Source, p.Target, p.TargetQP})
	if f == nil {
		s.Others++
		return
	}
	f.Packets++
	f.Payload += uint64(p.Payload)
	f.counts[p.Opcode]++
	if p.AETH != nil && p.AETH.Syndrome.NAK() {
		f.NAKs++
	}
	if p.AETH != nil && p.AETH.Syndrome.RNR() {
		f.RNRs++
	}
	if p.Opcode == CNP {
		f.CNPs++
	}
	if p.CongestionExperienced() {
		f.Marked++
	}
	if p.ICRCState == Bad {
		f.BadICRC++
		return // its fields may be wrong
	}
	if p.DETH != nil {
		f.SourceQP = p.DETH.SourceQP
	}
	if !p.Opcode.reliable() {
		return
	}
	// Acknowledgements repeat PSNs by design, and may come for several packets at once.
	switch {
	case p.Opcode.readResponse():
		f.Retransmitted += f.responses.see(p.PSN)
	case !p.Opcode.response():
		f.Retransmitted += f.requests.see(p.PSN)
	}
	if !p.Opcode.response() {
		return
	}
	if f.peer == nil && f.tries < maxTries {
		f.tries++
		s.pair(f, p.PSN)
	}
	// A read request uses one PSN for each packet of its answer.
	if f.peer != nil {
		f.peer.requests.see(p.PSN)
	}
}

func (s *Summary) flow(key flowKey) *flow {
	if f := s.flows[key]; f != nil {
		return f
	}
	if len(s.flows) >= maxFlows {
		return nil
	}
	if s.flows == nil {
		s.flows = map[flowKey]*flow{}
	}
	f := &flow{Flow: Flow{Source: key.source, Target: key.target, TargetQP: key.qp}}
	s.flows[key] = f
	return f
}

// pair finds the opposite flow of f: the one whose requests match f's response with this PSN. Connections start at
// random PSNs, so usually only one flow matches.
func (s *Summary) pair(f *flow, psn uint32) {
	var found *flow
	for key, g := range s.flows {
		if key.source != f.Target || key.target != f.Source || !g.requests.near(psn) {
			continue
		}
		if found != nil {
			return
		}
		found = g
	}
	if found != nil && found != f && found.peer == nil {
		f.SourceQP, found.SourceQP = found.TargetQP, f.TargetQP
		f.peer, found.peer = found, f
	}
}

// Flows returns all flows, sorted by addresses and queue pair.
func (s *Summary) Flows() []Flow {
	out := make([]Flow, 0, len(s.flows))
	for _, f := range s.flows {
		one := f.Flow
		for op, n := range f.counts {
			if n > 0 {
				one.Opcodes = append(one.Opcodes, Count{Opcode(op).String(), n})
			}
		}
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b Flow) int {
		return cmp.Or(a.Source.Compare(b.Source), a.Target.Compare(b.Target), cmp.Compare(a.TargetQP, b.TargetQP))
	})
	return out
}

// sequence has the first and the highest PSN seen. PSNs wrap at 24 bits.
type sequence struct {
	seen        bool
	first, last uint32
}

// see records a PSN. It returns 1 if the PSN is not above all earlier ones, otherwise 0.
func (q *sequence) see(psn uint32) uint64 {
	if !q.seen {
		*q = sequence{seen: true, first: psn, last: psn}
		return 0
	}
	if ahead := (psn - q.last) & 0xffffff; ahead == 0 || ahead >= 1<<23 {
		return 1
	}
	q.last = psn
	return 0
}

// near reports whether a request of this sequence may have used the PSN, or a read at its end may have reserved it
// for the answer.
func (q *sequence) near(psn uint32) bool {
	const reserved = 1 << 16
	return q.seen && (psn-q.first)&0xffffff <= ((q.last-q.first)&0xffffff)+reserved
}
