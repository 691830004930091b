package widearea

import "testing"

func TestTCPIsBoundByWindowsLossesAndItsStart(t *testing.T) {
	p := Path{RTT: Exactly(0.1), Rate: Exactly(100)}
	c := TCP{Streams: 4, Segment: 1448, Window: Range{2 << 20, 4 << 20}}
	got := c.Rate(p).Value
	roughly(t, "half the buffer", got.Low, 4*8e-9*(2<<20)/0.1)
	roughly(t, "all of it", got.High, 4*8e-9*(4<<20)/0.1)
	p.Loss = 0.01 // CUBIC keeps 1.054 · 10^0.75 = 5.93 segments in flight, and Reno √150 = 12.2
	got = c.Rate(p).Value
	roughly(t, "Reno's window, which is larger", got.High, 4*12.247*1448*8e-9/0.1)
	p.Loss, p.RTT = 1e-6, Exactly(0.2) // 1.054 · 200,000^0.75 = 9,968 segments
	c.Window = Exactly(1 << 30)
	roughly(t, "CUBIC's", c.Rate(p).Value.High, 4*9968*1448*8e-9/0.2)
	p.Loss, c.Window, c.Seconds = 0, Exactly(1448*160), 1
	// 10, 20, 40, 80, 160 segments in five round trips.
	roughly(t, "while it starts", c.Rate(p).Value.High, 4*62*1448*8e-9/0.2)
	p.Rate = Exactly(0.001)
	c.Seconds = 0
	roughly(t, "a slow link", c.Rate(p).Value.High, 0.001)
}
