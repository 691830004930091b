package roce

import (
	"fmt"
	"time"
)

// Syndrome is an AETH's first byte: three bits of kind, five of value (InfiniBand specification, 9.7.5.2).
type Syndrome uint8

const (
	kindACK = 0
	kindRNR = 1
	kindNAK = 3
	// noCredits means that the receiver does not count its buffers.
	noCredits = 31
)

var nakReasons = []string{"PSN sequence error", "invalid request", "remote access error", "remote operational error", "invalid RD request"}

// rnrUnits are the timers of an RNR NAK in units of 10 µs (enum ib_rnr_timeout in the kernel's
// include/rdma/ib_verbs.h).
var rnrUnits = [32]int{
	65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192,
	256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
}

func (s Syndrome) kind() int  { return int(s >> 5) }
func (s Syndrome) value() int { return int(s & 0x1f) }

// ACK reports whether the answer is positive.
func (s Syndrome) ACK() bool { return s.kind() == kindACK }

// RNR reports whether the receiver had no buffer. The sender should retry after RNRTimer.
func (s Syndrome) RNR() bool { return s.kind() == kindRNR }

// NAK reports whether the answer is negative. A PSN sequence error means that an earlier packet was lost.
func (s Syndrome) NAK() bool { return s.kind() == kindNAK }

// RNRTimer returns how long the sender should wait after an RNR; 0 for other syndromes.
func (s Syndrome) RNRTimer() time.Duration {
	if !s.RNR() {
		return 0
	}
	return time.Duration(rnrUnits[s.value()]) * 10 * time.Microsecond
}

// String returns a text such as "ACK", "RNR NAK, 0.64ms" or "NAK, remote access error".
func (s Syndrome) String() string {
	switch {
	case s.ACK() && s.value() == noCredits:
		return "ACK"
	case s.ACK():
		return fmt.Sprintf("ACK, credit code %d", s.value())
	case s.RNR():
		return fmt.Sprintf("RNR NAK, %s", s.RNRTimer())
	case s.NAK() && s.value() < len(nakReasons):
		return "NAK, " + nakReasons[s.value()]
	case s.NAK():
		return fmt.Sprintf("NAK, reserved code %d", s.value())
	}
	return fmt.Sprintf("reserved syndrome %#02x", uint8(s))
}
