// Package roce reads RoCE v2: it decodes Ethernet frames, checks their ICRC, sums them up by queue pair,
// and reads and writes captures. It captures nothing itself.
//
// The wire format is that of the InfiniBand Architecture Specification, volume 1, chapter 9, and its
// annex A17 for RoCE v2; the kernel's drivers/infiniband/sw/rxe is a readable implementation.
package roce

import (
	"net/netip"
)

// Port is RoCE v2's UDP destination port.
const Port = 4791

// Packet is one RoCE v2 packet. The headers that its opcode does not have are nil.
type Packet struct {
	VLANs  []uint16   `json:"vlans,omitempty"` // ids, outermost first
	Source netip.Addr `json:"source"`
	Target netip.Addr `json:"target"`
	// SourcePort is of UDP. It spreads queue pairs over a network's paths and means nothing else.
	SourcePort uint16 `json:"source_port"`
	// TrafficClass is DSCP<<2 | ECN.
	TrafficClass uint8 `json:"traffic_class"`
	TTL          uint8 `json:"ttl"`
	BTH

	RDETH     *uint32    `json:"rdeth,omitempty"`  // end-to-end context, 24 bits
	XRCETH    *uint32    `json:"xrceth,omitempty"` // shared receive queue, 24 bits
	DETH      *DETH      `json:"deth,omitempty"`
	FETH      *uint32    `json:"feth,omitempty"` // what FLUSH makes visible and persistent
	RETH      *RETH      `json:"reth,omitempty"`
	Atomic    *AtomicETH `json:"atomic,omitempty"`
	AETH      *AETH      `json:"aeth,omitempty"`
	AtomicAck *uint64    `json:"atomic_ack,omitempty"` // what was there before
	Immediate *uint32    `json:"immediate,omitempty"`
	// Invalidate is the remote key of an IETH.
	Invalidate *uint32 `json:"invalidate,omitempty"`

	// Payload is in bytes, without padding and ICRC. It is what the lengths in the headers say, whether
	// the capture has it all or not.
	Payload int `json:"payload"`
	// ICRC is the packet's last four bytes, the first one highest, as Wireshark shows it. It is 0 where
	// ICRCState is Unchecked because the frame is cut off.
	ICRC      uint32    `json:"icrc"`
	ICRCState ICRCState `json:"icrc_state"`
}

// BTH is the base transport header.
type BTH struct {
	Opcode    Opcode `json:"opcode"`
	Solicited bool   `json:"solicited,omitempty"`
	Migrated  bool   `json:"migrated,omitempty"` // MigReq
	Pad       uint8  `json:"pad,omitempty"`      // bytes, 0 to 3
	Version   uint8  `json:"version,omitempty"`  // always 0 so far
	PKey      uint16 `json:"pkey"`
	FECN      bool   `json:"fecn,omitempty"`
	BECN      bool   `json:"becn,omitempty"`
	TargetQP  uint32 `json:"target_qp"` // 24 bits; the receiver's
	// AckRequest asks for an acknowledgement at once.
	AckRequest bool   `json:"ack_request,omitempty"`
	PSN        uint32 `json:"psn"` // 24 bits
}

// RETH says where in the receiver's memory a read or write begins.
type RETH struct {
	VirtualAddress uint64 `json:"virtual_address"`
	RKey           uint32 `json:"rkey"`
	Length         uint32 `json:"length"` // bytes, of the whole message
}

// AETH is an answer.
type AETH struct {
	Syndrome Syndrome `json:"syndrome"`
	MSN      uint32   `json:"msn"` // 24 bits: messages completed
}

// DETH is the datagram header.
type DETH struct {
	QKey     uint32 `json:"qkey"`
	SourceQP uint32 `json:"source_qp"` // 24 bits
}

// AtomicETH is an atomic operation on 8 bytes.
type AtomicETH struct {
	VirtualAddress uint64 `json:"virtual_address"`
	RKey           uint32 `json:"rkey"`
	SwapOrAdd      uint64 `json:"swap_or_add"`
	Compare        uint64 `json:"compare"`
}

// ICRCState is what a packet's checksum proves.
type ICRCState uint8

// The states. Unchecked: the frame is cut off, or has IPv4 options, over which no two implementations
// agree.
const (
	Unchecked ICRCState = iota
	Good
	Bad
)

// CongestionExperienced is true where a switch on the way marked the packet (ECN 11).
func (p *Packet) CongestionExperienced() bool { return p.TrafficClass&3 == 3 }
