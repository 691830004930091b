package explain

import (
	"slices"
	"strings"

	"github.com/fabricform/fabricform/nccl/env"
)

// counted are counters of NICs in a file that are not 0, as "NAME VALUE", and the line of the first.
type counted struct {
	line  int
	names []string
}

// packetLoss and badLinks match counters of mlx5 and bnxt_re in sysfs (counters, hw_counters), of rdma statistic, ethtool -S and perfquery.
// Packets out of sequence are left out: with adaptive routing they are usual.
var (
	packetLoss = pattern{text: `\b(local_ack_timeout_err|packet_seq_err|rx_discards_phy|rx_prio\d_discards|port_xmit_discards|PortXmitDiscards|to_retransmits|seq_err_naks_rcvd)` + ofCounter}
	badLinks   = pattern{text: `\b(link_error_recovery|port_rcv_errors|LinkErrorRecoveryCounter|PortRcvErrors|LocalLinkIntegrityErrors)` + ofCounter}
)

// ofCounter is what follows a counter's name: a value that is not 0.
const ofCounter = `[:.=\s]+([1-9]\d*)\b`

// read adds the counters of a line. It reports whether the line has one that is not 0.
func (c *counted) read(number int, line string, form *expression) bool {
	all := form.FindAllStringSubmatch(line, maxFirst)
	for _, at := range all {
		if c.line == 0 {
			c.line = number
		}
		if len(c.names) < maxFirst {
			c.names = append(c.names, at[1]+" "+at[2])
		}
	}
	return len(all) > 0
}

// counter reads a line of counters. Most lines of a file have none of the marks, which are quick to find.
func (t *tables) counter(number int, line string) bool {
	marks := []string{"_err", "discards", "Discards", "Errors", "ecovery", "to_retransmits", "naks_rcvd"}
	marked := slices.ContainsFunc(marks, func(mark string) bool { return strings.Contains(line, mark) })
	return marked && len(line) < maxText && (t.lost.read(number, line, packetLoss.re()) || t.weak.read(number, line, badLinks.re()))
}

// judgeCounters reports what the NICs have counted.
func (t *tables) judgeCounters(r *reading) {
	if t.lost.line > 0 {
		r.say(t.lost.line, env.Warning, "The NIC has counted lost packets", strings.Join(t.lost.names, ", ")+", since the driver was loaded.",
			"If these grow during a test, packets are dropped on the way. Each one costs RDMA a timeout or a repetition: "+
				"the speed falls to a fraction, and errors 12 follow.",
			"Compare them before and after a test. If they grow, make the path lossless for RoCE (PFC and ECN for its priority "+
				"on NICs and on all switch ports, NCCL_IB_TC to match), and check the MTU of the path.")
	}
	if t.weak.line > 0 {
		r.say(t.weak.line, env.Warning, "The port has counted errors of its link", strings.Join(t.weak.names, ", ")+", since the counters were reset.",
			"If these grow, cable, transceiver or port are poor: the link is slow, or fails.",
			"Compare them before and after a test. If they grow, clean or replace cable and transceiver.")
	}
}
