package widearea

import (
	"container/heap"
	"math"
	"slices"
	"testing"
)

// The simulator sends chunks over hops. A hop is a wire: it sends one chunk at a time, in the order in which they came, each for
// chunk/rate, and delivers it a latency after its last byte. A rank adds what it receives to its own part and sends it on, by the
// schedule of the collective. It knows no formula of the model, and checks that every rank ends with the whole sum.

// wire is one direction of a cable. Several senders may share it.
type wire struct {
	seconds func(bytes float64) float64
	latency float64
	free    float64 // when the last chunk was sent
}

// arrival is a chunk that a rank receives.
type arrival struct {
	at              float64
	order           int
	ring, to, chunk int
	parts           uint64 // the ranks whose part is in it
}

type arrivals []arrival

func (a arrivals) Len() int { return len(a) }
func (a arrivals) Less(i, j int) bool {
	return a[i].at < a[j].at || a[i].at == a[j].at && a[i].order < a[j].order
}
func (a arrivals) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *arrivals) Push(x any)   { *a = append(*a, x.(arrival)) }
func (a *arrivals) Pop() any {
	old := *a
	x := old[len(old)-1]
	*a = old[:len(old)-1]
	return x
}

// rings runs several rings at the same time, each over its own ranks, and returns when the last rank has the whole sum.
// wireOf is the wire from a ring's i-th rank to the next.
func rings(t *testing.T, count, size int, chunk float64, wireOf func(ring, i int) *wire) float64 {
	t.Helper()
	var queue arrivals
	order, end, all := 0, 0.0, ^uint64(0)>>(64-size)
	sums := make([]uint64, count*size*size) // of each ring's ranks: the parts that are in a chunk
	sum := func(ring, rank, chunk int) *uint64 { return &sums[(ring*size+rank)*size+chunk] }
	send := func(now float64, ring, from, chunkOf int, parts uint64) {
		w := wireOf(ring, from)
		w.free = math.Max(now, w.free) + w.seconds(chunk)
		order++
		heap.Push(&queue, arrival{w.free + w.latency, order, ring, (from + 1) % size, chunkOf, parts})
	}
	for ring := range count {
		for r := range size {
			send(0, ring, r, r, 1<<r)
		}
	}
	for queue.Len() > 0 {
		a := heap.Pop(&queue).(arrival)
		end = math.Max(end, a.at)
		parts := a.parts | 1<<a.to
		*sum(a.ring, a.to, a.chunk) = parts
		if *sum(a.ring, (a.to+1)%size, a.chunk) != all {
			send(a.at, a.ring, a.to, a.chunk, parts)
		}
	}
	for i, parts := range sums {
		if parts != all {
			t.Fatalf("ring %d: rank %d lacks parts of chunk %d: %b", i/size/size, i/size%size, i%size, parts)
		}
	}
	return end
}

// equal is n ranks at m sites, of which none has more than one rank more than another.
func equal(n, m int) []int {
	sites := make([]int, m)
	for r := range n {
		sites[r*m/n]++
	}
	return sites
}

// simulateRing is an all-reduce in one ring through sites with so many ranks each. local is the rate within the sites in Gb/s.
func simulateRing(t *testing.T, sites []int, bytes, gbps, local, alpha, rtt float64) float64 {
	t.Helper()
	var wires []*wire
	for _, ranks := range sites {
		for range ranks - 1 {
			wires = append(wires, &wire{seconds: func(b float64) float64 { return b * 8e-9 / local }, latency: alpha})
		}
		wires = append(wires, &wire{seconds: func(b float64) float64 { return b * 8e-9 / gbps }, latency: rtt / 2})
	}
	n := len(wires)
	return rings(t, 1, n, bytes/float64(n), func(_, i int) *wire { return wires[i] })
}

// simulateHierarchical is the part between the sites: the k ranks of each site reduce their shards at the same time, and share the
// link to the next site.
func simulateHierarchical(t *testing.T, k, m int, bytes, gbps, rtt float64) float64 {
	t.Helper()
	wires := make([]*wire, m)
	for i := range m {
		wires[i] = &wire{seconds: func(b float64) float64 { return b * 8e-9 / gbps }, latency: rtt / 2}
	}
	return rings(t, k, m, bytes/float64(k)/float64(m), func(_, i int) *wire { return wires[i] })
}

const tolerance = 0.02

func near(got, want float64) bool { return math.Abs(got-want) <= tolerance*want }

