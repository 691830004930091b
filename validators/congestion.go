package validators

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/probe"
)

// Congested is an item of the checks tcp and verbs: pauses, discards, and marks of ECN while they sent.
const Congested Item = "congestion"

// storm is the share of the time for which a port was paused that nobody can take for flow control.
const storm = 0.5

// Names of RDMA counters for congestion: of mlx5 (counters.c in drivers/infiniband/hw/mlx5), bnxt_re (hw_counters.c) and irdma (verbs.c).
var (
	marked    = []string{"np_ecn_marked_roce_packets", "rx_ecn_marked_pkts", "RxECNMrkd"}
	cnpSent   = []string{"np_cnp_sent", "tx_cnp_pkts", "cnpSent"}
	cnpTook   = []string{"rp_cnp_handled", "rx_cnp_pkts", "cnpHandled"}
	cnpMissed = []string{"rp_cnp_ignored", "cnpIgnored"}
)

// congestion is what a watched path shows beside its packets.
type congestion struct {
	watched
	classes  [2]*fabric.QoS
	elapsed  time.Duration
	says     []string
	cures    []string
	bad      bool // a failure, not only a warning
	counters []Movement
}

// congested reads the priorities after a test, and returns what they show besides packets; nothing if nothing does. res is a passing
// result about the test. moved are further counters of the RDMA devices, in the order of the ends.
func (w watched) congested(ctx context.Context, res Result, ends [2]*fabric.NIC, moved [2]func(names []string) Movement) []Result {
	c := congestion{watched: w, classes: [2]*fabric.QoS{ends[0].QoS, ends[1].QoS}, elapsed: cmp.Or(w.sends, time.Since(w.began))}
	if c.err == nil {
		c.after, c.err = w.lanes(ctx, w.ends)
	}
	if c.err != nil { // the test itself is measured without them
		res.Verdict, res.Unmeasured, res.Cause = Warn, true, c.err.Error()
		return []Result{res}
	}
	for p := probe.WholePort; p < priorities; p++ {
		c.pauses(p)
	}
	for i := range c.ends {
		c.storms(i)
		c.discards(i)
	}
	c.marks(moved)
	if len(c.says) == 0 {
		return nil
	}
	res.Counters, res.Verdict = c.counters, Warn
	res.Cause, res.Cure = strings.Join(c.says, "; "), strings.Join(slices.Compact(c.cures), "; ")
	if c.bad {
		res.Verdict = Fail
	}
	return []Result{res}
}

// say adds a sentence, and a cure if it is not empty.
func (c *congestion) say(cure, text string, a ...any) {
	c.says = append(c.says, fmt.Sprintf(text, a...))
	if cure != "" && !slices.Contains(c.cures, cure) {
		c.cures = append(c.cures, cure)
	}
}

// moved returns how far statistics of a kind have risen, and keeps those that rose as evidence. Their names tell the reason of discards.
func (c *congestion) moved(end int, counts probe.Counted, sent bool, priority int) uint64 {
	n, _ := c.rise(end, counts, sent, priority)
	for _, s := range c.after[end].Statistics {
		if s.Counts != counts || s.Sent != sent || s.Priority != priority {
			continue
		}
		for _, was := range c.before[end].Statistics {
			if by := grown(was.Value, s.Value); was.Name == s.Name && by > 0 {
				c.counters = append(c.counters, Movement{Port: c.ends[end].port, Counter: s.Name, Rise: by})
			}
		}
	}
	return n
}

// pauses says who pauses whom.
func (c *congestion) pauses(priority int) {
	frames := func(n uint64) string {
		if priority == probe.WholePort {
			return amount(n, "pause frame")
		}
		return fmt.Sprintf("%s of priority %d", amount(n, "PFC frame"), priority)
	}
	for i, e := range c.ends {
		peer := c.ends[1-i]
		got, asked := c.moved(i, probe.PauseFrames, false, priority), c.moved(1-i, probe.PauseFrames, true, priority)
		_, counts := c.rise(1-i, probe.PauseFrames, true, priority)
		_, hears := c.rise(i, probe.PauseFrames, false, priority)
		slow := fmt.Sprintf("find out why %s is slow: PCIe, a busy CPU, or a program that does not take its data", peer.port)
		switch {
		case got > 0 && asked > 0:
			c.say(slow, "%s pauses %s (%s): packets come faster than it can take them", peer.port, e.port, frames(got))
		case got > 0 && counts == "":
			c.say("look at the counters of the switch, if there is one", "%s or a switch pauses %s (%s): %s does not count the pauses that it sends", peer.port, e.port,
				frames(got), peer.port)
		case got > 0:
			c.say("look at the switch's counters: the way onwards from it is congested", "a switch pauses %s (%s)", e.port, frames(got))
		case asked > 0 && hears == "":
			c.say(slow, "%s sends %s; %s does not count whether it receives them", peer.port, frames(asked), e.port)
		case asked > 0:
			c.say(slow, "%s sends %s, and %s receives none: a switch between them takes them, or %s has no flow control there", peer.port,
				frames(asked), e.port, e.port)
		}
		if paused := time.Duration(c.moved(i, probe.PausedMicros, false, priority)) * time.Microsecond; paused > time.Duration(storm*float64(c.elapsed)) {
			c.bad = true
			c.say("", "that is a pause storm: %s had to be silent for %.0f %% of the time", e.port, 100*min(1, paused.Seconds()/c.elapsed.Seconds()))
		}
	}
}

