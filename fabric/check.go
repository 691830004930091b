package fabric

import (
	"fmt"
	"net/netip"
	"strings"
)

// Severity says whether a problem stops the plan.
type Severity int

// The severities of a Problem.
const (
	Error Severity = iota
	Warning
)

// Problem is something wrong with a fabric that its files alone show.
type Problem struct {
	Severity        Severity
	Summary, Detail string
	Pos             Pos
}

type checker struct {
	f   *Fabric
	out []Problem
}

func (c *checker) add(s Severity, p Pos, summary, detail string, a ...any) {
	c.out = append(c.out, Problem{s, summary, fmt.Sprintf(detail, a...), p})
}

// Check returns everything that is wrong with the fabric offline, in a stable order.
func Check(f *Fabric) []Problem {
	c := &checker{f: f}
	c.addresses()
	c.links()
	c.sameSubnet()
	for _, h := range f.Hosts {
		c.routes(h)
		c.nccl(h.NCCL)
	}
	c.nccl(f.NCCL)
	return c.out
}

func at(m map[string]Pos, name string, or Pos) Pos {
	if p, ok := m[name]; ok {
		return p
	}
	return or
}

func (c *checker) addresses() {
	seen := map[netip.Addr]*NIC{}
	for _, h := range c.f.Hosts {
		devs := map[string]string{}
		for _, n := range h.NICs {
			key := n.Netdev + n.MAC + n.PCI
			if other, dup := devs[key]; dup {
				c.add(Error, n.Pos, "Device used twice", "NICs %s and %s of host %s are both %s. Give each its own device.", other, n.Name, h.Name, key)
			}
			devs[key] = n.Name
			for _, p := range n.Addresses {
				pos := at(n.AttrPos, "addresses", n.Pos)
				if o := seen[p.Addr()]; o != nil {
					c.add(Error, pos, "Address used twice", "%s is also on %s.%s. Every address is used once in a fabric.", p.Addr(), o.Host, o.Name)
				}
				seen[p.Addr()] = n
				if p != p.Masked() || p.IsSingleIP() || p.Addr().Is4() && p.Bits() == 31 || p.Addr().Is6() && p.Bits() == 127 {
					continue
				}
				c.add(Error, pos, "Network where an address belongs", "%s is a network's own address. Use a host's address in it.", p)
			}
		}
	}
}

func (c *checker) links() {
	used := map[NICRef]string{}
	for _, l := range c.f.Links {
		pos := at(l.AttrPos, "endpoints", l.Pos)
		if l.Endpoints[0].Host == l.Endpoints[1].Host {
			c.add(Error, pos, "Link within one host", "Both ends of link %s are on host %s. A link joins two hosts.", l.Name, l.Endpoints[0].Host)
		}
		var n [2]*NIC
		for i, r := range l.Endpoints {
			if other, dup := used[r]; dup {
				c.add(Error, pos, "NIC in two links", "%s is an end of links %s and %s. A cable has two ends of its own.", r, other, l.Name)
			}
			used[r] = l.Name
			if n[i] = c.f.NIC(r); n[i] == nil {
				return
			}
			if l.MTU != 0 && n[i].MTU != l.MTU {
				c.add(Error, at(n[i].AttrPos, "mtu", n[i].Pos), "MTU differs from the link's", "Link %s has mtu %d, %s has %d. Set it in one place.", l.Name, l.MTU, r, n[i].MTU)
			}
			for _, p := range n[i].Addresses {
				if a := p.Addr(); a.IsGlobalUnicast() && !a.IsPrivate() && !netip.MustParsePrefix("100.64.0.0/10").Contains(a) {
					c.add(Warning, at(n[i].AttrPos, "addresses", n[i].Pos), "Public address on a fabric link", "%s is public address space. Use a private network.", p)
				}
			}
			if m := n[i].MTU; m > 0 && m < 4192 {
				c.add(Warning, at(n[i].AttrPos, "mtu", n[i].Pos), "MTU is small for RDMA", "mtu %d gives an RDMA MTU below 4096. Use 9000 where both ends can.", m)
			}
		}
		if n[0].MTU != n[1].MTU {
			c.add(Error, at(n[1].AttrPos, "mtu", pos), "MTU differs at the ends of a link", "%s has mtu %d, %s has %d. Set both alike, or mtu in the link.", l.Endpoints[0], n[0].MTU, l.Endpoints[1], n[1].MTU)
		}
		if a, b := subnets(n[0]), subnets(n[1]); a != b {
			c.add(Error, pos, "Subnets differ at the ends of a link", "%s is in %s, %s in %s. Give both ends addresses of one subnet.", l.Endpoints[0], a, l.Endpoints[1], b)
		}
	}
}

