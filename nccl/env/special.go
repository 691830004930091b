package env

import (
	"fmt"
	"math"
	"time"
)

// special are the things to know of single variables.
func (c *check) special() {
	n := ParseNumber(c.value)
	switch c.v.Name {
	case "NCCL_IB_GID_INDEX":
		if n.Value < 0 || !n.Digits {
			return
		}
		costs := "Indexes differ between ports and hosts, and move when addresses change or a port flaps. One that is RoCE v1 or empty fails late."
		if n.Value == 0 {
			costs = "Index 0 is the link-local address, on many cards RoCE v1: no router and few switches' QoS carry it."
		}
		c.add(Warning, "GID index is pinned", fmt.Sprintf("NCCL_IB_GID_INDEX = %s pins every device of the host.", c.value), costs, "Leave it out: NCCL 2.21 and later choose by address. NCCL_IB_ADDR_RANGE names a network where a NIC has several.")
	case "NCCL_IB_TIMEOUT":
		if n.Value > 22 && n.Value < 32 {
			c.add(Warning, "NCCL_IB_TIMEOUT is high", fmt.Sprintf("%d means %.0f s for each of the retries.", n.Value, AckTimeout(int(n.Value)).Seconds()), "A dead link is noticed minutes later.", "20 to 22 is enough.")
		}
	case "NCCL_IB_PCI_RELAXED_ORDERING":
		if n.Value == 1 {
			c.add(Warning, "Forces what NCCL tries by itself", "NCCL_IB_PCI_RELAXED_ORDERING = 1 makes NCCL fail where relaxed ordering is missing; by itself it uses it where it can.", "A host with an older libibverbs does not start.", "Leave it out.")
		}
	case "NCCL_NTHREADS":
		c.add(Note, "Not a network setting", "NCCL_NTHREADS is the size of CUDA blocks.", "It does nothing for the network.", "Leave it out.")
	case "NCCL_IB_TC", "NCCL_IB_FIFO_TC":
		if n.Value > 0 && n.Value <= 255 {
			c.add(Note, "Traffic class", fmt.Sprintf("%s = %d is DSCP %d, which ConnectX cards map to priority %d.", c.v.Name, n.Value, n.Value>>2, n.Value>>5), "Where trust mode, PFC or the switch disagree, the traffic is lossy, without a word.", "Check that NICs and switches treat that priority as lossless.")
		}
	}
}

// AckTimeout is the InfiniBand specification's local ACK timeout for NCCL_IB_TIMEOUT: 4.096 µs · 2^n.
// After it a packet is sent again.
func AckTimeout(n int) time.Duration {
	return time.Duration(4.096 * math.Exp2(float64(min(max(n, 0), 31))) * float64(time.Microsecond))
}

// Set is one variable with its value, in the order in which they stand.
type Set struct{ Name, Value string }

// CheckTogether answers what is wrong with several values side by side.
func CheckTogether(all []Set) (out []Finding) {
	value := map[string]string{}
	for _, s := range all {
		value[s.Name] = s.Value
	}
	number := func(name string, otherwise int64) int64 {
		if v, ok := value[name]; ok && v != "" {
			return ParseNumber(v).Value
		}
		return otherwise
	}
	if number("NCCL_IB_DISABLE", 0) != 0 {
		for _, s := range all {
			if v := Lookup(s.Name); v != nil && len(s.Name) > 8 && s.Name[:8] == "NCCL_IB_" && s.Name != "NCCL_IB_DISABLE" {
				out = append(out, Finding{Warning, s.Name, "Dead beside NCCL_IB_DISABLE", fmt.Sprintf("NCCL_IB_DISABLE = %s switches RDMA off.", value["NCCL_IB_DISABLE"]), s.Name + " does nothing.", "Drop one of the two."})
			}
		}
	}
	if _, pinned := value["NCCL_IB_GID_INDEX"]; pinned && number("NCCL_IB_GID_INDEX", -1) >= 0 {
		for _, name := range []string{"NCCL_IB_ADDR_RANGE", "NCCL_IB_ADDR_FAMILY", "NCCL_IB_ROCE_VERSION_NUM"} {
			if _, ok := value[name]; ok {
				out = append(out, Finding{Warning, name, "Dead beside a pinned GID index", "NCCL_IB_GID_INDEX is set, and wins.", name + " does nothing.", "Leave NCCL_IB_GID_INDEX out."})
			}
		}
	}
	if threads, each := number("NCCL_SOCKET_NTHREADS", 1), number("NCCL_NSOCKS_PERTHREAD", 1); threads > 0 && each > 0 && (threads > 64 || each > 64 || threads*each > 64) {
		name := "NCCL_NSOCKS_PERTHREAD"
		if _, ok := value[name]; !ok {
			name = "NCCL_SOCKET_NTHREADS"
		}
		out = append(out, Finding{Error, name, "Too many sockets", "NCCL_SOCKET_NTHREADS times NCCL_NSOCKS_PERTHREAD must be at most 64.", "NCCL lowers one of them.", "Lower one of them."})
	}
	return out
}