// storms reports a NIC that says of itself that it pauses the network for too long.
func (c *congestion) storms(end int) {
	if n := c.moved(end, probe.PauseStorms, true, probe.WholePort); n > 0 {
		c.bad = true
		c.say("restart the host or its NIC if that goes on", "%s has reported %s of its own: it takes no packets for too long",
			c.ends[end].port, amount(n, "pause storm"))
	}
}

// discards reports packets that a NIC dropped.
func (c *congestion) discards(end int) {
	var of, names []string
	lossless, first := false, len(c.counters)
	for p := range priorities {
		if n := c.moved(end, probe.Discards, false, p); n > 0 {
			of = append(of, fmt.Sprintf("%s of priority %d", amount(n, "packet"), p))
			q := c.classes[end]
			lossless = lossless || q.Lossless() && q.Priority != nil && *q.Priority == p
		}
	}
	if n := c.moved(end, probe.Discards, false, probe.WholePort); n > 0 && len(of) == 0 {
		of = append(of, amount(n, "packet"))
	}
	if n := c.moved(end, probe.Discards, true, probe.WholePort); n > 0 {
		of = append(of, amount(n, "packet")+" that it was to send")
	}
	if len(of) == 0 {
		return
	}
	for _, m := range c.counters[first:] {
		names = append(names, fmt.Sprintf("%s %d", m.Counter, m.Rise))
	}
	at, cure, why := c.ends[end].port, "", ""
	paused, _ := c.rise(end, probe.PauseFrames, true, probe.WholePort)
	for p := range priorities {
		n, _ := c.rise(end, probe.PauseFrames, true, p)
		paused += n
	}
	switch {
	case c.classes[end] == nil:
		why, cure = ", and the files declare no class of traffic for it", "declare a lossless class for RDMA in a qos block (docs/qos.md)"
	case lossless && paused > 0:
		why, cure = " although its class is lossless and it pauses the other end: its buffer is full before the pause takes effect",
			"give the priority more receive buffer in the qos block, and check that the switch obeys PFC"
	case lossless:
		why, cure = " although its class is lossless", "check that the switch has PFC for the priority, on both ports of this path"
	}
	c.bad = c.bad || lossless
	c.say(cure, "%s dropped %s%s (%s)", at, strings.Join(of, " and "), why, strings.Join(names, ", "))
}

// marks says where packets were marked (ECN), and who slowed down. moved has RDMA's counters of each end; nil: there are none.
func (c *congestion) marks(moved [2]func(names []string) Movement) {
	count := func(end int, names []string) uint64 {
		if moved[end] == nil {
			return 0
		}
		m := moved[end](names)
		if m.Rise > 0 {
			c.counters = append(c.counters, m)
		}
		return m.Rise
	}
	for i, e := range c.ends {
		own, peer := uint64(0), c.ends[1-i].port
		for p := range priorities { // mlx5 marks packets itself, while its receive buffer fills up
			own += c.moved(i, probe.Marked, false, p)
		}
		if own > 0 {
			c.say("", "%s itself marked %s (ECN): packets come faster than it can take them", e.port, amount(own, "packet"))
		}
		ecn, sent, took, ignored := count(i, marked), count(i, cnpSent), count(1-i, cnpTook), count(1-i, cnpMissed)
		if ecn+sent+took > 0 {
			c.say("", "%s received %s (ECN) and sent %s, and %s slowed down for %d", e.port, amount(ecn, "marked packet"), amount(sent, "CNP"),
				peer, took)
		}
		if ignored > 0 {
			c.say("set ecn = true in the qos block of both ends", "%s ignored %s", peer, amount(ignored, "CNP"))
		}
	}
}

// amount is a number of things, in words for people.
func amount(n uint64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
