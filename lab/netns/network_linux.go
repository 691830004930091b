package netns

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/lab/site"
)

// buildSegment builds a network: one bridge, or for a routed network one bridge for each subnet. bridges has those of earlier networks, which
// VLANs may share. The router gets the gateway addresses of the members' routes on every bridge.
func (l *Lab) buildSegment(middle *netlink.Handle, f *fabric.Fabric, k int, n *fabric.Network, cables []fabric.Cable, bridges map[string]string) error {
	own := map[string]string{}
	for i, cable := range cables {
		if cable.Network != n {
			continue
		}
		leaf := ""
		if n.Routed {
			leaf = subnetsOf(f.NIC(cable.Member))
		}
		at := fmt.Sprintf("%d %s", cable.Segment, leaf)
		bridge, there := bridges[at]
		if !there {
			bridge = fmt.Sprintf("n%ds%d", k, len(own))
			bridges[at] = bridge
			if err := addBridge(middle, bridge, 0); err != nil {
				return err
			}
		}
		own[leaf] = bridge
		c := Cable{Cable: site.Cable{Name: cable.Name, A: cable.Ports[0].String(), B: n.Name, Gbps: shaped(n.SpeedGbps, n.ExpectGbps)},
			Ends: []End{{Device: fmt.Sprintf("n%dp%d", k, i), Bridge: bridge}}}
		if err := l.connect(middle, c.Ends[0], cable.Ports[0].Host, f.NIC(cable.Ports[0]), c.Gbps); err != nil {
			return err
		}
		l.state.Links = append(l.state.Links, c)
	}
	for _, leaf := range slices.Sorted(maps.Keys(own)) {
		addrs := gatewaysOf(f, n, leaf)
		if len(addrs) > 0 && slices.ContainsFunc(n.Members, func(r fabric.NICRef) bool { return f.NIC(r).VLAN != nil }) {
			return errors.New("its members are VLANs and have gateways, but the lab's router has no VLANs")
		}
		if err := l.gateways(middle, own[leaf], addrs); err != nil {
			return fmt.Errorf("gateways: %w", err)
		}
	}
	return nil
}

func subnetsOf(n *fabric.NIC) string {
	var out []string
	for _, p := range n.Addresses {
		out = append(out, p.Masked().String())
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// gatewaysOf returns the gateways in the routes of a leaf's members that are not addresses of hosts, with the prefix
// length of their subnet.
func gatewaysOf(f *fabric.Fabric, n *fabric.Network, leaf string) []netip.Prefix {
	taken := map[netip.Addr]bool{}
	for _, h := range f.Hosts {
		for _, nic := range h.NICs {
			for _, p := range nic.Addresses {
				taken[p.Addr()] = true
			}
		}
	}
	var out []netip.Prefix
	for _, ref := range n.Members {
		nic := f.NIC(ref)
		if n.Routed && subnetsOf(nic) != leaf {
			continue
		}
		for _, via := range vias(f.Host(ref.Host), ref) {
			for _, p := range nic.Addresses {
				if p.Masked().Contains(via) && !taken[via] {
					taken[via] = true
					out = append(out, netip.PrefixFrom(via, p.Bits()))
				}
			}
		}
	}
	return out
}

func vias(h *fabric.Host, ref fabric.NICRef) []netip.Addr {
	var out []netip.Addr
	for _, r := range h.Routes {
		if r.NIC == ref && r.Via.IsValid() {
			out = append(out, r.Via)
		}
	}
	for _, p := range h.Policy {
		for _, r := range p.Routes {
			if p.NIC == ref && r.Via.IsValid() {
				out = append(out, r.Via)
			}
		}
	}
	return out
}

// gateways plugs the router into a bridge and gives it addresses.
func (l *Lab) gateways(middle *netlink.Handle, bridge string, addrs []netip.Prefix) error {
	if len(addrs) == 0 {
		return nil
	}
	near := "r" + bridge
	if err := veth(middle, near, bridge, l.state.Router.PID); err != nil {
		return err
	}
	if err := join(middle, near, bridge); err != nil {
		return err
	}
	router, err := in(l.state.Router.PID)
	if err != nil {
		return err
	}
	defer router.Close()
	link, err := router.LinkByName(bridge)
	if err != nil {
		return err
	}
	if err := router.LinkSetMTU(link, middleMTU); err != nil {
		return err
	}
	for _, p := range addrs {
		a := &netlink.Addr{IPNet: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}}
		if p.Addr().Is6() {
			a.Flags = unix.IFA_F_NODAD // no duplicate is possible, and hosts use the address immediately
		}
		if err := router.AddrAdd(link, a); err != nil {
			return fmt.Errorf("address %s: %w", p, err)
		}
	}
	return router.LinkSetUp(link)
}

// forward turns on forwarding. It runs inside the router's namespace.
func forward() error {
	errs := []error{
		os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0),
		os.WriteFile("/proc/sys/net/ipv6/conf/all/forwarding", []byte("1"), 0),
	}
	filters, err := filepath.Glob("/proc/sys/net/ipv4/conf/*/rp_filter")
	errs = append(errs, err)
	for _, f := range filters {
		errs = append(errs, os.WriteFile(f, []byte("0"), 0))
	}
	return errors.Join(errs...)
}