// TestRingAgreesWithTheSimulator: for up to 64 ranks at up to 4 sites, from a link on which only bytes take time to one on which
// only the distance does.
func TestRingAgreesWithTheSimulator(t *testing.T) {
	cases, alpha := 0, hop.High
	for m := 2; m <= 4; m++ {
		for n := m; n <= 64; n++ {
			for _, rtt := range []float64{0.001, 0.02, 0.2} {
				for _, bytes := range []float64{1e6, 1e9, 700e9} {
					const gbps = 100
					a := AllReduce{Bytes: Exactly(bytes), Ranks: Exactly(float64(n)), Sites: m, Rate: Exactly(gbps), RTT: Exactly(rtt)}
					got, least := Ring(a).Value, (n+m-1)/m
					if slow, want := simulateRing(t, equal(n, m), bytes, gbps, gbps, alpha, rtt), a.ringWith(n, crossings(least, m)).High; !near(want, slow) || slow > got.High*(1+tolerance) {
						t.Errorf("n %d, m %d, RTT %g, %g B: %g s in equal sites, %g s in any, and the simulator needs %g s", n, m, rtt, bytes, want, got.High, slow)
					}
					fast := simulateRing(t, equal(n, m), bytes, gbps, math.Inf(1), 0, rtt)
					if fast < got.Low*(1-1e-9) || fast > got.High*(1+tolerance) {
						t.Errorf("n %d, m %d, RTT %g, %g B: %v, and with sites that take no time the simulator needs %g s", n, m, rtt, bytes, got, fast)
					}
					cases++
				}
			}
		}
	}
	t.Logf("%d cases", cases)
}

// TestRingOfCrossingsAlone: where only the distance takes time, a ring needs its crossings and nothing else.
func TestRingOfCrossingsAlone(t *testing.T) {
	for m := 2; m <= 4; m++ {
		for n := m; n <= 64; n++ {
			got := simulateRing(t, equal(n, m), 1, 1e9, 1e9, 0, 2)
			if want := float64(crossings((n+m-1)/m, m)); math.Abs(got-want) > 1e-6 {
				t.Errorf("n %d, m %d: %g crossings, and the model counts %g", n, m, got, want)
			}
			if got > 2*float64(m)+1e-6 {
				t.Errorf("n %d, m %d: %g crossings are more than two laps have", n, m, got)
			}
		}
	}
}

// splits calls do with each way in which n ranks can be at m sites.
func splits(n, m int, do func(sites []int)) {
	var more func(left int, sites []int)
	more = func(left int, sites []int) {
		if len(sites) == m-1 {
			do(append(slices.Clone(sites), left))
			return
		}
		for first := 1; first <= left-(m-1-len(sites)); first++ {
			more(left-first, append(slices.Clone(sites), first))
		}
	}
	more(n, nil)
}

// TestRingOfUnequalSites: nobody declares how many ranks each site has, so the range has every split, and some split reaches its upper
// end: 3 and 1 ranks cross four times, 2 and 2 three times.
func TestRingOfUnequalSites(t *testing.T) {
	for m := 2; m <= 4; m++ {
		for n := m; n <= 12; n++ {
			for _, rtt := range []float64{0.001, 0.2} {
				for _, bytes := range []float64{1e3, 1e9} {
					const gbps = 100
					a := AllReduce{Bytes: Exactly(bytes), Ranks: Exactly(float64(n)), Sites: m, Rate: Exactly(gbps), RTT: Exactly(rtt)}
					got, longest := Ring(a).Value, 0.0
					splits(n, m, func(sites []int) {
						slow := simulateRing(t, sites, bytes, gbps, gbps, hop.High, rtt)
						fast := simulateRing(t, sites, bytes, gbps, math.Inf(1), 0, rtt)
						if longest = math.Max(longest, slow); slow > got.High*(1+1e-9) || fast < got.Low*(1-1e-9) {
							t.Errorf("%v ranks, RTT %g, %g B: %v, and the simulator needs %g to %g s", sites, rtt, bytes, got, fast, slow)
						}
					})
					if !near(got.High, longest) {
						t.Errorf("%d ranks at %d sites, RTT %g, %g B: at most %g s, and no split takes more than %g s", n, m, rtt, bytes, got.High, longest)
					}
				}
			}
		}
	}
}

func TestHierarchicalAgreesWithTheSimulator(t *testing.T) {
	for m := 2; m <= 4; m++ {
		for _, k := range []int{1, 2, 8, 16, 64} {
			for _, rtt := range []float64{0.001, 0.02, 0.2} {
				for _, bytes := range []float64{1e6, 1e9, 700e9} {
					a := AllReduce{Bytes: Exactly(bytes), Ranks: Exactly(float64(k * m)), Sites: m, Rate: Exactly(100), RTT: Exactly(rtt)}
					got, took := Hierarchical(a).Value, simulateHierarchical(t, k, m, bytes, 100, rtt)
					if took < got.Low*(1-tolerance) || took > got.High*(1+tolerance) {
						t.Errorf("k %d, m %d, RTT %g, %g B: %v, and the simulator needs %g s", k, m, rtt, bytes, got, took)
					}
					if k == 1 && !near(got.High, took) {
						t.Errorf("m %d, RTT %g, %g B: one shard needs at most %g s, and the simulator %g s", m, rtt, bytes, got.High, took)
					}
					if k == 64 && !near(got.Low, took) {
						t.Errorf("m %d, RTT %g, %g B: many shards need at least %g s, and the simulator %g s", m, rtt, bytes, got.Low, took)
					}
				}
			}
		}
	}
}
