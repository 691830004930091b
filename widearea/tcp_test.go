package widearea

import (
	"strings"
	"testing"
)

func TestTCPIsBoundByWindowsLossesAndItsStart(t *testing.T) {
	p := Path{RTT: Exactly(0.1), Rate: Exactly(100)}
	c := TCP{Streams: 4, Segment: 1448, Window: Range{2 << 20, 4 << 20}, Control: "cubic"}
	got := c.Rate(p).Value
	roughly(t, "half the buffer", got.Low, 4*8e-9*(2<<20)/0.1)
	roughly(t, "all of it", got.High, 4*8e-9*(4<<20)/0.1)
	p.Loss, p.LossBy = 0.01, "measured" // CUBIC keeps 1.054 · 10^0.75 = 5.93 segments in flight, and Reno √150 = 12.2
	f := c.Rate(p)
	roughly(t, "Reno's window, which is larger", f.Value.High, 4*12.247*1448*8e-9/0.1)
	if !f.Mean || !strings.HasSuffix(f.Numbers, ", p 1 % measured") {
		t.Errorf("%s, a mean: %v", f.Numbers, f.Mean)
	}
	p.Loss, p.RTT = 1e-6, Exactly(0.2) // 1.054 · 200,000^0.75 = 9,968 segments
	c.Window = Exactly(1 << 30)
	roughly(t, "CUBIC's", c.Rate(p).Value.High, 4*9968*1448*8e-9/0.2)
	p.Loss, c.Window, c.Seconds = 0, Exactly(1448*160), 1
	// 10, 20, 40, 80, 160 segments in five round trips, and in the last moment perhaps 160 more.
	roughly(t, "while it starts, at least", c.Rate(p).Value.Low, 4*62*1448*8e-9/0.2)
	roughly(t, "while it starts, at most", c.Rate(p).Value.High, 4*94*1448*8e-9/0.2)
	c.Seconds = 1000 // no more than the window on the whole
	roughly(t, "later", c.Rate(p).Value.High, 4*160*1448*8e-9/0.2)
	p.Rate = Exactly(0.001)
	c.Seconds = 0
	roughly(t, "a slow link", c.Rate(p).Value.High, 0.001)
}

// TestOnlyWhatIsKnownOfACongestionControlIsUsed: of BBR the windows alone bound the rate, with losses and at the start.
func TestOnlyWhatIsKnownOfACongestionControlIsUsed(t *testing.T) {
	p := Path{RTT: Exactly(0.1), Rate: Exactly(100), Loss: 0.01}
	c := TCP{Streams: 1, Segment: 1448, Window: Exactly(1 << 20), Seconds: 1, Control: "bbr"}
	f := c.Rate(p)
	roughly(t, "the window", f.Value.High, 8e-9*(1<<20)/0.1)
	if f.Mean || f.Value.Low != 0 || f.Limits != "how bbr answers losses is not in it" {
		t.Errorf("%+v", f)
	}
}

// TestWhatWasSentAgainMayBeLost: the path may lose as much, or nothing, so it lowers the lower end alone.
func TestWhatWasSentAgainMayBeLost(t *testing.T) {
	p := Path{RTT: Exactly(0.1), Rate: Exactly(100)}
	c := TCP{Streams: 4, Segment: 1448, Window: Exactly(4 << 20), Control: "cubic", Resent: 0.01}
	f := c.Rate(p)
	roughly(t, "with such losses", f.Value.Low, 4*12.247*1448*8e-9/0.1)
	roughly(t, "with none", f.Value.High, 4*8e-9*(4<<20)/0.1)
	if f.Mean || !strings.HasSuffix(f.Numbers, ", p at most 1 % sent again") {
		t.Errorf("%+v", f)
	}
}

// TestNoRoundTripIsNoEndlessSum: over next to no distance the link is what bounds the rate.
func TestNoRoundTripIsNoEndlessSum(t *testing.T) {
	c := TCP{Streams: 1, Segment: 1448, Window: Exactly(1 << 20), Seconds: 10, Control: "cubic"}
	for _, rtt := range []Range{Exactly(0), Exactly(1e-9), {0, 1e-6}} {
		roughly(t, "a link of 1 Gb/s", c.Rate(Path{RTT: rtt, Rate: Exactly(1)}).Value.High, 1)
	}
}
