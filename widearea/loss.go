package widearea

import "math"

// confidence is that of a range of a measured loss: one in 40 is above it, and one in 40 below it.
const confidence = 0.95

// LossOf returns the share of packets that are lost in each direction, where so many of the sent ones were lost on so many ways: 2 for
// pings, which are lost there or back. It is the exact binomial interval (Clopper and Pearson, Biometrika 26, 1934). likely is the
// share by which that many are lost on average. sent must be positive.
func LossOf(lost, sent, ways int) (between Range, likely float64) {
	const tail, many = (1 - confidence) / 2, 1000
	oneWay := func(all float64) float64 { return 1 - math.Pow(1-all, 1/float64(ways)) }
	share := float64(lost) / float64(sent)
	likely, between = oneWay(share), Range{High: 1}
	if lost > many && sent-lost > many { // of so many, the normal distribution is as exact
		off := math.Sqrt2 * math.Erfinv(confidence) * math.Sqrt(share*(1-share)/float64(sent))
		return Range{oneWay(share - off), oneWay(share + off)}, likely
	}
	if lost > 0 { // the smallest share with which so many or more are lost often enough
		_, low := border(1, func(p float64) bool { return 1-fewer(lost-1, sent, p) < tail })
		between.Low = oneWay(low)
	}
	if lost < sent { // the largest with which so few or fewer are
		_, high := border(1, func(p float64) bool { return fewer(lost, sent, p) > tail })
		between.High = oneWay(high)
	}
	return between, likely
}

// fewer is the probability that of n packets k or fewer are lost, each with probability p.
func fewer(k, n int, p float64) (sum float64) {
	if p >= 1 {
		return 0 // k is less than n
	}
	whole, _ := math.Lgamma(float64(n + 1))
	for i := range k + 1 {
		a, _ := math.Lgamma(float64(i + 1))
		b, _ := math.Lgamma(float64(n - i + 1))
		sum += math.Exp(whole - a - b + float64(i)*math.Log(p) + float64(n-i)*math.Log1p(-p))
	}
	return math.Min(sum, 1)
}
