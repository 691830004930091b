// Package roce decodes RoCE v2 packets from Ethernet frames, checks their ICRC, summarizes them by queue pair, and
// writes capture files. It does not capture.
//
// The InfiniBand Architecture Specification, volume 1, chapter 9, and its annex A17 for RoCE v2 define the format; the
// kernel's drivers/infiniband/sw/rxe is a readable implementation.
package roce

import (
	"net/netip"
)

// Port is RoCE v2's UDP destination port.
const Port = 4791

// Packet is one RoCE v2 packet. Headers that its opcode does not have are nil.
type Packet struct {
	VLANs  []uint16   `json:"vlans,omitempty"` // ids, outermost first
	Source netip.Addr `json:"source"`
	Target netip.Addr `json:"target"`
	// SourcePort is the UDP source port. It only spreads queue pairs over a network's paths.
	SourcePort uint16 `json:"source_port"`
	// TrafficClass is DSCP<<2 | ECN.
	TrafficClass uint8 `json:"traffic_class"`
	TTL          uint8 `json:"ttl"`
	BTH

	RDETH     *uint32    `json:"rdeth,omitempty"`  // end-to-end context, 24 bits
	XRCETH    *uint32    `json:"xrceth,omitempty"` // shared receive queue, 24 bits
	DETH      *DETH      `json:"deth,omitempty"`
	FETH      *uint32    `json:"feth,omitempty"` // the data that FLUSH makes visible and persistent
	RETH      *RETH      `json:"reth,omitempty"`
	Atomic    *AtomicETH `json:"atomic,omitempty"`
	AETH      *AETH      `json:"aeth,omitempty"`
	AtomicAck *uint64    `json:"atomic_ack,omitempty"` // the earlier value
	Immediate *uint32    `json:"immediate,omitempty"`
	// Invalidate is the remote key of an IETH.
	Invalidate *uint32 `json:"invalidate,omitempty"`

	// Payload is the length of the payload in bytes, without padding and ICRC. It comes from the headers; the
	// capture may have less.
	Payload int `json:"payload"`
	// ICRC is the packet's last four bytes, the first one highest, as in Wireshark. It is 0 if the frame is
	// cut off.
	ICRC      uint32    `json:"icrc"`
	ICRCState ICRCState `json:"icrc_state"`
}

// BTH is the base transport header.
type BTH struct {
	Opcode    Opcode `json:"opcode"`
	Solicited bool   `json:"solicited,omitempty"`
	Migrated  bool   `json:"migrated,omitempty"` // MigReq
	Pad       uint8  `json:"pad,omitempty"`      // bytes, 0 to 3
	Version   uint8  `json:"version,omitempty"`  // always 0 today
	PKey      uint16 `json:"pkey"`
	FECN      bool   `json:"fecn,omitempty"`
	BECN      bool   `json:"becn,omitempty"`
	TargetQP  uint32 `json:"target_qp"` // 24 bits; the receiver's
	// AckRequest asks for an immediate acknowledgement.
	AckRequest bool   `json:"ack_request,omitempty"`
	PSN        uint32 `json:"psn"` // 24 bits
}

// RETH is the RDMA header: where in the receiver's memory a read or write begins.
type RETH struct {
	VirtualAddress uint64 `json:"virtual_address"`
	RKey           uint32 `json:"rkey"`
	Length         uint32 `json:"length"` // bytes, of the whole message
}

// AETH is the acknowledgement header.
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

// ICRCState is the result of the ICRC check.
type ICRCState uint8

// The states. Unchecked means that the frame is cut off or has IPv4 options, which implementations handle
// differently.
const (
	Unchecked ICRCState = iota
	Good
	Bad
)

// CongestionExperienced reports whether a switch on the path marked the packet (ECN 11).
func (p *Packet) CongestionExperienced() bool { return p.TrafficClass&3 == 3 }
