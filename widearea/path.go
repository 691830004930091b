package widearea

import (
	"fmt"
	"math"
	"strings"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/nccl/env"
)

// The constants, each with its source.
const (
	// SoftWindow is how many packets a queue pair of Soft-RoCE has in flight (RXE_MAX_UNACKED_PSNS in
	// drivers/infiniband/sw/rxe/rxe_param.h of Linux).
	SoftWindow = 128
	// widestWindow is how many packets a reliable queue pair may have in flight: half of the 24-bit sequence numbers
	// (InfiniBand Architecture Specification 1.4, volume 1, 9.7). What a NIC really allows is not published.
	widestWindow = 1 << 23

	// ncclBuffer is NCCL_BUFFSIZE where nobody sets it, in bytes (NCCL User Guide, environment variables).
	ncclBuffer = 4 << 20
	// ll128Buffer is that of NCCL's protocol LL128 where nobody sets NCCL_LL128_BUFFSIZE, in bytes: 120 · 640 · 8 · 8 (DEFAULT_LL128_BUFFSIZE
	// in src/init.cc). NCCL_BUFFSIZE is that of Simple.
	ll128Buffer = 4915200
	// mostChannels is the most channels that a communicator of NCCL has (MAXCHANNELS in src/include/device.h: 32 in earlier versions,
	// 64 in later ones). How many there are depends on the topology that NCCL finds.
	mostChannels = 64

	// largestTimeout is the largest exponent of the local ACK timeout: the field has five bits.
	largestTimeout = 31
)

const (
	sourceFibre   = "group index 1.468 of G.652 fibre (Corning SMF-28 data sheet), c = 299,792.458 km/s"
	sourceWindow  = "one window for each round trip (Kleinrock; RFC 1323, section 1.1)"
	sourceRXE     = "RXE_MAX_UNACKED_PSNS = 128, drivers/infiniband/sw/rxe/rxe_param.h"
	sourceNCCL    = "NCCL_BUFFSIZE of the protocol Simple, NCCL User Guide; LL128 has 4,915,200 B (src/init.cc); a channel has at most its buffer in flight"
	sourceTimeout = "InfiniBand Architecture Specification 1.4, volume 1, 9.7.6.1.3"
	sourceGoBackN = "go-back-N: Bertsekas and Gallager, Data Networks, 2.4.2"
	sourcePFC     = "IEEE 802.1Qbb, annex O: what is under way when a pause is sent still arrives"
)

// NCCL is how NCCL sends over a path.
type NCCL struct {
	Communicators Range // that send at the same time: shards of a hierarchical all-reduce and groups of model parallelism have one each
	Channels      Range // of a communicator
	Buffer        Range // of a channel, in bytes: from NCCL_BUFFSIZE, of the protocol Simple, to LL128's if that is larger
	Pairs         Range // queue pairs of a channel: NCCL_IB_QPS_PER_CONNECTION
}

// DefaultNCCL is NCCL where nobody sets its variables.
func DefaultNCCL() NCCL {
	return NCCL{atLeast(1), Range{1, mostChannels}, buffers(ncclBuffer, ll128Buffer), Exactly(1)}
}

// buffers returns what a channel has. How NCCL chooses the protocol is not known here.
func buffers(simple, ll128 float64) Range { return Range{simple, math.Max(simple, ll128)} }

// Path is what is known of a long path.
type Path struct {
	RTT     Range   // seconds of single round trips, with their jitter
	Rate    Range   // Gb/s of payload that the link carries; unbounded if nobody declared a speed
	Loss    float64 // share of packets lost in each direction; 0: none, or unknown
	LossBy  string  // how it is known: "declared" or "measured"; of no matter if it is 0
	MTU     int     // bytes of payload of an RDMA packet
	Soft    bool    // both ends are Soft-RoCE
	RateBy  string  // what would have to be known of the rate, where it is not: an attribute, or a measurement
	Timeout int     // exponent of the local ACK timeout; 0: nothing is lost twice in a row
}

// loss writes the share of lost packets, and how it is known.
func (p Path) loss() string { return strings.TrimSpace(amount(p.Loss, Share) + " " + p.LossBy) }

// Fibre returns the round trip over so many kilometres of fibre, which no path of that length can undercut.
func Fibre(km float64) Figure {
	rtt := 2 * km * fabric.FibreDelay
	return Figure{Name: "round trip in fibre", Value: Exactly(rtt), Unit: Seconds, Formula: "2 · distance · n / c",
		Numbers: fmt.Sprintf("2 · %s km · 1.468 / 299,792 km/s", digits(km)), Source: sourceFibre,
		Limits: "a bound: amplifiers, routers and detours add to it; hollow-core fibre and radio are faster"}
}

