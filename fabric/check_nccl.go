package fabric

import (
	"fmt"
	"slices"
	"strings"
)

// checkNCCL checks declared NCCL settings; h is nil for the fabric's own block. Package config checks env
// against the table of NCCL's variables.
func (c *checker) checkNCCL(n NCCL, h *Host) {
	if n.Invalid {
		return
	}
	if n.GIDIndex != nil {
		c.warnf(n.At("gid_index"), "GID index is pinned",
			"GID indexes change when addresses change or a port flaps. Remove gid_index: it is derived.")
	}
	c.checkPins(n, h)
	c.checkRoles(n)
	if h == nil {
		c.checkOtherHosts(n)
	}
}

// shownHosts is the largest number of hosts that a message names.
const shownHosts = 4

// checkOtherHosts warns if the fabric's nccl.hca names NICs of some hosts only: it says nothing about the others.
func (c *checker) checkOtherHosts(n NCCL) {
	var others []string
	trains := func(nic *NIC) bool {
		l, w := c.cable[nic.Ref()], c.net[nic.Ref()]
		return l != nil && l.Role == "training" || w != nil && w.Role == "training"
	}
	for _, h := range c.f.Hosts {
		if h.NCCL.HCA == nil && c.f.NCCLOf(h).HCA == nil && slices.ContainsFunc(h.NICs, trains) {
			others = append(others, h.Name)
		}
	}
	if len(others) > shownHosts {
		others = append(others[:shownHosts], fmt.Sprintf("%d more", len(others)-shownHosts))
	}
	if len(n.HCA) > 0 && len(others) > 0 {
		c.warnf(n.At("hca"), "NICs of some hosts only",
			"nccl.hca names no NIC of %s, where NCCL uses all NICs of training links and networks. Name a NIC of each host, such as "+
				"[for h in values(host) : h.nic.%s], or declare hca in the nccl block of the host that it is for.",
			strings.Join(others, ", "), n.HCA[0].NIC)
	}
}

// checkLaunchers warns about collectives that nccl-tests cannot run, because no login mesh has their hosts, and Slurm does not reach them.
func (c *checker) checkLaunchers() {
	for _, p := range c.f.Paths() {
		a, b := p.Endpoints[0].Host, p.Endpoints[1].Host
		if p.Role != "training" || !p.Validate.NCCL.Enabled || p.Validate.NCCL.Run != "nccl-tests" || c.f.Mesh(a, b) != nil ||
			c.f.Host(a).Slurm != nil && c.f.Host(b).Slurm != nil {
			continue
		}
		var at Pos
		var what string
		if p.Link != nil {
			at, what = p.Link.Pos, "Link "+p.Link.Name
		} else {
			at, what = p.Network.Pos, "Network "+p.Network.Name
		}
		c.warnf(at, "nccl-tests without logins", "%s declares run = \"nccl-tests\", which logs in from host to host, but no login_mesh has both "+
			"%s and %s: the check is skipped. Declare a login_mesh with all hosts of these collectives, or set run = \"torch\".", what, a, b)
		return
	}
}

// checkPins warns about a NIC's pinned GID index, and reports pins that contradict each other.
func (c *checker) checkPins(n NCCL, h *Host) {
	hosts := c.f.Hosts
	if h != nil {
		hosts = []*Host{h}
	}
	for _, host := range hosts {
		index := n.GIDIndex
		if h == nil && host.NCCL.GIDIndex != nil {
			index = nil // the host's own block wins, and its pin is compared in its own check
		}
		for _, nic := range host.NICs {
			pin := nic.GID.Index
			if pin == nil {
				continue
			}
			if h != nil {
				c.warnf(nic.At("gid"), "GID index is pinned",
					"GID indexes change when addresses change or a port flaps. Remove gid.index: it is derived.")
			}
			if index != nil && *pin != *index {
				c.errorf(nic.At("gid"), "Contradicting GID indexes",
					"%s pins GID index %d, but nccl.gid_index pins %d for all HCAs of the host. NCCL uses one index: keep one pin or none.",
					nic.Ref(), *pin, *index)
			}
		}
	}
}

// checkRoles warns if NCCL is configured to use a link that is not meant for collectives.
func (c *checker) checkRoles(n NCCL) {
	for _, r := range n.HCA {
		role := "training"
		if l := c.cable[r]; l != nil {
			role = l.Role
		} else if w := c.net[r]; w != nil {
			role = w.Role
		}
		if role != "training" {
			c.warnf(n.At("hca"), "Collectives over a link of another role",
				"nccl.hca contains %s, whose link has role %q. Remove it from nccl.hca, or set role = \"training\" on the link.", r, role)
		}
	}
}
