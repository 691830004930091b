package roce

import "fmt"

// Opcode is the opcode of a BTH: three bits of transport service, five of operation.
type Opcode uint8

// CNP is the congestion notification packet (InfiniBand specification, annex A17.9.3).
const CNP Opcode = 0x81

// The operations that this package treats specially, without their service.
const (
	opSendOnly     = 0x04
	opSendOnlyImm  = 0x05
	opReadRequest  = 0x0c
	opReadFirst    = 0x0d
	opReadOnly     = 0x10
	opAcknowledge  = 0x11
	opAtomicAck    = 0x12
	opLastOfUC     = 0x0b
	opLastOfRD     = 0x15
	operationsMask = 0x1f
)

// services are the opcode's high three bits (enum in the kernel's include/rdma/ib_pack.h). 0xc0 and 0xe0 are
// manufacturer-specific and have no name.
var services = [8]string{"RC", "UC", "RD", "UD", "CNP", "XRC", "", ""}

const (
	serviceRC = iota
	serviceUC
	serviceRD
	serviceUD
	serviceCNP
	serviceXRC
)

// headers is a set of extension headers, in the order in which they follow the BTH.
type headers uint16

const (
	hasRDETH headers = 1 << iota
	hasXRCETH
	hasDETH
	hasFETH
	hasRETH
	hasAtomicETH
	hasAETH
	hasAtomicAckETH
	hasImm
	hasIETH
)

// operations are the opcode's low five bits: names as in the kernel's include/rdma/ib_pack.h, headers
// as in its drivers/infiniband/sw/rxe/rxe_opcode.c.
var operations = [32]struct {
	name    string
	headers headers
}{
	0x00: {"SEND_FIRST", 0},
	0x01: {"SEND_MIDDLE", 0},
	0x02: {"SEND_LAST", 0},
	0x03: {"SEND_LAST_WITH_IMMEDIATE", hasImm},
	0x04: {"SEND_ONLY", 0},
	0x05: {"SEND_ONLY_WITH_IMMEDIATE", hasImm},
	0x06: {"RDMA_WRITE_FIRST", hasRETH},
	0x07: {"RDMA_WRITE_MIDDLE", 0},
	0x08: {"RDMA_WRITE_LAST", 0},
	0x09: {"RDMA_WRITE_LAST_WITH_IMMEDIATE", hasImm},
	0x0a: {"RDMA_WRITE_ONLY", hasRETH},
	0x0b: {"RDMA_WRITE_ONLY_WITH_IMMEDIATE", hasRETH | hasImm},
	0x0c: {"RDMA_READ_REQUEST", hasRETH},
	0x0d: {"RDMA_READ_RESPONSE_FIRST", hasAETH},
	0x0e: {"RDMA_READ_RESPONSE_MIDDLE", 0},
	0x0f: {"RDMA_READ_RESPONSE_LAST", hasAETH},
	0x10: {"RDMA_READ_RESPONSE_ONLY", hasAETH},
	0x11: {"ACKNOWLEDGE", hasAETH},
	0x12: {"ATOMIC_ACKNOWLEDGE", hasAETH | hasAtomicAckETH},
	0x13: {"COMPARE_SWAP", hasAtomicETH},
	0x14: {"FETCH_ADD", hasAtomicETH},
	0x15: {"RESYNC", 0},
	0x16: {"SEND_LAST_WITH_INVALIDATE", hasIETH},
	0x17: {"SEND_ONLY_WITH_INVALIDATE", hasIETH},
	0x1c: {"FLUSH", hasFETH | hasRETH},
	0x1d: {"ATOMIC_WRITE", hasRETH},
}

func (o Opcode) service() int   { return int(o >> 5) }
func (o Opcode) operation() int { return int(o & operationsMask) }

// known reports whether the opcode has a name and known headers.
func (o Opcode) known() bool {
	op := o.operation()
	switch o.service() {
	case serviceRC, serviceXRC:
		return operations[op].name != "" && op != opLastOfRD
	case serviceUC:
		return op <= opLastOfUC
	case serviceRD:
		return op <= opLastOfRD
	case serviceUD:
		return op == opSendOnly || op == opSendOnlyImm
	case serviceCNP:
		return o == CNP
	}
	return false
}

// String returns a name such as "RC SEND_ONLY", or the number of an opcode without a name.
func (o Opcode) String() string {
	switch {
	case o == CNP:
		return "CNP"
	case !o.known():
		return fmt.Sprintf("opcode %#02x", uint8(o))
	}
	return services[o.service()] + " " + operations[o.operation()].name
}

// headers returns the headers between the BTH and the payload.
func (o Opcode) headers() headers {
	if !o.known() || o == CNP {
		return 0
	}
	h := operations[o.operation()].headers
	switch o.service() {
	case serviceRD:
		h |= hasRDETH
		if !o.response() {
			h |= hasDETH
		}
	case serviceUD:
		h |= hasDETH
	case serviceXRC:
		if !o.response() {
			h |= hasXRCETH
		}
	}
	return h
}

// reliable reports whether the service acknowledges and retransmits.
func (o Opcode) reliable() bool {
	return o.service() == serviceRC || o.service() == serviceRD || o.service() == serviceXRC
}

// response reports whether the opcode is an acknowledgement or the data of a read.
func (o Opcode) response() bool {
	op := o.operation()
	return o.reliable() && op >= opReadFirst && op <= opAtomicAck
}

// readResponse reports whether the opcode is the data of a read.
func (o Opcode) readResponse() bool {
	op := o.operation()
	return o.reliable() && op >= opReadFirst && op <= opReadOnly
}
