package fabric

import "fmt"

// QoS is a class of traffic: how a NIC marks, sorts and protects its packets. Attributes that are not set are left alone on the
// hosts. Per port there is one lossless class: pauses of one priority would otherwise stop another.
type QoS struct {
	Block
	Name string

	// DSCP of the class: the upper six bits of the traffic class byte, so that a traffic class of 160 is DSCP 40.
	DSCP *int `ff:"dscp,min=0,max=63,shape=dscp"`
	// Priority of the class. NICs that trust the DSCP map `dscp` to it.
	Priority *int `ff:"priority,min=0,max=7"`
	// Whether priority flow control (IEEE 802.1Qbb) makes `priority` lossless. It is then off for all other priorities.
	PFC *bool `ff:"pfc"`
	// Whether packets of the class may be marked by switches (ECN), and the NICs slow down if they are.
	ECN *bool `ff:"ecn"`
	// What gives a received packet its priority: the DSCP, or the priority code point (PCP) of its VLAN tag.
	Trust string `ff:"trust,one=dscp|pcp"`
	// DSCP of the congestion notification packets (CNP) that answer marked packets.
	CNPDSCP *int `ff:"cnp_dscp,min=0,max=63,shape=dscp"`
	// Shares of the bandwidth in percent, by priority, such as `{ 5 = 60, 0 = 40 }`. Their sum is 100.
	ETS map[int]int `ff:"ets"`
	// Bytes of receive buffer, by priority, such as `{ 5 = 524288 }`. Each of these priorities gets a buffer that no other priority has.
	Buffer map[int]int `ff:"buffer"`
	// Whether the NIC sends and obeys pause frames for the whole port (IEEE 802.3x). They cannot be used beside `pfc`.
	Pause *bool `ff:"pause"`
	// Whether connections through rdma_cm use RoCE v2 and this class, unless their program chooses another one. If false, they have
	// traffic class 0.
	RDMACM *bool `ff:"rdma_cm"`
}

// QoSRef is the name of a qos block.
type QoSRef string

// QoS returns the qos block of that name, or nil.
func (f *Fabric) QoS(name QoSRef) *QoS {
	for _, q := range f.Classes {
		if q.Name == string(name) {
			return q
		}
	}
	return nil
}

// ect0 is the code point 0b10 of RFC 3168 (ECN-capable transport): switches may mark the packet instead of dropping it.
const ect0 = 2

// TrafficClass returns the traffic class byte of the class, as NCCL_IB_TC and `ib_write_bw --tclass` have it: the DSCP in the upper
// six bits, and that the packet is ECN-capable in the lower two if ecn is set. ok is false if the block sets no DSCP.
func (q *QoS) TrafficClass() (tc int, ok bool) {
	if q == nil || q.DSCP == nil {
		return 0, false
	}
	tc = *q.DSCP << 2
	if q.ECN != nil && *q.ECN {
		tc |= ect0
	}
	return tc, true
}

// Lossless reports whether PFC is on for the class.
func (q *QoS) Lossless() bool { return q != nil && q.PFC != nil && *q.PFC }

// Contradiction says how a value of NCCL_IB_TC or NCCL_IB_SL contradicts the class; "": it does not, or it is another variable. The bits
// of ECN may be 0, because NICs set them themselves.
func (q *QoS) Contradiction(variable string, value int) string {
	tc, set := q.TrafficClass()
	switch {
	case variable == "NCCL_IB_TC" && set && value != tc && value != tc&^3:
		return fmt.Sprintf("its traffic class is %d", tc)
	case variable == "NCCL_IB_SL" && q != nil && q.Priority != nil && value != *q.Priority:
		return fmt.Sprintf("its priority is %d", *q.Priority)
	}
	return ""
}
