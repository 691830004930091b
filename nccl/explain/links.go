package explain

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/nccl/env"
)

// link is an interface as ifconfig, ip link and ip addr list it: eth0: flags=4099<UP,BROADCAST>  mtu 1500, 3: eth0: <NO-CARRIER,UP> mtu 1500,
// and, of ip -br addr, eth0  UP  10.0.0.1/24.
type link struct {
	line      int
	name      string
	up        bool // it has a link
	port      bool // of a bond or a bridge
	addresses []netip.Prefix
	hidden    bool // somebody has removed an address that is not local to the host
}

var linkForm = pattern{text: `^\s*(?:\d+: )?([\w.-]+)(?:@[\w.-]+)?: (?:flags=\d+)?<([A-Z_,-]+)> +mtu \d`}

// maxAddresses limits the addresses of an interface.
const maxAddresses = 16

// linkRow reads a line of an interface, or one of its addresses.
func (t *tables) linkRow(number int, line string, fields []string) {
	if len(t.links) >= maxRows {
		return
	}
	if at := linkForm.re().FindStringSubmatch(line); at != nil {
		flags := strings.Split(at[2], ",")
		t.links = append(t.links, link{line: number, name: at[1], up: slices.Contains(flags, "RUNNING") || slices.Contains(flags, "LOWER_UP"), port: slices.Contains(fields, "master")})
		return
	}
	if n := len(fields); n >= 3 && (fields[1] == "UP" || fields[1] == "UNKNOWN" || fields[1] == "DOWN") { // ip -br addr
		if _, err := netip.ParsePrefix(fields[2]); err == nil {
			name, _, _ := strings.Cut(fields[0], "@")
			t.links = append(t.links, link{line: number, name: name, up: fields[1] != "DOWN"})
			for _, f := range fields[2:min(n, 2+maxAddresses)] {
				t.address(f)
			}
		}
		return
	}
	if fields[0] != "inet" && fields[0] != "inet6" || len(t.links) == 0 {
		return
	}
	if at := slices.Index(fields, "netmask"); at == 2 && len(fields) > 3 { // ifconfig
		mask := net.IPMask(net.ParseIP(fields[3]).To4())
		if ones, bits := mask.Size(); bits == 32 {
			t.address(fmt.Sprintf("%s/%d", fields[1], ones))
		}
		return
	}
	t.address(fields[1])
}

// address adds an address to the latest interface.
func (t *tables) address(text string) {
	l := &t.links[len(t.links)-1]
	p, err := netip.ParsePrefix(text)
	l.hidden = l.hidden || err != nil && hiddenAddress.re().MatchString(text)
	if err == nil && len(l.addresses) < maxAddresses {
		l.addresses = append(l.addresses, p)
	}
}

// hiddenAddress is an IPv4 address with letters in place of numbers: "x.x.x.x/32", "10.0.X.Y".
var hiddenAddress = pattern{text: `(?i)^(?:[a-z]{1,3}|\*+|\d+)(?:\.(?:[a-z]{1,3}|\*+|\d+)){3}(?:/\d+)?$`}

// reachable reports whether other hosts can know the interface by an address.
func (k link) reachable() bool {
	return k.hidden || slices.ContainsFunc(k.addresses, func(p netip.Prefix) bool {
		return !p.Addr().IsLoopback() && (p.Addr().Is4() || !p.Addr().IsLinkLocalUnicast())
	})
}

// hostLinks returns the interfaces by host. Where a name comes again, another host's table begins.
func (t *tables) hostLinks() (out [][]link) {
	seen := map[string]bool{}
	for _, k := range t.links {
		if len(out) == 0 || seen[k.name] {
			out = append(out, nil)
			clear(seen)
		}
		seen[k.name] = true
		out[len(out)-1] = append(out[len(out)-1], k)
	}
	return out
}

// maxCompared limits the interfaces of a host that are compared with one another.
const maxCompared = 64