// Window returns how many bytes must be in flight to fill a path: its bandwidth-delay product.
func Window(p Path) Figure {
	return Figure{Name: "in flight to fill the link", Value: p.Rate.times(p.RTT).times(Exactly(1e9 / 8)), Unit: Bytes, Formula: "B · RTT",
		Numbers: fmt.Sprintf("%s · %s", p.Rate.In(Gbps), p.RTT.In(Seconds)), Source: sourceWindow}
}

// pairWindow is how many bytes one queue pair has in flight.
func (p Path) pairWindow() Range {
	if p.Soft {
		return Exactly(SoftWindow * float64(p.MTU))
	}
	return atMost(widestWindow * float64(p.MTU))
}

// PairRate returns the rate that queue pairs reach by their windows. Soft-RoCE's window is known; of a NIC only the most that the
// specification allows is.
func PairRate(p Path, pairs Range) Figure {
	f := Figure{Name: "rate by the queue pairs' windows", Unit: Gbps, Formula: "QPs · packets in flight · MTU / RTT", Source: sourceWindow}
	f.Value = pairs.times(p.pairWindow()).over(p.RTT).times(Exactly(8e-9))
	packets := SoftWindow
	if p.Soft {
		f.Source += "; " + sourceRXE
	} else {
		packets = widestWindow
		f.Limits = "what a NIC has in flight is not published; the specification allows 2^23 packets"
	}
	f.Numbers = fmt.Sprintf("%s · %d · %d B / %s", pairs.In(Count), packets, p.MTU, p.RTT.In(Seconds))
	return f
}

// PostedRate returns the rate that queue pairs reach by the messages that are posted at a time.
func PostedRate(p Path, pairs, messages, bytes int) Figure {
	return Figure{Name: "rate by the posted messages", Unit: Gbps, Formula: "QPs · messages · bytes / RTT", Source: sourceWindow,
		Value:   Exactly(float64(pairs) * float64(messages) * float64(bytes) * 8e-9).over(p.RTT),
		Numbers: fmt.Sprintf("%d · %d · %d B / %s", pairs, messages, bytes, p.RTT.In(Seconds))}
}

// Predict returns the rate of queue pairs that have so many messages posted: what windows, messages, the link and losses let through.
// It is the figure of the tightest of them.
func Predict(p Path, pairs, messages, bytes int) Figure {
	out := Goodput(p, Exactly(float64(pairs)))
	if p.Loss == 0 {
		out = PairRate(p, Exactly(float64(pairs)))
	}
	if posted := PostedRate(p, pairs, messages, bytes); posted.Value.High < out.Value.High || out.Value.Low == 0 && p.Loss == 0 {
		out = posted
	}
	if p.Rate.High < out.Value.High {
		return Figure{Name: "rate of the link", Value: p.Rate, Unit: Gbps, Formula: "B", Numbers: p.Rate.In(Gbps), Source: "declared"}
	}
	return out
}

// PairsToFill returns how many queue pairs fill the path.
func PairsToFill(p Path) Figure {
	need := Window(p).Value.over(p.pairWindow())
	f := Figure{Name: "queue pairs to fill the link", Unit: Count, Formula: "B · RTT / (packets in flight · MTU)", Source: sourceWindow,
		Value: Range{math.Max(1, math.Ceil(need.Low)), math.Max(1, math.Ceil(need.High))}}
	if p.Soft {
		f.Numbers = fmt.Sprintf("%s / (%d · %d B)", Window(p).Text(), SoftWindow, p.MTU)
		f.Source = sourceRXE
	} else {
		f.Numbers = fmt.Sprintf("%s / (%d · %d B)", Window(p).Text(), widestWindow, p.MTU)
		f.Limits = "what a NIC has in flight is not published; the specification allows 2^23 packets"
	}
	return f
}

// ChannelRate returns the rate that NCCL's channels reach by their buffers.
func ChannelRate(p Path, n NCCL) Figure {
	return Figure{Name: "rate by NCCL's buffers", Unit: Gbps, Formula: "communicators · channels · buffer / RTT",
		Value:   n.Communicators.times(n.Channels).times(n.Buffer).over(p.RTT).times(Exactly(8e-9)),
		Numbers: fmt.Sprintf("%s · %s · %s / %s", n.Communicators.In(Count), n.Channels.In(Count), n.Buffer.In(Bytes), p.RTT.In(Seconds)), Source: sourceNCCL}
}

