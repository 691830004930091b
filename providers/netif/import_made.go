package netif

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// draftMade drafts the bonds and VLANs whose parts were drafted before. made holds the links by their kind. The files make the others not, and
// a remark says why.
func draftMade(ctx context.Context, r host.Reader, d *resource.Draft, made map[string][]host.Link) error {
	for _, kind := range []string{KindBond, KindVLAN} { // a VLAN may be on a bond
		for _, l := range made[kind] {
			n := &fabric.NIC{Name: madeName(d, l), Netdev: l.Name, Up: l.Up, Persist: true, IPv6LinkLocal: "keep", GID: fabric.GID{Version: 2, Family: "ipv4"}}
			why := ""
			switch {
			case !madeShape().MatchString(l.Name):
				why = "files cannot declare its name"
			case kind == KindBond:
				why = draftBond(d, n, l)
			default:
				why = draftVLAN(d, n, l)
			}
			if why != "" {
				d.Leave("", fmt.Sprintf("%s is a %s that is not imported: %s", l.Name, kind, why))
				continue
			}
			mtu := n.MTU
			if _, err := drafted(ctx, r, d, n, l); err != nil {
				return err
			}
			if mtu != 0 {
				n.MTU = mtu
			}
			for _, m := range d.Host.Members(n) {
				m.MTU = n.MTU                             // the kernel gives it to them
				m.IPv6LinkLocal, m.AcceptRA = "keep", nil // they have no IPv6 (addrconf_notify in net/ipv6/addrconf.c)
			}
			d.Host.NICs = append(d.Host.NICs, n)
			leaveOptions(ctx, r, d, n)
		}
	}
	return nil
}

// madeShape is a name that a bond or vlan block can give to a device.
var madeShape = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,14}$`) })

// plainName is a name that a reference has after a dot.
var plainName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*$`) })

// madeName is the name of the block: that of the device if it is a plain word, and otherwise one such as vlan100.
func madeName(d *resource.Draft, l host.Link) string {
	name := l.Name
	if !plainName().MatchString(name) {
		if name = l.Kind; l.VLAN != nil {
			name = fmt.Sprintf("%s%d", l.Kind, l.VLAN.ID)
		}
	}
	out := name
	for i := 2; d.Host.NIC(out) != nil; i++ {
		out = fmt.Sprintf("%s-%d", name, i)
	}
	return out
}

// draftBond fills the bond from its link. why says what a bond block cannot declare; "": nothing.
func draftBond(d *resource.Draft, n *fabric.NIC, l host.Link) (why string) {
	b := l.Bond
	switch {
	case b == nil:
		return "the kernel did not report its options"
	case !slices.Contains(bondOptionOf(attrMode).names, b.Mode):
		return fmt.Sprintf("there is no mode %q in a bond block", b.Mode)
	case b.MIIMon < 1 || b.MIIMon > 10000:
		return fmt.Sprintf("its miimon is %d, and that of a bond block is from 1 to 10000: to import it, set it before, `ip link set %s type bond miimon 100`. "+
			"If it has an arp_interval, that ends its checks by ARP (bond_option_miimon_set in the kernel's bond_options.c)", b.MIIMon, fabric.Quote(l.Name))
	}
	out := &fabric.Bond{Mode: b.Mode, MIIMon: b.MIIMon}
	count := 0
	for _, m := range d.Snapshot.Links {
		if on := d.Snapshot.LinkByIndex(m.Parent); m.Kind == KindVLAN && on != nil && on.Master == l.Index {
			return fmt.Sprintf("its member %s carries VLAN %s", on.Name, m.Name)
		}
		if m.Master != l.Index {
			continue
		}
		count++
		switch on := d.NIC(m.Index); {
		case on == nil:
			return fmt.Sprintf("its member %s is not imported", m.Name)
		case !m.Up:
			return fmt.Sprintf("its member %s is down", m.Name)
		case on.AddressesSet:
			return fmt.Sprintf("its member %s has addresses of its own", m.Name)
		case m.MTU != l.MTU:
			return fmt.Sprintf("its MTU is %d, and that of its member %s is %d", l.MTU, m.Name, m.MTU)
		}
	}
	for _, on := range d.Host.NICs { // in the order of PCI
		if m := exactLink(d.Snapshot, on.Netdev); m.Master == l.Index {
			out.NICs = append(out.NICs, fabric.NICRef{NIC: on.Name})
		}
	}
	if count == 0 {
		return "it has no members"
	}
	lacp := b.Mode == "802.3ad"
	if lacp && b.LACPRate != newBond[attrLACPRate] {
		out.LACPRate = b.LACPRate
	}
	if out.Hashes() && b.XmitHash != newBond[attrXmitHash] {
		out.XmitHash = b.XmitHash
	}
	if least := b.MinLinks; lacp && least != 0 {
		if least > count {
			return fmt.Sprintf("its min_links is %d, but its number of members is %d", least, count)
		}
		out.MinLinks = &least
	}
	n.Bond = out
	return ""
}

