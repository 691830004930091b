package widearea

import (
	"fmt"
	"math"
)

// hop is the latency of a hop within a site, in seconds: what NCCL's own tuning assumes for a ring over the network, from its
// protocol LL to Simple (hwLatencies in src/graph/tuning.cc).
var hop = Range{2.7e-6, 14e-6}

const (
	sourceRing = "ring all-reduce: Patarasuk and Yuan, J. Parallel Distrib. Comput. 69 (2009); crossings: docs/wide-area.md"
	sourceHop  = "α: hwLatencies of a network ring in NCCL's src/graph/tuning.cc, 2.7 to 14 µs"
	sourceHier = "hierarchical all-reduce: reduce-scatter in the site, all-reduce between the sites, all-gather in the site; docs/wide-area.md"
)

// AllReduce is an all-reduce over several sites.
type AllReduce struct {
	Bytes Range // that are reduced
	Ranks Range // in all sites together; unbounded if nobody declared them
	Sites int   // at least 2
	Rate  Range // Gb/s between the sites
	RTT   Range // seconds between the sites
}

// crossings returns how many hops between sites the chunk with the longest way makes, if the largest site has so many ranks: it makes
// 2(n−1) of the 2n hops of two laps, and 2m of those cross. Both hops that it leaves out are within a site if a site has three ranks.
func crossings(largest, sites int) int { return 2*sites - 3 + min(largest, 3) }

// largest returns how many ranks the largest site has: least if all have the same number or one more, and most if all others have one.
func largest(ranks, sites int) (least, most int) {
	return (ranks + sites - 1) / sites, ranks - sites + 1
}

// ring returns the seconds of a ring of so many ranks. Nobody declares how many of them each site has. The upper end has hops within a
// site that are as slow as those between the sites: each chunk is then sent 2(n−1) times one after the other. The lower end has hops
// within a site that take no time: the link is never idle, or each chunk waits for its crossings alone.
func (a AllReduce) ring(ranks int) Range {
	least, most := largest(ranks, a.Sites)
	return Range{a.ringWith(ranks, crossings(least, a.Sites)).Low, a.ringWith(ranks, crossings(most, a.Sites)).High}
}

// ringWith is the ring whose longest way crosses so many times.
func (a AllReduce) ringWith(ranks, crossings int) Range {
	n, cross := float64(ranks), float64(crossings)
	send := a.Bytes.over(a.Rate).times(Exactly(8e-9 / n)) // one chunk
	half := a.RTT.times(Exactly(0.5))
	high := send.times(Exactly(2 * (n - 1))).plus(hop.times(Exactly(2*(n-1) - cross))).plus(half.times(Exactly(cross))).High
	busy := send.times(Exactly(2 * (n - 1))).plus(half).Low
	waits := send.plus(half).times(Exactly(cross)).Low
	return Range{math.Max(busy, waits), high}
}

// Ring returns the time of a ring of n ranks in the order of their sites.
func Ring(a AllReduce) Figure {
	f := Figure{Name: "all-reduce, ring", Unit: Seconds, Formula: "2(n−1)/n · S/B + 2(n−1) · α within the sites + at most 2m · RTT/2",
		Source: sourceRing + "; " + sourceHop,
		Limits: "chunks of S/n; the lower end has sites whose own network takes no time"}
	least := max(a.Sites, int(a.Ranks.Low))
	f.Value = a.ring(least)
	if a.Ranks.Bounded() {
		f.Value = f.Value.either(a.ring(max(least, int(a.Ranks.High))))
	} else { // 2(n−1)/n grows to 2; the hops within the sites have no upper end
		f.Value.High = math.Inf(1)
	}
	f.Numbers = fmt.Sprintf("n = %s, m = %d, S = %s, B = %s, α = 2.7 to 14 µs, RTT = %s", Range{float64(least), a.Ranks.High}.In(Count), a.Sites,
		a.Bytes.In(Bytes), a.Rate.In(Gbps), a.RTT.In(Seconds))
	return f
}

// between returns the seconds between the sites of a hierarchical all-reduce, whose ranks reduce their shards in rings of the m
// sites. The upper end has one shard, whose bytes and round trips follow one another. The lower end has many shards, which are
// under way at the same time: the link is never idle, or all wait for the last of their round trips.
func (a AllReduce) between() Range {
	m := float64(a.Sites)
	send := a.Bytes.over(a.Rate).times(Exactly(8e-9 / m)) // a step of all shards together
	busy := send.times(Exactly(2 * (m - 1))).plus(a.RTT.times(Exactly(0.5))).Low
	waits := send.plus(a.RTT.times(Exactly(m - 1))).Low
	return Range{math.Max(busy, waits), send.times(Exactly(2 * (m - 1))).plus(a.RTT.times(Exactly(m - 1))).High}
}

// Hierarchical returns the time between the sites of a hierarchical all-reduce.
func Hierarchical(a AllReduce) Figure {
	return Figure{Name: "all-reduce, hierarchical", Unit: Seconds, Value: a.between(), Formula: "at most 2(m−1)/m · S/B + 2(m−1) · RTT/2",
		Numbers: fmt.Sprintf("m = %d, S = %s, B = %s, RTT = %s", a.Sites, a.Bytes.In(Bytes), a.Rate.In(Gbps), a.RTT.In(Seconds)),
		Source:  sourceHier, Limits: "between the sites alone: what the sites do before and after adds to it; the lower end has shards that overlap"}
}