// ChannelsToFill returns how many channels of NCCL fill the path.
func ChannelsToFill(p Path, n NCCL) Figure {
	need := Window(p).Value.over(n.Buffer)
	return Figure{Name: "NCCL channels to fill the link", Unit: Count, Formula: "B · RTT / buffer",
		Value:   Range{math.Max(1, math.Ceil(need.Low)), math.Max(1, math.Ceil(need.High))},
		Numbers: fmt.Sprintf("%s / %s", Window(p).Text(), n.Buffer.In(Bytes)), Source: sourceNCCL}
}

// Timeout returns the smallest exponent of the local ACK timeout that exceeds the longest round trip, or the shortest if no other is
// known. ok is false if even the largest does not.
func Timeout(rtt Range) (exponent int, ok bool) {
	exponent = exponentFor(rtt.Largest())
	return min(exponent, largestTimeout), exponent <= largestTimeout
}

func exponentFor(seconds float64) int {
	t := 1 // 0 means that there is no timeout
	for t <= largestTimeout && ackTimeout(t) <= seconds {
		t++
	}
	return t
}

// ackTimeout returns the seconds of an exponent.
func ackTimeout(t int) float64 { return env.AckTimeout(t).Seconds() }

// RetryTimeout returns the smallest timeout that exceeds the round trip.
func RetryTimeout(p Path) Figure {
	t, enough := Timeout(p.RTT)
	f := Figure{Name: "smallest retry timeout (exponent)", Unit: Count, Value: Exactly(float64(t)), Formula: "4.096 µs · 2^t > the longest RTT",
		Numbers: fmt.Sprintf("4.096 µs · 2^%d = %s; RTT = %s", t, amount(ackTimeout(t), Seconds), p.RTT.In(Seconds)),
		Source:  sourceTimeout, Limits: "a NIC may wait for up to four times as long"}
	if !enough {
		f.Value, f.Limits = unknown, "no timeout exceeds the round trip: the field has five bits"
	} else if !p.RTT.Bounded() {
		f.Value = atLeast(f.Value.Low)
	}
	return f
}

// LosslessBuffer returns how much a switch must hold of a class to stay lossless over the path.
func LosslessBuffer(p Path) Figure {
	f := Window(p)
	f.Name, f.Source = "buffer for a lossless class", sourcePFC
	f.Limits = "without the reaction times of both ends and one packet each way, which are small beside it"
	return f
}

// OneLoss returns what one lost packet costs a queue pair: until the sender knows, a round trip passes, and all that it sent
// meanwhile is sent again.
func OneLoss(p Path) Figure {
	f := Figure{Name: "one lost packet", Value: p.RTT, Unit: Seconds, Formula: "RTT, in which B · RTT are sent in vain", Source: sourceGoBackN,
		Numbers: p.RTT.In(Seconds), Limits: "the last packet of a message, or one that is lost twice, costs the retry timeout instead; NICs with " +
			"selective repeat send less again"}
	return f
}

// Goodput returns the rate that is left of queue pairs after losses, on average. A pair sends W packets in a round trip. Each loss costs a
// round trip, and with probability p the packet is lost again, which only the timeout T mends:
// seconds a packet = RTT/W + p/(1−p) · (RTT + p·T).
func Goodput(p Path, pairs Range) Figure {
	rate := p.Rate.least(PairRate(p, pairs).Value)
	f := Figure{Name: "rate with losses", Unit: Gbps, Value: rate, Source: sourceGoBackN,
		Formula: "QPs · MTU / (RTT/W + p/(1−p) · (RTT + p·T))",
		Limits:  "losses are independent, and the ends keep up with the window; NICs with selective repeat lose less"}
	if p.Loss == 0 {
		return f
	}
	odds := p.Loss / (1 - p.Loss)
	t := 0.0
	if p.Timeout > 0 {
		t = ackTimeout(p.Timeout)
	}
	bits := 8e-9 * float64(p.MTU)
	one := func(rate, rtt, pairs float64) float64 { // rate of all pairs together
		if rate == 0 || pairs == 0 || rtt == 0 {
			return rate
		}
		each := rate / pairs
		if math.IsInf(pairs, 1) {
			return rate // each pair has next to nothing in flight
		}
		return pairs * bits / (bits/each + odds*(rtt+p.Loss*t))
	}
	f.Mean = true
	f.Value = Range{one(rate.Low, p.RTT.High, pairs.Low), one(rate.High, p.RTT.Low, pairs.High)}
	f.Numbers = fmt.Sprintf("QPs %s, MTU %d B, RTT %s, p %s, T %s", pairs.In(Count), p.MTU, p.RTT.In(Seconds), p.loss(), amount(t, Seconds))
	return f
}