// judgeLinks judges the interfaces by themselves, and NCCL_SOCKET_IFNAME by them. named says that the list selects interfaces.
func (t *tables) judgeLinks(r *reading, ifname setting, named bool, list env.NameList) {
	hosts := t.hostLinks()
	selected := 0
	for _, links := range hosts {
		oneSubnet(r, links)
		onLoopback(r, links)
		var mine []link
		for _, k := range links {
			if named && list.Selects(k.name, -1) {
				mine = append(mine, k)
			}
		}
		selected += len(mine)
		addressed := slices.ContainsFunc(links, func(k link) bool { return len(k.addresses) > 0 })
		switch {
		case len(mine) == 0:
		case !slices.ContainsFunc(mine, func(k link) bool { return k.up }):
			r.add(mine[0].line, env.Finding{Severity: env.Error, Name: ifname.name, Summary: "Interface without a link", Wrong: fmt.Sprintf("%s = %q selects %s, which has no link.", ifname.name, shorten(ifname.value), mine[0].name), Costs: "NCCL needs an interface that has a link and an address: ranks fail with no socket interface found, or do not reach each other.", Instead: "Name an interface with a link and an address (ip -br addr), or bring this one up: cable, switch port and address."})
		case addressed && !slices.ContainsFunc(mine, link.reachable):
			r.add(mine[0].line, env.Finding{Severity: env.Error, Name: ifname.name, Summary: "Interface without an address", Wrong: fmt.Sprintf("%s = %q selects %s, which has no address that other hosts reach.", ifname.name, shorten(ifname.value), mine[0].name), Costs: "Ranks fail with no socket interface found, or do not reach each other.", Instead: "Name the interface that has the address (of a bond or a bridge: not its ports), or give this one an address."})
		}
	}
	if whole := slices.ContainsFunc(t.links, func(k link) bool { return k.name == "lo" }); named && whole && selected == 0 {
		var have []string
		for _, k := range hosts[0] {
			if k.up && k.reachable() && !isLocal(k.name) {
				have = append(have, k.name)
			}
		}
		if len(have) > 0 {
			r.add(ifname.line, env.Finding{Severity: env.Error, Name: ifname.name, Summary: "No interface of that name", Wrong: fmt.Sprintf("%s = %q selects none of the interfaces in line %d and below.", ifname.name, shorten(ifname.value), hosts[0][0].line), Costs: "NCCL finds no interface, and does not start.", Instead: "These have a link and an address: " + some("interface", have) + "."})
		}
	}
}

// oneSubnet reports two interfaces of a host in one network.
func oneSubnet(r *reading, links []link) {
	for i, k := range links[:min(len(links), maxCompared)] {
		for _, other := range links[:i] {
			if !k.up || !other.up || k.port || other.port || isLocal(k.name) || isLocal(other.name) {
				continue
			}
			for _, p := range k.addresses {
				for _, q := range other.addresses {
					if p.Addr().Is4() && !p.Addr().IsLinkLocalUnicast() && p.Bits() < 31 && p.Addr() != q.Addr() && p.Overlaps(q) {
						r.say(k.line, env.Warning, "Two NICs in one subnet", fmt.Sprintf("%s has %s, and %s has %s.", other.name, q, k.name, p), "The kernel sends traffic to that network through one of them, whichever address a program is bound to, and answers for both: NCCL_SOCKET_IFNAME seems to have no effect, and RDMA over the other fails or waits.",
							"Give each NIC a network of its own (another subnet or a longer prefix), or a rule for each source address, as a policy_route does.")
						return
					}
				}
			}
		}
	}
}

// withoutAddress reports an Ethernet interface of an RDMA device that has a link and no address but a link-local one.
func (t *tables) withoutAddress(r *reading) {
	rdma := map[string]bool{}
	for _, d := range t.devices {
		rdma[d.netdev] = !strings.HasPrefix(d.netdev, "ib")
	}
	for _, p := range t.ports {
		rdma[p.netdev] = rdma[p.netdev] || p.layer == "ethernet" && p.netdev != ""
	}
	for _, k := range t.links {
		if rdma[k.name] && k.up && !k.port && len(k.addresses) > 0 && !k.reachable() {
			r.say(k.line, env.Warning, "NIC without an address", k.name+" has an RDMA device, and only a link-local IPv6 address.", "RoCE v2 between hosts uses the GID of an IPv4 address, which this NIC does not have: connections fail, or get a link-local GID.", "Give "+k.name+" an IPv4 address, in a subnet of its own (fabricform's fabric does it), if jobs are to use it.")
			return
		}
	}
}

// onLoopback reports a host whose address is on lo, as with BGP on the host.
func onLoopback(r *reading, links []link) {
	on := slices.IndexFunc(links, func(k link) bool { return k.name == "lo" })
	if on < 0 || !links[on].reachable() {
		return
	}
	for _, k := range links {
		if k.name != "lo" && k.up && !isLocal(k.name) && (k.hidden || slices.ContainsFunc(k.addresses, func(p netip.Prefix) bool { return p.Addr().Is4() && !p.Addr().IsLinkLocalUnicast() })) {
			return
		}
	}
	r.say(links[on].line, env.Warning, "The host's address is on lo", "lo has the address by which other hosts know this one, and no other interface has one.", "NCCL leaves lo out, and with NCCL_SOCKET_IFNAME=lo takes its first address, which is 127.0.0.1: ranks of other hosts do not connect.",
		"Put the address on a dummy interface (ip link add dummy0 type dummy) as well or instead, and name that in NCCL_SOCKET_IFNAME.")
}
