package netns

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/lab/site"
)

// middleMTU is larger than any MTU of the hosts, so that only the hosts' own MTU matters.
const middleMTU = 65000

// managementAddress returns an address of a host's /31, from 100.64.0.0/10 (RFC 6598), which fabrics do not use.
func managementAddress(i int, hostSide bool) netip.Addr {
	n := 2 * (i + 1)
	if hostSide {
		n++
	}
	return netip.AddrFrom4([4]byte{100, 64, byte(n >> 8), byte(n)})
}

// in returns a netlink handle inside a process's network namespace.
func in(pid int) (*netlink.Handle, error) {
	ns, err := netns.GetFromPid(pid)
	if err != nil {
		return nil, fmt.Errorf("open network namespace of lab process %d: %w", pid, err)
	}
	defer func() { _ = ns.Close() }() // the handle has its own descriptor
	return netlink.NewHandleAt(ns)
}

// cable builds the management network, links and networks. It creates every device inside the lab's namespaces.
func (l *Lab) cable(f *fabric.Fabric) error {
	middle, err := in(l.state.Net.PID)
	if err != nil {
		return err
	}
	defer middle.Close()
	for i, h := range f.Hosts {
		if err := l.cableManagement(middle, i, h.Name); err != nil {
			return fmt.Errorf("management network of lab host %s: %w", h.Name, err)
		}
	}
	if err := canMake(middle, f); err != nil {
		return err
	}
	cables, err := f.Cables()
	if err != nil {
		return err
	}
	linked := map[fabric.NICRef]bool{}
	for j, c := range cables {
		for _, p := range c.Ports {
			linked[p] = true
		}
		if c.Link == nil {
			continue
		}
		if err := l.wire(middle, f, j, c); err != nil {
			return fmt.Errorf("lab link %s: %w", c.Name, err)
		}
	}
	bridges := map[string]string{}
	for k, network := range f.Networks {
		if err := l.buildSegment(middle, f, k, network, cables, bridges); err != nil {
			return fmt.Errorf("lab network %s: %w", network.Name, err)
		}
	}
	n := 0
	for _, h := range f.Hosts {
		for _, nic := range h.NICs {
			if linked[nic.Ref()] || nic.Netdev == managementNetdev || nic.Kind() != "nic" {
				continue
			}
			// A NIC without a cable: its far end stays down, so it has no carrier.
			if err := l.plug(middle, "u"+strconv.Itoa(n), h.Name, nic); err != nil {
				return fmt.Errorf("lab NIC %s.%s: %w", h.Name, nic.Name, err)
			}
			n++
		}
	}
	return nil
}

// canMake returns an error if the kernel cannot make the declared bonds and VLANs, or if the lab's bridges do not carry what they need. It tries
// both in the namespace of the cables.
func canMake(middle *netlink.Handle, f *fabric.Fabric) error {
	tried := map[string]error{"nic": nil}
	for _, h := range f.Hosts {
		for _, n := range h.NICs {
			if n.Bond != nil && n.Bond.Mode == "802.3ad" { // the lab's bridges do not forward LACP
				return fmt.Errorf("bond %s of %s has mode 802.3ad, but the cables of a lab of namespaces do not carry LACP: use `fabricform lab up -backend vm`",
					n.Name, h.Name)
			}
			if _, done := tried[n.Kind()]; !done {
				tried[n.Kind()] = try(middle, n.Kind())
			}
			if err := tried[n.Kind()]; err != nil {
				return fmt.Errorf("%s %s of %s: the kernel of this machine, which the hosts of a lab of namespaces share, makes no such device (%w): "+
					"use `fabricform lab up -backend vm`, whose hosts have their own kernels", n.Kind(), n.Name, h.Name, err)
			}
		}
	}
	return nil
}

// try makes a device of the kind and removes it.
func try(middle *netlink.Handle, kind string) error {
	name := func(s string) netlink.LinkAttrs {
		a := netlink.NewLinkAttrs()
		a.Name = s
		return a
	}
	if kind == "bond" {
		return errors.Join(middle.LinkAdd(netlink.NewLinkBond(name("try"))), remove(middle, "try"))
	}
	if err := middle.LinkAdd(&netlink.Veth{LinkAttrs: name("below"), PeerName: "peer"}); err != nil {
		return err
	}
	below, err := middle.LinkByName("below")
	if err == nil {
		on := name("try")
		on.ParentIndex = below.Attrs().Index
		err = middle.LinkAdd(&netlink.Vlan{LinkAttrs: on, VlanId: 1})
	}
	return errors.Join(err, remove(middle, "below")) // with the VLAN on it
}

// remove removes a device, if it exists.
func remove(h *netlink.Handle, name string) error {
	link, err := h.LinkByName(name)
	if err != nil {
		return nil
	}
	return h.LinkDel(link)
}

// managementNetdev is the management NIC's name in every lab host.
const managementNetdev = "mgmt0"

// shaped returns the rate of a lab's port in Gb/s: the declared speed up to the cap, or the expected share of it if,
// for example, two links are halves of one port.
func shaped(speed, expect float64) float64 {
	gbps := float64(capGbps)
	if speed > 0 && speed < capGbps {
		gbps = speed
	}
	if expect > 0 && expect < speed {
		gbps *= expect / speed
	}
	return gbps
}