func subnets(n *NIC) string {
	var s []string
	for _, p := range n.Addresses {
		s = append(s, p.Masked().String())
	}
	return strings.Join(s, ", ")
}

// sameSubnet finds two cables of one host in one subnet: the kernel holds two equal routes then.
func (c *checker) sameSubnet() {
	linked := map[NICRef]bool{}
	for _, l := range c.f.Links {
		linked[l.Endpoints[0]], linked[l.Endpoints[1]] = true, true
	}
	for _, h := range c.f.Hosts {
		for i, n := range h.NICs {
			for _, m := range h.NICs[:i] {
				if !linked[NICRef{h.Name, n.Name}] || !linked[NICRef{h.Name, m.Name}] {
					continue
				}
				for _, p := range n.Addresses {
					for _, q := range m.Addresses {
						if p.Overlaps(q) {
							c.add(Error, at(n.AttrPos, "addresses", n.Pos), "Two direct links in one subnet",
								"NICs %s and %s of host %s are both in %s. The kernel cannot tell the two cables apart: all traffic takes the first. Give each cable a subnet of its own, such as 192.168.88.0/30 and 192.168.88.4/30.", m.Name, n.Name, h.Name, p.Masked())
						}
					}
				}
			}
		}
	}
}

func (c *checker) routes(h *Host) {
	own := map[netip.Addr]bool{}
	for _, n := range h.NICs {
		for _, p := range n.Addresses {
			own[p.Addr()] = true
		}
	}
	for _, p := range h.Policy {
		if p.From.IsValid() && p.From.IsSingleIP() && !own[p.From.Addr()] {
			c.add(Error, at(p.AttrPos, "from", p.Pos), "Not an address of this host", "from %s is on no NIC of host %s. Use one of its addresses.", p.From.Addr(), h.Name)
		}
		n := h.NIC(p.NIC)
		for _, r := range p.Routes {
			if r.Src.IsValid() && !own[r.Src] {
				c.add(Error, r.Pos, "Not an address of this host", "src %s is on no NIC of host %s. Use one of its addresses.", r.Src, h.Name)
			}
			reached := r.OnLink || !r.Via.IsValid() || n == nil
			for i := 0; !reached && i < len(n.Addresses); i++ {
				reached = n.Addresses[i].Masked().Contains(r.Via)
			}
			if !reached {
				c.add(Error, r.Pos, "Gateway out of reach", "via %s is on no subnet of NIC %s. Correct it, or set on_link = true.", r.Via, p.NIC)
			}
		}
	}
}

func (c *checker) nccl(n NCCL) {
	if n.GIDIndex != nil {
		c.add(Warning, n.Pos, "GID index is pinned", "Indexes move when addresses change. Leave gid_index out: it is derived.")
	}
	for _, k := range []string{"NCCL_IB_DISABLE", "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE"} {
		if v := n.Env[k]; v == "true" || v == "false" {
			c.add(Error, n.Pos, "NCCL wants a number", "%s = %q is read as 0. Write 0 or 1.", k, v)
		}
	}
	for _, k := range []string{"NCCL_IB_HCA", "NCCL_SOCKET_IFNAME"} {
		if strings.Contains(n.Env[k], " ") {
			c.add(Error, n.Pos, "Space in an NCCL list", "%s must be separated by commas without spaces.", k)
		}
	}
}
