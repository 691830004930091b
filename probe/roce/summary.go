package roce

import (
	"cmp"
	"net/netip"
	"slices"
)

// Flow is what went from one host to one queue pair of another.
type Flow struct {
	Source netip.Addr `json:"source"`
	Target netip.Addr `json:"target"`
	// SourceQP is the sender's, which only datagrams tell. For the others it is found where answers carry
	// sequence numbers that the requests of just one queue pair had; else it is 0.
	SourceQP uint32  `json:"source_qp,omitempty"`
	TargetQP uint32  `json:"target_qp"`
	Packets  uint64  `json:"packets"`
	Payload  uint64  `json:"payload"` // bytes
	Opcodes  []Count `json:"opcodes"` // by opcode
	// Retransmitted are requests and read responses whose PSN was not above all before it. A packet that
	// the network doubled or reordered counts too.
	Retransmitted uint64 `json:"retransmitted,omitempty"`
	NAKs          uint64 `json:"naks,omitempty"`
	RNRs          uint64 `json:"rnrs,omitempty"`
	CNPs          uint64 `json:"cnps,omitempty"`
	Marked        uint64 `json:"marked,omitempty"`   // by a congested switch
	BadICRC       uint64 `json:"bad_icrc,omitempty"` // the receiver drops these
}

// Count is how many packets had an opcode.
type Count struct {
	Opcode  string `json:"opcode"`
	Packets uint64 `json:"packets"`
}

// maxFlows bounds a summary's memory; every RDMA connection is two flows.
const maxFlows = 4096

// maxTries bounds the search for a flow's sender, which looks through all flows.
const maxTries = 16

// Summary sums packets up by flow. The zero value is empty and ready.
type Summary struct {
	// Others are packets of flows beyond the first 4096, which are not looked at.
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

// Add counts a packet. Packets come in the order in which they were seen.
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
		return // its numbers may be wrong
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
	// A read request stands for as many PSNs as it is answered with.
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

// pair finds the flow whose requests a flow's response with this PSN answers: they go to each other's
// senders. Connections begin at random PSNs, so that mostly only one fits.
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

// Flows are all flows, sorted by addresses and queue pair.
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

// sequence is the highest PSN seen, of numbers that wrap at 24 bits.
type sequence struct {
	seen        bool
	first, last uint32
}

// see is 1 if the PSN is not above all before it.
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

// near is true of a PSN that a request of this sequence had, or that a read at its end reserved for the
// answer.
func (q *sequence) near(psn uint32) bool {
	const reserved = 1 << 16
	return q.seen && (psn-q.first)&0xffffff <= ((q.last-q.first)&0xffffff)+reserved
}
