package netif

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// reached lists the objects of a host that changes of atoms can affect.
type reached struct {
	links   []host.Link       // lower devices first
	sysctls []string          // paths that the atoms name, and keys that change with them
	devices map[string]string // kinds of bonds and VLANs that the atoms name, by name; they may not exist
}

// reach reads the atoms, and adds their routes, tables, priorities and addresses to k.
func (k *backup) reach(links []host.Link, atoms []resource.Atom) (reached, error) {
	snap := &facts.Snapshot{Links: links}
	out := reached{devices: map[string]string{}}
	for _, a := range atoms {
		if a.Kind() == KindBond || a.Kind() == KindVLAN {
			out.devices[a.Thing()] = a.Kind()
		}
	}
	named := map[int]bool{}
	for _, a := range atoms {
		fields := strings.Fields(string(a))
		switch {
		case (bond{}).Names(a) && a.Kind() == KindBond, (vlan{}).Names(a) && a.Kind() == KindVLAN:
			for _, name := range []string{a.Thing(), strings.TrimPrefix(a.Value(), attrMember+" ")} {
				if l := snap.Link(name); l != nil {
					named[l.Index] = true
				}
			}
		case a.Kind() == KindNIC && len(fields) >= 3:
			l := snap.Link(a.Thing())
			switch {
			case l != nil:
				named[l.Index] = true
			case out.devices[a.Thing()] == "":
				return out, fmt.Errorf("%s: device %s does not exist", a, a.Thing())
			}
			if s, key := settingOf(a); s != nil && s.attribute == "address" {
				p, err := netip.ParsePrefix(key)
				if err != nil {
					return out, fmt.Errorf("%s: %w", a, err)
				}
				k.Addresses = append(k.Addresses, p.Addr())
			}
		case a.Kind() == KindSysctl && len(fields) == 2:
			out.reachSysctl(a.Thing(), links, named)
		case a.Kind() == KindPolicyRoute && len(fields) == 6 && fields[1] == "rule":
			if err := k.reachRule(fields[2], fields[3]); err != nil {
				return out, fmt.Errorf("%s: %w", a, err)
			}
		case (a.Kind() == KindRoute || a.Kind() == KindPolicyRoute) && len(fields) == 4:
			if err := k.reachRoute(fields[1], fields[2], fields[3]); err != nil {
				return out, fmt.Errorf("%s: %w", a, err)
			}
		default:
			return out, fmt.Errorf("%q: this build cannot change such a value", a)
		}
	}
	out.links = family(links, named)
	return out, nil
}

func (k *backup) reachRule(priority, table string) error {
	p, err := strconv.Atoi(priority)
	if err != nil {
		return err
	}
	k.Priorities = append(k.Priorities, p)
	return k.reachTable(table)
}

// reachTable adds the rules that lead to a table of ours. Rules that lead to the kernel's own tables (253
// default, 254 main, 255 local) are not ours.
func (k *backup) reachTable(table string) error {
	n, err := strconv.Atoi(table)
	if err == nil && (n < 253 || n > 255) && !slices.Contains(k.Tables, n) {
		k.Tables = append(k.Tables, n)
	}
	return err
}

func (k *backup) reachRoute(table, dst, metric string) error {
	p, err := netip.ParsePrefix(dst)
	if err != nil {
		return err
	}
	t, err := strconv.Atoi(table)
	if err != nil {
		return err
	}
	m, err := strconv.Atoi(metric)
	if err != nil {
		return err
	}
	af := inet
	if p.Addr().Is6() {
		af = inet6
	}
	k.Places = append(k.Places, routePlace(af, t, p, m))
	return k.reachTable(table)
}

// reachSysctl adds the values that the kernel changes together with a key. It copies "all" and ip_forward to
// every link (net/ipv4/devinet.c inet_forward_change, net/ipv6/addrconf.c addrconf_fixup_forwarding,
// addrconf_disable_change); with keys of IPv6 it also removes addresses and learned routes.
func (r *reached) reachSysctl(path string, links []host.Link, named map[int]bool) {
	r.sysctls = append(r.sysctls, path)
	if path == "net/ipv4/ip_forward" {
		r.sysctls = append(r.sysctls, "net/ipv4/conf/all/forwarding")
		path = "net/ipv4/conf/all/forwarding"
	}
	parts := strings.Split(path, "/")
	if len(parts) != 5 || parts[0] != "net" || parts[2] != "conf" && parts[2] != "neigh" {
		return
	}
	if parts[3] == "all" {
		copies := parts[4] == "forwarding" || parts[4] == "disable_ipv6"
		if copies {
			r.sysctls = append(r.sysctls, strings.Join([]string{"net", parts[1], parts[2], "default", parts[4]}, "/"))
		}
		for _, l := range links {
			if copies && parts[1] == "ipv6" {
				named[l.Index] = true
			} else if copies {
				r.sysctls = append(r.sysctls, strings.Join([]string{"net", parts[1], parts[2], l.Name, parts[4]}, "/"))
			}
		}
		return
	}
	for _, l := range links {
		if l.Name == parts[3] {
			named[l.Index] = true
		}
	}
}

// family adds the links that change with the named ones: members of a bond or bridge, VLANs and similar devices
// on top, which follow the state and MTU of their parent, and the masters above. Lower devices come first.
func family(links []host.Link, named map[int]bool) []host.Link {
	in := map[int]bool{}
	for i := range named {
		in[i] = true
	}

	// Devices on top of these, and members of the named bonds and bridges.
	for grown := true; grown; {
		grown = false
		for _, l := range links {
			if !in[l.Index] && (in[l.Parent] || l.Master != 0 && named[l.Master]) {
				in[l.Index], grown = true, true
			}
		}
	}

	// The bonds and bridges above.
	for grown := true; grown; {
		grown = false
		for _, l := range links {
			if in[l.Index] && l.Master != 0 && !in[l.Master] {
				in[l.Master], grown = true, true
			}
		}
	}

	// Place each device after all devices below it.
	var out []host.Link
	for len(out) < len(links) {
		before := len(out)
		for _, l := range links {
			placed := slices.ContainsFunc(out, func(o host.Link) bool { return o.Index == l.Index })
			waits := slices.ContainsFunc(links, func(o host.Link) bool {
				below := o.Index == l.Parent || o.Master == l.Index
				return in[o.Index] && below && !slices.ContainsFunc(out, func(p host.Link) bool { return p.Index == o.Index })
			})
			if in[l.Index] && !placed && !waits {
				out = append(out, l)
			}
		}
		if len(out) == before { // done, or a cycle, which the kernel does not allow
			break
		}
	}
	return out
}
