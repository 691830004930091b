package widearea

import (
	"math/rand/v2"
	"testing"
)

// TestAMeasuredLossIsNoFinerThanItsPings: the ends are those of the tables (Clopper and Pearson), as the shares of one direction.
func TestAMeasuredLossIsNoFinerThanItsPings(t *testing.T) {
	roundTrips := func(p float64) float64 { return 1 - (1-p)*(1-p) }
	for _, c := range []struct {
		lost, sent int
		low, high  float64 // of the round trips
	}{{0, 100, 0, 0.0362}, {1, 100, 0.000253, 0.0545}, {10, 100, 0.0490, 0.1762}, {3, 10, 0.0667, 0.6525}, {100, 100, 0.9638, 1}, {0, 1, 0, 0.975}} {
		got, likely := LossOf(c.lost, c.sent, 2)
		if c.low > 0 {
			roughly(t, "the lower end", roundTrips(got.Low), c.low)
		} else if got.Low != 0 {
			t.Errorf("%+v: %v", c, got)
		}
		roughly(t, "the upper end", roundTrips(got.High), c.high)
		if likely < got.Low || likely > got.High {
			t.Errorf("%+v: %g is not in %v", c, likely, got)
		}
	}
}

// TestManyLossesHaveACloseRange: of segments, which go one way; the two computations meet.
func TestManyLossesHaveACloseRange(t *testing.T) {
	exact, likely := LossOf(1000, 100_000, 1)
	normal, _ := LossOf(1001, 100_100, 1)
	roughly(t, "the share", likely, 0.01)
	roughly(t, "the lower end", normal.Low, exact.Low)
	roughly(t, "the upper end", normal.High, exact.High)
	if exact.Low > 0.0096 || exact.Low < 0.0092 || exact.High < 0.0104 || exact.High > 0.0108 {
		t.Errorf("%v", exact)
	}
}

// TestALossIsInItsRange: of many runs of pings, whose packets are lost in both directions, nearly all have a range that holds the true share.
func TestALossIsInItsRange(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, p := range []float64{0.001, 0.01, 0.1} {
		const runs, sent = 400, 200
		out := 0
		for range runs {
			lost := 0
			for range sent {
				there, back := r.Float64() < p, r.Float64() < p
				if there || back {
					lost++
				}
			}
			if got, _ := LossOf(lost, sent, 2); p < got.Low || p > got.High {
				out++
			}
		}
		if out > runs/20 {
			t.Errorf("%g %% are outside of %d of %d ranges", 100*p, out, runs)
		}
	}
}
