package fabric

// nccl checks declared NCCL settings; h is nil for the fabric's own block. Package config checks env
// against the table of NCCL's variables.
func (c *checker) nccl(n NCCL, h *Host) {
	if n.Invalid {
		return
	}
	if n.GIDIndex != nil {
		c.warnf(n.At("gid_index"), "GID index is pinned", "GID indexes change when addresses change or a port flaps. Remove gid_index: it is derived.")
	}
	c.pins(n, h)
	c.roles(n)
}

// pins warns about a NIC's pinned GID index, and reports pins that contradict each other.
func (c *checker) pins(n NCCL, h *Host) {
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
				c.warnf(nic.At("gid"), "GID index is pinned", "GID indexes change when addresses change or a port flaps. Remove gid.index: it is derived.")
			}
			if index != nil && *pin != *index {
				c.errorf(nic.At("gid"), "Contradicting GID indexes", "%s pins GID index %d, but nccl.gid_index pins %d for all HCAs of the host. NCCL uses one index: keep one pin or none.", nic.Ref(), *pin, *index)
			}
		}
	}
}

// roles warns if NCCL is configured to use a link that is not meant for collectives.
func (c *checker) roles(n NCCL) {
	for _, r := range n.HCA {
		role := "training"
		if l := c.cable[r]; l != nil {
			role = l.Role
		} else if w := c.net[r]; w != nil {
			role = w.Role
		}
		if role != "training" {
			c.warnf(n.At("hca"), "Collectives over a link of another role", "nccl.hca contains %s, whose link has role %q. Remove it from nccl.hca, or set role = \"training\" on the link.", r, role)
		}
	}
}
