package env

import (
	"fmt"
	"math"
	"time"
)

// special adds findings about particular variables.
func (c *check) special() {
	n := ParseNumber(c.value)
	switch c.v.Name {
	case "NCCL_IB_GID_INDEX":
		if n.Value < 0 || !n.Digits {
			return
		}
		costs := "Indexes differ between ports and hosts, and change when addresses change or a port flaps. An index that is empty or " +
			"RoCE v1 fails late."
		if n.Value == 0 {
			costs = "Index 0 is the link-local address, on many cards with RoCE v1. Routers do not forward it, and few switches can " +
				"prioritize it."
		}
		c.add(Warning, "GID index is pinned", fmt.Sprintf("NCCL_IB_GID_INDEX = %s pins the index of every device of the host.", c.value),
			costs, "With NCCL 2.21 or later remove it: they choose by address. If a NIC has several addresses, select a network with "+
				"NCCL_IB_ADDR_RANGE. If show_gids skips indexes, as in a container, keep it with NCCL up to 2.25.1: these releases stop at the first gap.")
	case "NCCL_IB_TIMEOUT":
		if n.Value > 22 && n.Value < 32 {
			c.add(Warning, "NCCL_IB_TIMEOUT is high",
				fmt.Sprintf("%d means %.0f s for each retry.", n.Value, AckTimeout(int(n.Value)).Seconds()),
				"A dead link is detected only after minutes.", "Use 20 to 22.")
		}
		if n.Value > 0 && n.Value < 12 {
			c.add(Warning, "NCCL_IB_TIMEOUT is low",
				fmt.Sprintf("%d means %s for each retry.", n.Value, AckTimeout(int(n.Value)).Round(time.Microsecond)),
				"An answer takes longer where the network is busy: connections fail with status 12.", "Use 20 to 22.")
		}
	case "NCCL_IB_PCI_RELAXED_ORDERING":
		if n.Value == 1 {
			// ncclIbRelaxedOrderingCapable treats 1 and 2 alike in 2.12 to 2.30, although the documentation says that 1 fails without it.
			c.add(Note, "Required instead of automatic",
				"NCCL_IB_PCI_RELAXED_ORDERING = 1 asks for relaxed ordering; by default NCCL uses it if it is available.",
				"The documentation says that NCCL fails without it; the versions up to 2.30 go on.", "Remove it.")
		}
	case "NCCL_P2P_DISABLE":
		if n.Value == 1 {
			c.add(Note, "Direct paths between GPUs are disabled",
				"NCCL_P2P_DISABLE = 1 sends data between GPUs of one host through the host's memory.",
				"It is much slower than NVLink, and slower than direct PCIe.",
				"Remove it, unless GPUs of this host cannot reach each other.")
		}
	case "NCCL_SHM_DISABLE":
		if n.Value == 1 {
			c.add(Note, "Shared memory is disabled",
				"NCCL_SHM_DISABLE = 1 sends data between GPUs of one host that have no direct path through the network.",
				"It is slower, and takes the NIC's bandwidth.", "Remove it. If /dev/shm is too small, enlarge it.")
		}
	case "NCCL_ALGO", "NCCL_PROTO":
		c.add(Note, "Choice is pinned", fmt.Sprintf("%s = %q replaces NCCL's own choice by operation, size and topology.",
			c.v.Name, c.value),
			"Other sizes become slower; from 2.24, an operation with no allowed algorithm fails.", "Remove it, except for a comparison.")
	case "NCCL_NTHREADS":
		c.add(Note, "Not a network setting", "NCCL_NTHREADS is the size of CUDA blocks.", "It does not affect the network.", "Remove it.")
	case "NCCL_IB_TC", "NCCL_IB_FIFO_TC":
		if n.Value > 0 && n.Value <= 255 {
			if p, says, known := c.priority(int(n.Value >> 2)); known {
				c.add(Note, "Traffic class", fmt.Sprintf("%s = %d is DSCP %d%s, which %s leads to priority %d.", c.v.Name, n.Value, n.Value>>2,
					ecn(n.Value), says, p), "", "")
				return
			}
			c.add(Note, "Traffic class", fmt.Sprintf("%s = %d is DSCP %d%s. Under DSCP trust with the default map that is priority %d.",
				c.v.Name, n.Value, n.Value>>2, ecn(n.Value), n.Value>>5),
				"The NIC's trust mode and map decide: under PCP trust the class means no priority. Where they, PFC and the switch "+
					"disagree, packets are silently lost under congestion.",
				"Compare trust mode, map and PFC of the NICs (mlnx_qos -i NIC) with the switches.")
		}
	}
}

// ecn names the two lowest bits of a traffic class.
func ecn(class int64) string {
	if class&3 == 0 {
		return ""
	}
	return fmt.Sprintf(" with ECN bits %d", class&3)
}

// AckTimeout returns the InfiniBand specification's local ACK timeout for NCCL_IB_TIMEOUT: 4.096 µs · 2^n.
// After this time a packet is sent again.
func AckTimeout(n int) time.Duration {
	return time.Duration(4.096 * math.Exp2(float64(min(max(n, 0), 31))) * float64(time.Microsecond))
}

// Set is one variable with its value.
type Set struct{ Name, Value string }

// CheckTogether returns the problems of several variables in combination.
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
				out = append(out, Finding{Warning, s.Name, "No effect with NCCL_IB_DISABLE",
					fmt.Sprintf("NCCL_IB_DISABLE = %s disables RDMA.", value["NCCL_IB_DISABLE"]),
					s.Name + " has no effect.", "Remove one of the two.", ""})
			}
		}
	}
	if _, pinned := value["NCCL_IB_GID_INDEX"]; pinned && number("NCCL_IB_GID_INDEX", -1) >= 0 {
		for _, name := range []string{"NCCL_IB_ADDR_RANGE", "NCCL_IB_ADDR_FAMILY", "NCCL_IB_ROCE_VERSION_NUM"} {
			if _, ok := value[name]; ok {
				out = append(out, Finding{Warning, name, "No effect with a pinned GID index",
					"NCCL_IB_GID_INDEX is set and takes precedence.", name + " has no effect.", "Remove one of the two.", ""})
			}
		}
	}
	if threads, each := number("NCCL_SOCKET_NTHREADS", 1), number("NCCL_NSOCKS_PERTHREAD", 1); threads > 0 && each > 0 &&
		(threads > 64 || each > 64 || threads*each > 64) {
		name := "NCCL_NSOCKS_PERTHREAD"
		if _, ok := value[name]; !ok {
			name = "NCCL_SOCKET_NTHREADS"
		}
		out = append(out, Finding{Error, name, "Too many sockets", "NCCL_SOCKET_NTHREADS times NCCL_NSOCKS_PERTHREAD must be at most 64.",
			"NCCL lowers one of them.", "Set lower values.", ""})
	}
	return out
}
