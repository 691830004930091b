package fabric

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// checkQoS checks what the types of a class do not say.
func (c *checker) checkQoS(q *QoS) {
	if q.Invalid {
		return
	}
	mapped := q.DSCP != nil && q.Priority != nil
	switch {
	case q.DSCP != nil && q.Priority == nil && q.Trust != "pcp":
		c.errorf(q.At("dscp"), "DSCP without a priority", "dscp = %d of qos %s leads to no priority. Add priority, such as priority = %d, "+
			"which most NICs use for it by default.", *q.DSCP, q.Name, *q.DSCP>>3)
	case mapped && q.Trust == "pcp":
		c.errorf(q.At("trust"), "DSCP that is not used", "With trust = \"pcp\", NICs take the priority of a received packet from its VLAN tag, "+
			"and dscp = %d of qos %s leads to no priority. Write trust = \"dscp\", or remove dscp.", *q.DSCP, q.Name)
	case q.Trust == "dscp" && !mapped:
		c.errorf(q.At("trust"), "Trust without a DSCP", "With trust = \"dscp\", the DSCP leads to a priority, and qos %s does not say which one. "+
			"Set dscp and priority.", q.Name)
	}
	if q.PFC != nil && q.Priority == nil {
		c.errorf(q.At("pfc"), "PFC without a priority", "qos %s does not say which priority is lossless. Set priority, such as priority = 5.", q.Name)
	}
	if q.Lossless() && q.Pause != nil && *q.Pause {
		c.errorf(q.At("pause"), "PFC beside global pause", "qos %s has pfc and pause. Pause frames stop all priorities of a port, so NICs do only one "+
			"of both. Set pause = false.", q.Name)
	}
	if q.CNPDSCP != nil && (q.ECN == nil || !*q.ECN) {
		c.errorf(q.At("cnp_dscp"), "CNP without ECN", "qos %s has cnp_dscp, but no packet is answered by a CNP without ECN. Set ecn = true.", q.Name)
	}
	if q.CNPDSCP != nil && q.DSCP != nil && *q.CNPDSCP == *q.DSCP {
		c.warnf(q.At("cnp_dscp"), "CNPs in the class that they slow down", "qos %s has %d as dscp and as cnp_dscp, so that congestion notifications wait "+
			"behind the traffic, and are paused with it. Most NICs use cnp_dscp = 48.", q.Name, *q.DSCP)
	}
	if q.RDMACM != nil && *q.RDMACM && q.DSCP == nil {
		c.errorf(q.At("rdma_cm"), "Class without a DSCP", "rdma_cm gives the DSCP of qos %s to connections, and it has none. Set dscp.", q.Name)
	}
	for _, p := range slices.Sorted(maps.Keys(q.Buffer)) {
		if size := q.Buffer[p]; size%bufferCell != 0 {
			c.errorf(q.At("buffer"), "Buffer that no NIC can have", "The buffer of priority %d of qos %s has %d bytes. NICs have buffers in units of %d bytes: "+
				"write %d.", p, q.Name, size, bufferCell, (size+bufferCell-1)/bufferCell*bufferCell)
		}
	}
	c.checkShares(q)
}

// bufferCell is the unit of mlx5's receive buffers in bytes: port_buff_cell_sz of en/port_buffer.c, which is 128 unless the firmware says otherwise.
const bufferCell = 128

// checkShares reports shares that no NIC accepts.
func (c *checker) checkShares(q *QoS) {
	if q.ETS == nil {
		return
	}
	sum := 0
	var said []string
	for _, p := range slices.Sorted(maps.Keys(q.ETS)) {
		sum += q.ETS[p]
		said = append(said, fmt.Sprint(q.ETS[p]))
	}
	if sum != 100 {
		c.errorf(q.At("ets"), "Shares are not 100 percent", "The shares of qos %s add up to %d (%s). Change them so that their sum is 100.",
			q.Name, sum, strings.Join(said, " + "))
	}
	if q.Priority != nil && q.ETS[*q.Priority] == 0 {
		c.errorf(q.At("ets"), "Class without a share", "ets of qos %s has no share for its own priority %d. Add one, such as %d = 60.",
			q.Name, *q.Priority, *q.Priority)
	}
}

// checkLossless reports NICs of a host that are one port, by their name or their port group, and have two lossless priorities.
func (c *checker) checkLossless(h *Host) {
	for i, n := range h.NICs {
		for _, o := range h.NICs[:i] {
			if !n.QoS.Lossless() || !o.QoS.Lossless() || n.QoS.Priority == nil || o.QoS.Priority == nil || *n.QoS.Priority == *o.QoS.Priority {
				continue
			}
			if port := c.onePort(n, o); port != "" {
				c.errorf(n.At("qos"), "Two lossless classes on one port", "%s and %s are both on %s, and their classes qos.%s and qos.%s make priorities "+
					"%d and %d lossless. A pause of one class would then delay the other. Use one class for both.",
					o.Ref(), n.Ref(), port, o.QoS.Name, n.QoS.Name, *o.QoS.Priority, *n.QoS.Priority)
			}
		}
	}
}