func (l *Lab) cableManagement(middle *netlink.Handle, i int, host string) error {
	near := "m" + strconv.Itoa(i)
	if err := veth(middle, near, managementNetdev, l.state.Hosts[host].Process.PID); err != nil {
		return err
	}
	if err := address(middle, near, managementAddress(i, false)); err != nil {
		return err
	}
	far, err := in(l.state.Hosts[host].Process.PID)
	if err != nil {
		return err
	}
	defer far.Close()
	return errors.Join(address(far, managementNetdev, managementAddress(i, true)), up(far, "lo"))
}

func veth(h *netlink.Handle, near, far string, farPID int) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = near
	if err := h.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: far, PeerNamespace: netlink.NsPid(farPID)}); err != nil {
		return fmt.Errorf("create cable %s: %w", far, err)
	}
	return nil
}

func address(h *netlink.Handle, name string, a netip.Addr) error {
	link, err := h.LinkByName(name)
	if err != nil {
		return err
	}
	ipNet := &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(31, 32)}
	if err := h.AddrAdd(link, &netlink.Addr{IPNet: ipNet}); err != nil {
		return fmt.Errorf("address %s: %w", a, err)
	}
	return h.LinkSetUp(link)
}

func up(h *netlink.Handle, name string) error {
	link, err := h.LinkByName(name)
	if err != nil {
		return err
	}
	return h.LinkSetUp(link)
}

// plug creates one NIC of a host. The NIC is down and has no addresses and MTU 1500, as on a new machine.
func (l *Lab) plug(middle *netlink.Handle, near, host string, nic *fabric.NIC) error {
	if nic.Match.PCI != "" || nic.Match.RDMA != "" {
		return fmt.Errorf(
			"match.pci and match.rdma: a lab of namespaces has neither PCI addresses nor RDMA devices; match by netdev or mac")
	}
	name := nic.Netdev
	if name == "" {
		name = nic.Name
	}
	pid := l.state.Hosts[host].Process.PID
	if err := veth(middle, near, name, pid); err != nil {
		return err
	}
	if nic.Match.MAC == "" {
		return nil
	}
	far, err := in(pid)
	if err != nil {
		return err
	}
	defer far.Close()
	mac, err := net.ParseMAC(nic.Match.MAC)
	if err != nil {
		return err
	}
	link, err := far.LinkByName(name)
	if err != nil {
		return err
	}
	return far.LinkSetHardwareAddr(link, mac)
}

// wire builds a cable: NIC, end, bridge, end, NIC. The cables of a bond share its speed.
func (l *Lab) wire(middle *netlink.Handle, f *fabric.Fabric, j int, cable fabric.Cable) error {
	bridge := "w" + strconv.Itoa(j)
	c := Cable{Cable: site.Cable{Name: cable.Name, A: cable.Ports[0].String(), B: cable.Ports[1].String(),
		Gbps: shaped(cable.Link.SpeedGbps, cable.Link.ExpectGbps)}}
	// A cable also carries what bridges stop by default: the frames to 01:80:c2:00:00:0e, of LLDP among others.
	if err := addBridge(middle, bridge, 1<<0x0e); err != nil {
		return err
	}
	for side, ref := range cable.Ports {
		c.Ends = append(c.Ends, End{Device: bridge + string("ab"[side]), Bridge: bridge})
		if err := l.connect(middle, c.Ends[side], ref.Host, f.NIC(ref), c.Gbps); err != nil {
			return err
		}
	}
	l.state.Links = append(l.state.Links, c)
	return nil
}

// addBridge adds a bridge. It forwards frames to 01:80:c2:00:00:0X if the bit X of carries is set, as the kernel's group_fwd_mask says.
func addBridge(middle *netlink.Handle, name string, carries uint16) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	attrs.MTU = middleMTU
	if err := middle.LinkAdd(&netlink.Bridge{LinkAttrs: attrs, GroupFwdMask: &carries}); err != nil {
		return fmt.Errorf("create bridge: %w", err)
	}
	return up(middle, name)
}

// connect creates a NIC and plugs its cable into a bridge.
func (l *Lab) connect(middle *netlink.Handle, e End, host string, nic *fabric.NIC, gbps float64) error {
	if err := l.plug(middle, e.Device, host, nic); err != nil {
		return err
	}
	if err := join(middle, e.Device, e.Bridge); err != nil {
		return err
	}
	return limit(middle, e.Device, gbps)
}

// join attaches a cable's end to a bridge and brings the end up.
func join(h *netlink.Handle, port, bridge string) error {
	p, err := h.LinkByName(port)
	if err != nil {
		return err
	}
	b, err := h.LinkByName(bridge)
	if err != nil {
		return err
	}
	if err := h.LinkSetMTU(p, middleMTU); err != nil {
		return fmt.Errorf("mtu of %s: %w", port, err)
	}
	if err := h.LinkSetMaster(p, b); err != nil {
		return fmt.Errorf("join %s: %w", port, err)
	}
	return h.LinkSetUp(p)
}

// limit shapes the traffic that leaves the cable at this end. The burst has room for four 64 KiB packets of
// segmentation offload: a token bucket drops packets that are larger than itself.
func limit(h *netlink.Handle, port string, gbps float64) error {
	link, err := h.LinkByName(port)
	if err != nil {
		return err
	}
	const burst = 256 << 10
	rate := uint64(gbps * 1e9 / 8)
	q := &netlink.Tbf{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: link.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT},
		Rate:       rate, Buffer: netlink.Xmittime(rate, burst), Limit: uint32(rate/50) + burst, // 20 ms of queue
	}
	if err := h.QdiscReplace(q); err != nil {
		return fmt.Errorf("shape %s to %g Gb/s: %w", port, gbps, err)
	}
	return nil
}
