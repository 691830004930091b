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

// TCP is how TCP sends over a path.
type TCP struct {
	Streams int
	Segment int     // bytes of payload
	Window  Range   // bytes that a stream has in flight at most: the smaller of the ends' buffers, or half of it
	Seconds float64 // how long the streams send; 0: for ever
}

// Rate returns the mean rate of TCP with CUBIC: what windows, losses and slow start leave.
func (c TCP) Rate(p Path) Figure {
	one := func(rtt, window, rate float64) float64 {
		segment := float64(c.Segment)
		segments := math.Min(window/segment, rate/float64(c.Streams)*rtt/8e-9/segment)
		if p.Loss > 0 {
			cubic := math.Pow(cubicC*(3+cubicBeta)/(4*(1-cubicBeta)), 0.25) * math.Pow(rtt/p.Loss, 0.75)
			segments = math.Min(segments, math.Max(cubic, math.Sqrt(renoC/p.Loss)))
		}
		if c.Seconds > 0 {
			segments = rampedUp(segments, c.Seconds/rtt)
		}
		return float64(c.Streams) * segments * segment * 8e-9 / rtt
	}
	return Figure{Name: "rate of TCP", Unit: Gbps, Mean: p.Loss > 0, Value: Range{one(p.RTT.High, c.Window.Low, p.Rate.Low), one(p.RTT.Low, c.Window.High, p.Rate.High)},
		Formula: "streams · mean window / RTT; window ≤ buffers, and ≤ 1.05 · (RTT/p)^¾ or √(1.5/p) segments",
		Numbers: fmt.Sprintf("%d streams, segment %d B, buffers %s, RTT %s, p %s", c.Streams, c.Segment, c.Window.In(Bytes), p.RTT.In(Seconds),
			amount(p.Loss, Share)),
		Source: sourceTCP, Limits: "losses are independent, and the streams alike; a slow start that overshoots is not in it"}
}

// rampedUp returns the mean window over so many round trips, of which the first double it.
func rampedUp(segments, trips float64) float64 {
	sent, window := 0.0, math.Min(firstSegs, segments)
	for left := trips; left > 0; left-- {
		sent += window * math.Min(left, 1)
		window = math.Min(2*window, segments)
	}
	return sent / trips
}