// checkOneClass reports NICs for collectives of a host that differ in their class: NCCL has one class for all packets of a process.
func (c *checker) checkOneClass(h *Host) {
	var first *NIC
	nics := c.f.ForCollectives(h)
	for _, n := range nics {
		switch {
		case c.f.NCCLOf(h).Transport == "socket" || n.QoS != nil && n.QoS.Invalid:
			return
		case n.QoS == nil:
		case first == nil:
			first = n
		case lane(n.QoS) != lane(first.QoS):
			c.errorf(n.At("qos"), "Two classes for NCCL", "NCCL has one traffic class for all NICs of a process (NCCL_IB_TC), and %s has qos.%s, "+
				"but %s has qos.%s. Use one class for both, or name the NICs of one class in nccl.hca.",
				first.Ref(), first.QoS.Name, n.Ref(), n.QoS.Name)
			return
		}
	}
	for _, n := range nics {
		if first != nil && first.QoS.DSCP != nil && n.QoS == nil && !n.Invalid {
			c.warnf(n.Pos, "NIC without the class of NCCL", "NCCL has one traffic class for all NICs of a process (NCCL_IB_TC): that of %s, qos.%s. "+
				"%s has no class, so its NIC may give these packets another priority. Set qos = qos.%s there, too.",
				first.Ref(), first.QoS.Name, n.Ref(), first.QoS.Name)
		}
	}
}

// lane returns what NCCL takes from a class.
func lane(q *QoS) string {
	return shownInt(q.DSCP) + " " + shownBool(q.ECN) + " " + shownInt(q.Priority)
}

// onePort names the port that two NICs of a host share: a vlan block says which, another VLAN is named after its interface, and links have
// a port group. "": they
// may be two ports.
func (c *checker) onePort(a, b *NIC) string {
	for _, pair := range [][2]*NIC{{a, b}, {b, a}} {
		if parent, _, is := strings.Cut(pair[1].Netdev, "."); is && parent == pair[0].Netdev {
			return parent
		}
	}
	for _, p := range c.hosts[a.Host].Ports(a) {
		if slices.Contains(c.hosts[a.Host].Ports(b), p) {
			return p.Name
		}
	}
	la, lb := c.cable[a.Ref()], c.cable[b.Ref()]
	if la != nil && lb != nil && la.PortGroup != "" && la.PortGroup == lb.PortGroup {
		return "port group " + la.PortGroup
	}
	return ""
}

// checkEnds reports classes that differ at the ends of a link: a packet would leave in one class and arrive in another.
func (c *checker) checkEnds(l *Link, a, b *NIC) {
	if a.QoS == b.QoS || a.QoS != nil && a.QoS.Invalid || b.QoS != nil && b.QoS.Invalid {
		return
	}
	if a.QoS == nil || b.QoS == nil {
		set, unset := a, b
		if a.QoS == nil {
			set, unset = b, a
		}
		c.errorf(unset.Pos, "Class declared at one end of a link", "%s has qos.%s, but %s at the other end of link %s has none. Set qos = qos.%s "+
			"at both ends.", set.Ref(), set.QoS.Name, unset.Ref(), l.Name, set.QoS.Name)
		return
	}
	if what := differ(a.QoS, b.QoS); what != "" {
		c.errorf(l.At("endpoints"), "Classes differ at the ends of a link", "%s has qos.%s and %s has qos.%s, with %s. Packets would be in another "+
			"class on arrival. Use the same block at both ends of link %s.", a.Ref(), a.QoS.Name, b.Ref(), b.QoS.Name, what, l.Name)
	}
}

// checkSameClass reports members of a network whose classes differ: each may send to each other. A member without a class gets a warning,
// because it may not speak RDMA, but it drops packets where others pause.
func (c *checker) checkSameClass(n *Network) {
	var first *NIC
	for _, r := range n.Members {
		m := c.nics[r]
		if m == nil || m.QoS == nil || m.QoS.Invalid {
			continue
		}
		if first == nil {
			first = m
		}
		if what := differ(first.QoS, m.QoS); what != "" {
			c.errorf(m.At("qos"), "Classes differ in a network", "%s has qos.%s and %s has qos.%s, with %s. Packets would be in another class on "+
				"arrival. Use the same block for all members of network %s.", first.Ref(), first.QoS.Name, m.Ref(), m.QoS.Name, what, n.Title())
		}
	}
	for _, r := range n.Members {
		if m := c.nics[r]; first != nil && m != nil && !m.Invalid && m.QoS == nil {
			c.warnf(m.Pos, "Member without the class of its network", "%s has qos.%s, but %s in the same network %s has none: packets of the class have "+
				"another priority there, and may be dropped. Set qos = qos.%s there, too.", first.Ref(), first.QoS.Name, m.Ref(), n.Title(), first.QoS.Name)
		}
	}
}

// differ names the first attribute of two classes that must be the same at both ends of a path, and its values, such as "dscp 26 and 40";
// "": none differs.
func differ(a, b *QoS) string {
	for _, v := range []struct{ name, a, b string }{
		{"dscp", shownInt(a.DSCP), shownInt(b.DSCP)}, {"priority", shownInt(a.Priority), shownInt(b.Priority)},
		{"pfc", shownBool(a.PFC), shownBool(b.PFC)}, {"ecn", shownBool(a.ECN), shownBool(b.ECN)},
		{"trust", a.Trust, b.Trust}, {"cnp_dscp", shownInt(a.CNPDSCP), shownInt(b.CNPDSCP)},
		{"pause", shownBool(a.Pause), shownBool(b.Pause)},
	} {
		if v.a != v.b {
			return fmt.Sprintf("%s %s and %s", v.name, orUnset(v.a), orUnset(v.b))
		}
	}
	return ""
}

func shownInt(v *int) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(*v)
}

func shownBool(v *bool) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(*v)
}

func orUnset(s string) string {
	if s == "" {
		return "unset"
	}
	return s
}
