package fabric

// nccl checks declared NCCL settings; h is nil for the fabric's own. Package config holds env against
// the table of NCCL's variables.
func (c *checker) nccl(n NCCL, h *Host) {
	if n.Invalid {
		return
	}
	if n.GIDIndex != nil {
		c.warnf(n.At("gid_index"), "GID index is pinned", "Indexes move when addresses change or a port flaps. Leave gid_index out: it is derived.")
	}
	c.pins(n, h)
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