// draftVLAN fills the VLAN from its link. why says what a vlan block cannot declare; "": nothing.
func draftVLAN(d *resource.Draft, n *fabric.NIC, l host.Link) (why string) {
	v := l.VLAN
	below := d.Snapshot.LinkByIndex(l.Parent)
	switch {
	case v == nil || below == nil:
		return "the kernel did not report its ID, or what carries it"
	case v.Protocol != "802.1q":
		return "its protocol is " + v.Protocol + ", and that of a vlan block is 802.1q"
	case below.Kind == KindVLAN:
		return fmt.Sprintf("%s, which carries it, is a VLAN itself", below.Name)
	case d.NIC(below.Index) == nil:
		return fmt.Sprintf("%s, which carries it, is not imported", below.Name)
	}
	n.VLAN = &fabric.VLAN{On: fabric.NICRef{NIC: d.NIC(below.Index).Name}, ID: v.ID}
	m := maps.Clone(v.Egress)
	maps.DeleteFunc(m, func(_, pcp int) bool { return pcp == 0 }) // like a priority that is not in the map
	if slices.ContainsFunc(slices.Collect(maps.Keys(m)), func(p int) bool { return p < 0 || p > 7 }) {
		d.Leave(n.Name, fmt.Sprintf("priority map %s: that of a vlan block has only the kernel's priorities from 0 to 7", priorityMap(m)))
	} else if len(m) > 0 {
		n.VLAN.PriorityMap = m
	}
	if below.MTU != l.MTU {
		n.MTU = l.MTU // a new VLAN has the MTU of the device below
	}
	return ""
}

// newBondOptions are options of bonds that no block has, as files of a new bond below /sys show them (drivers/net/bonding/bond_sysfs.c).
var newBondOptions = []struct{ file, value string }{
	{"primary", ""}, {"primary_reselect", "always 0"}, {"fail_over_mac", "none 0"}, {"ad_select", "stable 0"}, {"updelay", "0"}, {"downdelay", "0"},
	{"all_slaves_active", "0"}, {"packets_per_slave", "1"}, {"lp_interval", "1"},
}

// leaveOptions remarks on the options that the kernel has and no block can declare.
func leaveOptions(ctx context.Context, r host.Reader, d *resource.Draft, n *fabric.NIC) {
	if n.VLAN != nil {
		for line := range strings.Lines(host.Text(ctx, r, "/proc/net/vlan/"+n.Netdev)) {
			_, pairs, is := strings.Cut(line, "INGRESS priority mappings:")
			for pair := range strings.FieldsSeq(pairs) {
				if is && !strings.HasSuffix(pair, ":0") {
					d.Leave(n.Name, "ingress map "+pair+": a vlan block has only the map of sent packets")
				}
			}
		}
		return
	}
	for _, o := range newBondOptions {
		path := "/sys/class/net/" + n.Netdev + "/bonding/" + o.file
		if _, err := r.ReadFile(ctx, path); err != nil {
			continue // this kernel has no such option
		}
		if now := host.Text(ctx, r, path); now != o.value {
			d.Leave(n.Name, fmt.Sprintf("%s = %s: a bond block does not have this option", o.file, now))
		}
	}
}
