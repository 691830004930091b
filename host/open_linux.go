package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/fabricform/fabricform/host/file"
)

// kernel is the machine that this program runs on. Both sockets belong to the namespace in which they were opened,
// whichever thread uses them later.
type kernel struct {
	h   *netlink.Handle
	raw map[int]*nl.SocketHandle // for Dump, Send, DCB and Pause, which the library has no methods for
}

// Open returns the machine that this program runs on. The netlink socket belongs to the network
// namespace of the calling thread.
func Open() (Host, error) {
	// Without extended acks, the kernel reports "invalid argument" without naming the attribute.
	nl.EnableErrorMessageReporting = true
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	raw, err := rawSockets()
	if err != nil {
		h.Close()
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	return kernel{h, raw}, nil
}

// Records returns the ownership records of this machine.
func (kernel) Records(_ context.Context) (map[string][]byte, error) { return records(recordDir) }

// SaveRecord writes an ownership record of this machine.
func (kernel) SaveRecord(name string, text []byte) error { return saveRecord(recordDir, name, text) }

// retryDump repeats a dump that was interrupted because the table changed meanwhile. Such an answer may lack entries
// (NLM_F_DUMP_INTR).
func retryDump[T any](what string, dump func() ([]T, error)) ([]T, error) {
	var err error
	for range 5 {
		var out []T
		out, err = dump()
		if err == nil {
			return out, nil
		}
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return nil, fmt.Errorf("list %s: %w", what, err)
}

func (k kernel) Links(_ context.Context) ([]Link, error) {
	found, err := retryDump("links", k.h.LinkList)
	if err != nil {
		return nil, err
	}
	out := make([]Link, 0, len(found))
	for _, l := range found {
		out = append(out, link(l))
	}
	return out, nil
}

// lacp reads what the netlink library does not decode. Systems are shown to root alone (bond_sysfs.c).
func lacp(bond string) *LACP {
	read := func(name string) string {
		raw, err := os.ReadFile(filepath.Join("/sys/class/net", bond, "bonding", name))
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(raw))
	}
	aggregator, err := strconv.Atoi(read("ad_aggregator"))
	if err != nil {
		return nil
	}
	system := func(name string) string {
		return strings.TrimPrefix(read(name), "00:00:00:00:00:00") // none: null_mac_addr in bond_3ad.c
	}
	return &LACP{Aggregator: aggregator, Partner: system("ad_partner_mac"), System: system("ad_actor_system")}
}

func link(l netlink.Link) Link {
	a := l.Attrs()
	out := Link{
		Index: a.Index, Name: a.Name, MTU: a.MTU, Up: a.Flags&net.FlagUp != 0, Carrier: a.RawFlags&unix.IFF_LOWER_UP != 0,
		OperState: a.OperState.String(), Master: a.MasterIndex, AltNames: a.AltNames, Loopback: a.Flags&net.FlagLoopback != 0,
		MAC: a.HardwareAddr.String(), PermMAC: a.PermHWAddr.String(),
	}
	if t := l.Type(); t != "device" {
		out.Kind = t
	}
	switch l := l.(type) {
	case *netlink.Bond:
		out.Bond = &Bond{Mode: l.Mode.String(), LACPRate: l.LacpRate.String(), XmitHash: l.XmitHashPolicy.String(), MIIMon: l.Miimon, MinLinks: l.MinLinks}
	case *netlink.Vlan:
		out.VLAN = &VLAN{ID: l.VlanId, Protocol: strings.ToLower(l.VlanProtocol.String()), Egress: map[int]int{}}
		for from, to := range l.EgressQosMap {
			out.VLAN.Egress[int(from)] = int(to)
		}
	}
	if out.Bond != nil && out.Bond.Mode == netlink.BOND_MODE_802_3AD.String() {
		out.LACP = lacp(a.Name)
	}
	if s, is := a.Slave.(*netlink.BondSlave); is {
		out.Member = &Member{Works: s.MiiStatus == netlink.BondLinkUp, Active: s.State == netlink.BondStateActive, Aggregator: int(s.AggregatorId)}
	}
	// The parent of a veth is its peer, which is not a device below it and may be in another namespace.
	if out.Kind != "veth" && a.ParentIndex != a.Index {
		out.Parent = a.ParentIndex
	}
	if a.ParentDevBus == "pci" {
		out.PCI = a.ParentDev
	}
	dir := filepath.Join("/sys/class/net", a.Name)
	if bus, err := os.Readlink(filepath.Join(dir, "device/subsystem")); err == nil && out.PCI == "" && filepath.Base(bus) == "pci" {
		// Kernels before 5.14 do not report the parent device by netlink.
		if dev, err := os.Readlink(filepath.Join(dir, "device")); err == nil {
			out.PCI = filepath.Base(dev)
		}
	}
	if driver, err := os.Readlink(filepath.Join(dir, "device/driver")); err == nil {
		out.Driver = filepath.Base(driver)
	}
	// Reading speed fails with EINVAL while there is no carrier; -1 means that the driver does not know.
	if raw, err := os.ReadFile(filepath.Join(dir, "speed")); err == nil {
		if n, err := strconv.Atoi(strings.TrimSpace(string(raw))); err == nil && n > 0 {
			out.SpeedMbps = n
		}
	}
	return out
}

func (k kernel) Addrs(_ context.Context) ([]Addr, error) {
	found, err := retryDump("addresses", func() ([]netlink.Addr, error) { return k.h.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, err
	}
	out := make([]Addr, 0, len(found))
	for _, a := range found {
		p, ok := prefix(a.IPNet)
		if !ok {
			continue
		}
		peer := netip.Prefix{}
		if a.Peer != nil {
			peer, _ = prefix(a.Peer)
		}
		out = append(out, Addr{
			Peer: peer, NoBroadcast: p.Addr().Is4() && p.Bits() < 31 && len(a.Broadcast) == 0,
			Index: a.LinkIndex, Prefix: p, Scope: a.Scope,
			Tentative: a.Flags&unix.IFA_F_TENTATIVE != 0, DADFailed: a.Flags&unix.IFA_F_DADFAILED != 0,
			Dynamic: a.Flags&unix.IFA_F_PERMANENT == 0,
			// IFA_F_SECONDARY and IFA_F_TEMPORARY are the same bit, and the family tells which one is meant.
			Secondary: a.Flags&unix.IFA_F_SECONDARY != 0 && p.Addr().Is4(),
			Temporary: a.Flags&unix.IFA_F_TEMPORARY != 0 && p.Addr().Is6(),
		})
	}
	return out, nil
}

// RouteGet asks which route a packet takes. The answer has no table, and its Dst is a host prefix.
func (k kernel) RouteGet(_ context.Context, dst, src netip.Addr) (Route, error) {
	o := &netlink.RouteGetOptions{}
	if src.IsValid() {
		o.SrcAddr = src.AsSlice()
	}
	found, err := k.h.RouteGetWithOptions(dst.AsSlice(), o)
	if err != nil {
		return Route{}, fmt.Errorf("look up route to %s: %w", dst, err)
	}
	if len(found) == 0 {
		return Route{}, fmt.Errorf("look up route to %s: no answer", dst)
	}
	return route(found[0]), nil
}

func (kernel) ReadFile(ctx context.Context, path string) ([]byte, error) {
	if ofKernel(path) {
		return readKernelFile(path)
	}
	return within(ctx, path, file.Read)
}

// ofKernel is whether the kernel itself makes a file's text.
func ofKernel(path string) bool {
	return strings.HasPrefix(path, "/proc/") || strings.HasPrefix(path, "/sys/")
}

// readKernelFile reads a file below /proc or /sys with as few system calls as possible: a snapshot reads thousands of
// them, for example one for each slot of a GID table. os.ReadFile would also ask for its size and register it with epoll.
func readKernelFile(path string) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer func() { _ = unix.Close(fd) }() // it was only read
	var text []byte
	for buf := [4096]byte{}; ; {
		n, err := unix.Read(fd, buf[:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, &fs.PathError{Op: "read", Path: path, Err: err}
		}
		text = append(text, buf[:n]...)
		// One read gives a whole page of sysfs (Documentation/filesystems/sysfs.rst); others end with an empty read.
		if n == 0 || n < len(buf) && strings.HasPrefix(path, "/sys/") {
			return text, nil
		}
	}
}

func (kernel) ReadDir(ctx context.Context, path string) ([]string, error) {
	entries, err := within(ctx, path, os.ReadDir)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, nil
}

func (kernel) Readlink(ctx context.Context, path string) (string, error) {
	return within(ctx, path, os.Readlink)
}

func (k kernel) SetMTU(index, mtu int) error {
	return k.onLink("set mtu", index, func(l netlink.Link) error { return k.h.LinkSetMTU(l, mtu) })
}

func (k kernel) SetUp(index int, up bool) error {
	if up {
		return k.onLink("bring up", index, k.h.LinkSetUp)
	}
	return k.onLink("bring down", index, k.h.LinkSetDown)
}

// onLink changes a link by its index: the name may change meanwhile, but the index does not.
func (k kernel) onLink(what string, index int, do func(netlink.Link) error) error {
	if err := do(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: index}}); err != nil {
		return fmt.Errorf("%s of link %d: %w", what, index, err)
	}
	return nil
}

