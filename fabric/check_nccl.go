package fabric

import (
	"fmt"
	"strconv"
	"strings"
)

// nccl checks declared NCCL settings; h is nil for the fabric's own.
func (c *checker) nccl(n NCCL, h *Host) {
	if n.Invalid {
		return
	}
	if n.GIDIndex != nil {
		c.warnf(n.At("gid_index"), "GID index is pinned", "Indexes move when addresses change or a port flaps. Leave gid_index out: it is derived.")
	}
	if v, ok := n.Env["NCCL_IB_GID_INDEX"]; ok && !strings.HasPrefix(v, "-") {
		c.warnf(n.At("env"), "GID index is pinned", "NCCL_IB_GID_INDEX = %s: indexes move when addresses change or a port flaps. Leave it out: it is derived.", v)
	}
	c.pins(n, h)
	c.environment(n)
	c.roles(n)
}

// pins warns of a NIC's pinned GID index, and finds pins that contradict each other.
func (c *checker) pins(n NCCL, h *Host) {
	hosts := c.f.Hosts
	if h != nil {
		hosts = []*Host{h}
	}
	for _, host := range hosts {
		index := n.GIDIndex
		if h == nil && host.NCCL.GIDIndex != nil {
			index = nil // the host's own is compared where it stands
		}
		for _, nic := range host.NICs {
			pin := nic.GID.Index
			if pin == nil {
				continue
			}
			if h != nil {
				c.warnf(nic.At("gid"), "GID index is pinned", "Indexes move when addresses change or a port flaps. Leave gid.index out: it is derived.")
			}
			if index != nil && *pin != *index {
				c.errorf(nic.At("gid"), "Pins contradict each other", "%s pins GID index %d, and nccl.gid_index pins %d for all HCAs of the host. NCCL takes one: keep one pin, or none.", nic.Ref(), *pin, *index)
			}
		}
	}
}

// environment finds the values that NCCL reads as something else than they look like. NCCL's
// parsers: src/misc/param.cc (strtoll) and src/misc/socket.cc, ibvwrap (lists).
func (c *checker) environment(n NCCL) {
	pos := n.At("env")
	for _, k := range []string{"NCCL_IB_DISABLE", "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE"} {
		if v := n.Env[k]; v == "true" || v == "false" {
			c.errorf(pos, "NCCL wants a number", "%s = %q is read as 0. Write 0 or 1.", k, v)
		}
	}
	for _, k := range []string{"NCCL_IB_HCA", "NCCL_SOCKET_IFNAME"} {
		if strings.Contains(n.Env[k], " ") {
			c.errorf(pos, "Space in an NCCL list", "%s = %q: separate by commas without spaces, or NCCL loses what follows.", k, n.Env[k])
		}
	}
	names, hcas := list(n.Env["NCCL_SOCKET_IFNAME"]), list(n.Env["NCCL_IB_HCA"])
	for _, name := range names {
		if c.isDevice(name) {
			c.errorf(pos, "RDMA device where an interface belongs", "NCCL_SOCKET_IFNAME = %q: %s is an RDMA device. Name the interface.", n.Env["NCCL_SOCKET_IFNAME"], name)
		}
	}
	for _, name := range hcas {
		if c.isNetdev(name) {
			c.errorf(pos, "Interface where an RDMA device belongs", "NCCL_IB_HCA = %q: %s is an interface. Leave NCCL_IB_HCA out: it is derived from the NICs.", n.Env["NCCL_IB_HCA"], name)
		}
	}
	if v, err := strconv.Atoi(n.Env["NCCL_IB_TIMEOUT"]); err == nil && v > 22 {
		c.warnf(pos, "NCCL_IB_TIMEOUT is high", "%d means %s for each of the retries: a dead link is noticed minutes later. 20 to 22 is enough.", v, ibTimeout(v))
	}
}

// ibTimeout is the InfiniBand specification's local ACK timeout: 4.096 µs · 2^n.
func ibTimeout(n int) string {
	return fmt.Sprintf("%.0f s", 4.096e-6*float64(uint64(1)<<min(n, 31)))
}

// list splits a list of NCCL's: a leading ^ excludes, = matches exactly, and :n names a port.
func list(s string) []string {
	var out []string
	for _, p := range strings.Split(strings.TrimLeft(s, "^="), ",") {
		p, _, _ = strings.Cut(p, ":")
		if p = strings.TrimSpace(p); p != "" {
			out = append(out, p)
		}
	}
	return out
}

func (c *checker) isNetdev(name string) bool {
	for _, h := range c.f.Hosts {
		for _, n := range h.NICs {
			if n.Netdev == name {
				return true
			}
		}
	}
	return false
}

func (c *checker) isDevice(name string) bool {
	if c.isNetdev(name) {
		return false
	}
	for _, prefix := range []string{"mlx4_", "mlx5_", "rocep", "roceP", "ibp", "bnxt_re", "irdma", "rxe", "hns_", "cxgb4_", "qedr"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// roles warns where NCCL is told to use a link that is not meant for collectives.
func (c *checker) roles(n NCCL) {
	for _, r := range n.HCA {
		role := "training"
		if l := c.cable[r]; l != nil {
			role = l.Role
		} else if w := c.net[r]; w != nil {
			role = w.Role
		}
		if role != "training" {
			c.warnf(n.At("hca"), "Collectives over a link of another role", "%s stands on a link with role %q, and nccl.hca names it. Leave it out, or give the link role \"training\".", r, role)
		}
	}
}
