package widearea

import (
	"fmt"
	"math"
)

const sourceTCP = "window: RFC 9293, 3.8; losses: RFC 9438, 4.3 and 5.1 (CUBIC, and Reno where that is faster); slow start from 10 segments: RFC 6928"

// The constants of CUBIC (RFC 9438).
const (
	cubicC    = 0.4
	cubicBeta = 0.7
	renoC     = 1.5
	firstSegs = 10 // of a connection that has sent nothing yet
)

// understood reports whether the model knows how a congestion control of Linux starts and answers losses. Of others only the windows are known.
func understood(congestion string) bool { return congestion == "cubic" || congestion == "reno" }

// TCP is how TCP sends over a path.
type TCP struct {
	Streams int
	Segment int     // bytes of payload
	Window  Range   // bytes that a stream has in flight at most: the smaller of the ends' buffers, or half of it
	Seconds float64 // from the first byte that arrives to the last; 0: for ever
	Control string  // the congestion control, such as "cubic"
	Resent  float64 // share of the segments that the streams sent again: as many may be lost, or they filled a queue and the path loses none
}

// Rate returns the mean rate of TCP with CUBIC: what windows, losses and slow start leave.
func (c TCP) Rate(p Path) Figure {
	known := understood(c.Control)
	// bursts is how many windows can arrive besides one for each round trip
	one := func(rtt, window, rate, loss, bursts float64) float64 {
		if rtt == 0 {
			return rate
		}
		segment := float64(c.Segment)
		segments := math.Min(window/segment, rate/float64(c.Streams)*rtt/8e-9/segment)
		if loss > 0 && known {
			cubic := math.Pow(cubicC*(3+cubicBeta)/(4*(1-cubicBeta)), 0.25) * math.Pow(rtt/loss, 0.75)
			segments = math.Min(segments, math.Max(cubic, math.Sqrt(renoC/loss)))
		}
		if c.Seconds > 0 && known {
			trips := c.Seconds / rtt
			segments = math.Min(segments, rampedUp(segments, trips+bursts)/trips)
		}
		return float64(c.Streams) * segments * segment * 8e-9 / rtt
	}
	f := Figure{Name: "rate of TCP", Unit: Gbps,
		Value:   Range{one(p.RTT.High, c.Window.Low, p.Rate.Low, math.Max(p.Loss, c.Resent), 0), one(p.RTT.Low, c.Window.High, p.Rate.High, p.Loss, 1)},
		Formula: "at most B, and streams · mean window / RTT; window ≤ buffers",
		Numbers: fmt.Sprintf("B %s, %d streams, buffers %s, RTT %s", p.Rate.In(Gbps), c.Streams, c.Window.In(Bytes), p.RTT.In(Seconds)),
		Source:  sourceTCP, Limits: "the streams are alike; a slow start that overshoots is not in it"}
	if c.Seconds > 0 && known {
		f.Numbers += fmt.Sprintf(", %s from 10 segments of %d B", amount(c.Seconds, Seconds), c.Segment)
	}
	switch {
	case p.Loss > 0 && known:
		f.Mean = true
		f.Formula += ", and ≤ 1.05 · (RTT/p)^¾ or √(1.5/p) segments"
		f.Numbers += ", p " + p.loss()
		f.Limits = "losses are independent; " + f.Limits
	case c.Resent > 0 && known:
		f.Numbers += ", p at most " + amount(c.Resent, Share) + " sent again"
	case p.Loss > 0 || c.Resent > 0:
		f.Value.Low, f.Limits = 0, "how "+c.Control+" answers losses is not in it"
	}
	return f
}

// rampedUp returns how many segments so many windows have, of which each is twice the one before, up to the largest.
func rampedUp(largest, windows float64) float64 {
	sent, window := 0.0, math.Min(firstSegs, largest)
	for ; windows > 0 && window < largest; windows-- {
		sent += window * math.Min(windows, 1)
		window = math.Min(2*window, largest)
	}
	return sent + largest*math.Max(windows, 0)
}
