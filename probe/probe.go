// Package probe measures on the host where it runs: ICMP echo, TCP throughput, RDMA with perftest, NCCL
// collectives, and port counters. It also captures RoCE. Ping and TCP are bound to a source address and a
// device, so that their packets cannot leave through another port.
package probe

import (
	"net/netip"
	"time"

	"github.com/fabricform/fabricform/agent"
)

var (
	// Ping measures round trips. It returns one result for each target, in their order.
	Ping = agent.Method[PingSpec, []PingResult]("ping")
	// ReadCounters reads a port's counters, by the name of its netdev.
	ReadCounters = agent.Method[string, Counters]("counters")
	// ListenTCP opens the receiver of a throughput test.
	ListenTCP = agent.Method[TCPListenSpec, TCPListenResult]("tcp.listen")
	// SendTCP sends to an open receiver.
	SendTCP = agent.Method[TCPSendSpec, TCPResult]("tcp.send")
	// CollectTCP waits for the result of a receiver, by its ID.
	CollectTCP = agent.Method[string, TCPResult]("tcp.collect")
)

// PingSpec asks for ICMP echoes to all targets in parallel. Size is the size of the payload in bytes: 28
// less than the IPv4 packet, 48 less than the IPv6 packet.
type PingSpec struct {
	Netdev       string        `json:"netdev"`
	Source       netip.Addr    `json:"source"`
	Targets      []netip.Addr  `json:"targets"`
	Count        int           `json:"count"` // packets to each target
	Interval     time.Duration `json:"interval"`
	Timeout      time.Duration `json:"timeout"` // for each answer
	Size         int           `json:"size"`
	DontFragment bool          `json:"dont_fragment"`
	// Fresh first deletes the hardware addresses that the kernel learned for Targets on Netdev. Permanent
	// entries stay.
	Fresh bool `json:"fresh,omitempty"`
	Class
}

// Class is the class of traffic of packets. The zero value is the kernel's default.
type Class struct {
	TrafficClass int `json:"traffic_class,omitempty"` // the byte with DSCP and ECN; for TCP the kernel sets the bits of ECN itself
	Priority     int `json:"priority,omitempty"`      // the kernel's: some drivers choose the queue by it
}

// PingResult is the result for one target. A round trip runs from the kernel's send timestamp to its
// receive timestamp. If a driver gives no send timestamp, the round trip starts when the packet is handed
// to the kernel.
type PingResult struct {
	Sent       int           `json:"sent"`
	Received   int           `json:"received"`
	Duplicates int           `json:"duplicates,omitempty"` // further answers to one packet
	Stamped    int           `json:"stamped"`              // answers whose packet has a send timestamp
	Min        time.Duration `json:"min"`
	Avg        time.Duration `json:"avg"`
	Max        time.Duration `json:"max"`
	StdDev     time.Duration `json:"std_dev"`
	Errors     []string      `json:"errors,omitempty"` // distinct kernel or ICMP errors, such as "message too long (path MTU 1500)"
}

// TCPListenSpec opens the receiving side of a throughput test.
type TCPListenSpec struct {
	Netdev   string        `json:"netdev"`
	Address  netip.Addr    `json:"address"`
	Token    string        `json:"token"` // one-time, by rand.Text: a stream that does not begin with it is dropped
	Streams  int           `json:"streams"`
	Duration time.Duration `json:"duration"`
	// Discard lets the kernel drop received data instead of copying it to the program (MSG_TRUNC). That
	// measures the path, without the cost of the copy.
	Discard bool `json:"discard,omitempty"`
}

// TCPListenResult names the open receiver. The receiver closes shortly after its duration.
type TCPListenResult struct {
	ID   string `json:"id"`
	Port uint16 `json:"port"`
}

// TCPSendSpec sends to an open receiver on another host. The operator's side makes the token and sends it to both ends: if it came
// from the receiver, the receiver would choose what the sender writes first, wherever it connects to.
type TCPSendSpec struct {
	Netdev     string         `json:"netdev"` // "": the route decides
	Source     netip.Addr     `json:"source"` // zero: the kernel's choice
	Target     netip.AddrPort `json:"target"`
	Token      string         `json:"token"`
	Streams    int            `json:"streams"`
	Duration   time.Duration  `json:"duration"`
	Congestion string         `json:"congestion,omitempty"` // "": the host's default
	Class
}

// TCPResult is one side's measurement. Checks judge the receiver's.
type TCPResult struct {
	Bytes       int64         `json:"bytes"`
	Elapsed     time.Duration `json:"elapsed"`
	Gbps        float64       `json:"gbps"` // payload, 10^9 bits a second
	Streams     int           `json:"streams"`
	Retransmits int           `json:"retransmits"`          // sender only
	Segments    int           `json:"segments,omitempty"`   // that were sent, with those that were sent again; sender only
	Segment     int           `json:"segment,omitempty"`    // bytes of payload of the smallest stream's segments; sender only
	Buffer      int64         `json:"buffer,omitempty"`     // bytes to which the kernel lets a stream's buffer grow on this side; 0: unknown
	Congestion  string        `json:"congestion,omitempty"` // the algorithm in use; sender only
	Discarded   bool          `json:"discarded,omitempty"`  // measured with Discard; receiver only
}

// Counters are one port's counters since it appeared.
type Counters struct {
	Netdev    string `json:"netdev"`
	RxBytes   uint64 `json:"rx_bytes"`
	TxBytes   uint64 `json:"tx_bytes"`
	RxPackets uint64 `json:"rx_packets"`
	TxPackets uint64 `json:"tx_packets"`
	RxErrors  uint64 `json:"rx_errors"`
	TxErrors  uint64 `json:"tx_errors"`
	RxDropped uint64 `json:"rx_dropped"`
	TxDropped uint64 `json:"tx_dropped"`
}