func (k kernel) AddAddr(a Addr) error {
	return k.onLink("add address "+a.String(), a.Index, func(l netlink.Link) error {
		return k.h.AddrAdd(l, &netlink.Addr{IPNet: ipNet(a.Prefix), Peer: ipNet(a.Peer)})
	})
}

func (k kernel) DelAddr(a Addr) error {
	return k.onLink("remove address "+a.String(), a.Index, func(l netlink.Link) error {
		return k.h.AddrDel(l, &netlink.Addr{IPNet: ipNet(a.Prefix), Peer: ipNet(a.Peer)})
	})
}

func ipNet(p netip.Prefix) *net.IPNet {
	if !p.IsValid() {
		return nil
	}
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// prefix is the inverse of ipNet; false for nil and for masks with holes.
func prefix(n *net.IPNet) (netip.Prefix, bool) {
	if n == nil {
		return netip.Prefix{}, false
	}
	a, ok := netip.AddrFromSlice(n.IP)
	ones, bits := n.Mask.Size()
	if !ok || bits == 0 {
		return netip.Prefix{}, false
	}
	if a = a.Unmap(); a.BitLen() != bits {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(a, ones), true
}

func address(ip net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(ip) // nil gives the invalid address, which means absent
	return a.Unmap()
}

// grace is how long a read may take after its context has ended. A late rollback still needs to read.
const grace = time.Second

// within runs a read that may hang, for example on a dead file server, and abandons it soon after ctx ends: nothing can
// interrupt a thread that waits in the kernel. Files below /proc and /sys are read by the calling thread, because
// they depend on its namespaces.
func within[T any](ctx context.Context, path string, read func(string) (T, error)) (T, error) {
	if ofKernel(path) {
		return read(path)
	}
	type answer struct {
		is  T
		err error
	}
	answers := make(chan answer, 1)
	go func() {
		is, err := read(path)
		answers <- answer{is, err}
	}()
	var late <-chan time.Time
	for ended := ctx.Done(); ; {
		select {
		case a := <-answers:
			return a.is, a.err
		case <-ended:
			ended, late = nil, time.After(grace)
		case <-late:
			var none T
			return none, fmt.Errorf("read %s: %w", path, ctx.Err())
		}
	}
}
