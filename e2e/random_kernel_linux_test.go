package e2e

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// This file says what a host's kernel and its /etc are, in the words that plans use for atoms, and by code of its own: it
// shares no reader with the program.

// A thing is what can change on a host: its name, its value, and what the rules of consequences need to know of it.
type thing struct {
	name, value string
	dev         string
	family      int
	prefix      netip.Prefix // of an address or a route
	kernels     bool         // a route that the kernel made for an address, or an automatic link-local address
	src         netip.Addr   // of a route: its preferred source
}

// groups are the kernel's announcements of links, addresses, routes and rules.
var groups = []uint{unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV6_RULE}

// kernel is a lab host as its own kernel has it.
type kernel struct {
	host    string
	pid     int
	handle  *netlink.Handle // by which the test is another hand
	devices map[int]string
	monitor *nl.NetlinkSocket
}

func openKernel(host string, pid int) (*kernel, error) {
	k := &kernel{host: host, pid: pid, devices: map[int]string{}}
	ns, err := netns.GetFromPid(pid)
	if err != nil {
		return nil, err
	}
	defer ns.Close()
	if k.handle, err = netlink.NewHandleAt(ns); err != nil {
		return nil, err
	}
	links, err := whole(k.handle.LinkList)
	for _, l := range links {
		k.devices[l.Attrs().Index] = l.Attrs().Name
	}
	if err != nil {
		return nil, err
	}
	if k.monitor, err = nl.SubscribeAt(ns, netns.None(), unix.NETLINK_ROUTE, groups...); err != nil {
		return nil, err
	}
	return k, k.monitor.SetReceiveBufferSize(4<<20, true)
}

// whole repeats a dump while changes interrupt it: such an answer may lack entries (NLM_F_DUMP_INTR). A kernel that goes on changing,
// as with duplicate address detection after an apply, interrupts one dump in some hundreds.
func whole[T any](dump func() ([]T, error)) (out []T, err error) {
	for range 100 {
		if out, err = dump(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return out, err
}

func (k *kernel) close() {
	k.monitor.Close()
	k.handle.Close()
}

// inside runs code on a thread in the host's network namespace, where /proc/sys/net is the host's.
func (k *kernel) inside(do func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		ns, err := netns.GetFromPid(k.pid)
		if err == nil {
			err = errors.Join(netns.Set(ns), ns.Close())
		}
		if err == nil {
			err = do()
		}
		done <- err
	}()
	return <-done
}

// state is all that a host's kernel and /etc hold, by name.
type state map[string]thing

// look reads the host.
func (k *kernel) look() (state, error) {
	s := state{}
	err := k.inside(func() error {
		for _, kind := range []uint16{unix.RTM_GETLINK, unix.RTM_GETADDR, unix.RTM_GETROUTE, unix.RTM_GETRULE} {
			for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
				if kind == unix.RTM_GETLINK {
					family = unix.AF_UNSPEC
				}
				request := nl.NewNetlinkRequest(int(kind), unix.NLM_F_DUMP)
				request.AddData(nl.NewIfInfomsg(int(family)))
				messages, err := whole(func() ([][]byte, error) { return request.Execute(unix.NETLINK_ROUTE, kind-2) }) // RTM_NEW… is two below RTM_GET…
				if err != nil {
					return err
				}
				for _, m := range messages {
					for _, t := range k.things(kind-2, m) {
						s.add(t)
					}
				}
			}
		}
		return s.addSysctls()
	})
	return s, errors.Join(err, s.addFiles(fmt.Sprintf("/proc/%d/root", k.pid)))
}

// add adds a thing. Two of one name, such as routes of one destination by two devices, are one thing with both values.
func (s state) add(t thing) {
	if other, there := s[t.name]; there && other.value != t.value {
		both := []string{other.value, t.value}
		slices.Sort(both)
		t.value = strings.Join(both, " and ")
	}
	s[t.name] = t
}

// things returns what a message about a link, an address, a route or a rule speaks of.
func (k *kernel) things(kind uint16, m []byte) []thing {
	switch kind {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		return k.link(m)
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		return []thing{k.address(m)}
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		return k.route(m)
	case unix.RTM_NEWRULE, unix.RTM_DELRULE:
		return []thing{rule(m)}
	}
	return []thing{{name: fmt.Sprintf("message of type %d", kind)}}
}

func attributes(m []byte) map[uint16][]byte {
	out := map[uint16][]byte{}
	list, _ := nl.ParseRouteAttr(m) // of a kernel's message
	for _, a := range list {
		out[a.Attr.Type&nl.NLA_TYPE_MASK] = a.Value
	}
	return out
}

func wordOf(raw []byte) int {
	if len(raw) < 4 {
		return 0
	}
	return int(binary.NativeEndian.Uint32(raw))
}

func prefixOf(raw []byte, bits, family int) netip.Prefix {
	addr, ok := netip.AddrFromSlice(raw)
	if !ok {
		addr = map[int]netip.Addr{unix.AF_INET: netip.IPv4Unspecified(), unix.AF_INET6: netip.IPv6Unspecified()}[family]
	}
	return netip.PrefixFrom(addr, bits)
}

func (k *kernel) link(m []byte) []thing {
	head, a := nl.DeserializeIfInfomsg(m), attributes(m[unix.SizeofIfInfomsg:])
	if head.Family != unix.AF_UNSPEC {
		return nil
	}
	dev := nl.BytesToString(a[unix.IFLA_IFNAME])
	state := "down"
	if head.Flags&unix.IFF_UP != 0 {
		state = "up"
	}
	of := func(what, value string) thing { return thing{name: "nic " + dev + " " + what, value: value, dev: dev} }
	return []thing{of("state", state), of("mtu", fmt.Sprint(wordOf(a[unix.IFLA_MTU]))), of("mac", net.HardwareAddr(a[unix.IFLA_ADDRESS]).String()),
		of("queue length", fmt.Sprint(wordOf(a[unix.IFLA_TXQLEN]))), of("master", fmt.Sprint(wordOf(a[unix.IFLA_MASTER]))), of("index", fmt.Sprint(head.Index))}
}

// address leaves the flags and lifetimes of an address out: duplicate address detection changes them by itself.
func (k *kernel) address(m []byte) thing {
	family, bits, scope, index := int(m[0]), int(m[1]), m[3], wordOf(m[4:8])
	a := attributes(m[unix.SizeofIfAddrmsg:])
	local := a[unix.IFA_LOCAL]
	if local == nil {
		local = a[unix.IFA_ADDRESS]
	}
	t := thing{dev: k.devices[index], family: family, prefix: prefixOf(local, bits, family), kernels: family == unix.AF_INET6 && scope == unix.RT_SCOPE_LINK}
	t.value = t.prefix.String()
	t.name = "nic " + t.dev + " address " + t.value
	return t
}

func (k *kernel) route(m []byte) []thing {
	family, bits, protocol, kind, flags := int(m[0]), int(m[1]), m[5], m[7], wordOf(m[8:12])
	a := attributes(m[unix.SizeofRtMsg:])
	table := wordOf(a[unix.RTA_TABLE])
	if flags&unix.RTM_F_CLONED != 0 {
		return nil // what the kernel remembers of a destination
	}
	t := thing{dev: k.devices[wordOf(a[unix.RTA_OIF])], family: family, prefix: prefixOf(a[unix.RTA_DST], bits, family), kernels: protocol == unix.RTPROT_KERNEL}
	t.src, _ = netip.AddrFromSlice(a[unix.RTA_PREFSRC])
	metric := wordOf(a[unix.RTA_PRIORITY])
	t.name = fmt.Sprintf("route %d %s %d", table, t.prefix, metric)
	if t.kernels {
		t.name = fmt.Sprintf("kernel's route %d %s %d dev %s type %d", table, t.prefix, metric, t.dev, kind)
	}
	var parts []string
	if via, ok := netip.AddrFromSlice(a[unix.RTA_GATEWAY]); ok {
		parts = append(parts, "via "+via.String())
	}
	if t.dev != "" {
		parts = append(parts, "dev "+t.dev)
	}
	if t.src.IsValid() && !t.kernels { // by the kernel's own routes, it follows the addresses
		parts = append(parts, "src "+t.src.String())
	}
	if usual := map[int]int{unix.AF_INET6: 1024}[family]; metric != usual && !t.kernels {
		parts = append(parts, fmt.Sprintf("metric %d", metric))
	}
	if flags&unix.RTNH_F_ONLINK != 0 {
		parts = append(parts, "onlink")
	}
	if kind != unix.RTN_UNICAST || protocol != 251 && !t.kernels {
		parts = append(parts, fmt.Sprintf("type %d proto %d", kind, protocol))
	}
	t.value = strings.Join(parts, " ")
	return []thing{t}
}

func rule(m []byte) thing {
	family, to, from, action := int(m[0]), int(m[1]), int(m[2]), m[7]
	a := attributes(m[unix.SizeofRtMsg:])
	selector := func(raw []byte, bits int) string {
		if raw == nil {
			return "all"
		}
		return prefixOf(raw, bits, family).String()
	}
	t := thing{family: family}
	table, priority := wordOf(a[unix.FRA_TABLE]), wordOf(a[unix.FRA_PRIORITY])
	src, dst := selector(a[unix.FRA_SRC], from), selector(a[unix.FRA_DST], to)
	t.name = fmt.Sprintf("policy_route rule %d %d %s %s", priority, table, src, dst)
	if src == "all" && dst == "all" {
		t.name += fmt.Sprintf(" family %d", family) // each family has its own
	}
	t.value = fmt.Sprintf("from %s lookup %d priority %d", src, table, priority)
	if dst != "all" {
		t.value = fmt.Sprintf("from %s to %s lookup %d priority %d", src, dst, table, priority)
	}
	if action != unix.FR_ACT_TO_TBL || a[unix.FRA_IIFNAME] != nil || a[unix.FRA_OIFNAME] != nil || a[unix.FRA_FWMARK] != nil {
		t.value += " and more"
	}
	return t
}

// restless are settings that count what happens, instead of saying what shall be.
var restless = []string{"net/netfilter/nf_conntrack_count", "net/ipv4/tcp_fastopen_key", "net/ipv6/icmp/ratemask"}

// addSysctls adds every setting below /proc/sys/net. Of a NIC's, the name is that of its atom.
func (s state) addSysctls() error {
	const root = "/proc/sys/"
	return filepath.WalkDir(root+"net", func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a device's settings go with its IPv6
		}
		if err != nil || d.IsDir() {
			return err
		}
		name := strings.TrimPrefix(path, root)
		raw, err := os.ReadFile(path)
		if err != nil || slices.Contains(restless, name) {
			return nil //nolint:nilerr // some can only be written, or are a secret that is not set
		}
		t := thing{name: "sysctl " + name, value: strings.Join(strings.Fields(string(raw)), " ")}
		// net/ipv4/conf/DEV/KEY
		if parts := strings.Split(name, "/"); len(parts) == 5 && parts[3] != "all" && parts[3] != "default" {
			t.dev, t.name = parts[3], fmt.Sprintf("nic %s sysctl %s.%s.%s", parts[3], parts[1], parts[2], parts[4])
		}
		s.add(t)
		return nil
	})
}

// addFiles adds each file of /etc, as its digest and mode. A lab's /etc lies over the machine's, so that the upper folder
// has what differs from it, and a removed file is a device there.
func (s state) addFiles(root string) error {
	upper := root + "/mnt/etc-upper"
	return filepath.WalkDir(upper, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		t := thing{name: "file /etc" + strings.TrimPrefix(path, upper)}
		switch {
		case d.IsDir():
			t.value = info.Mode().String()
		case info.Mode().IsRegular():
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			t.value = fmt.Sprintf("sha256:%.16s,%04o", fmt.Sprintf("%x", sha256.Sum256(raw)), info.Mode().Perm())
			for line := range strings.Lines(string(raw)) {
				if key, value, is := strings.Cut(strings.TrimSpace(line), "="); is && !strings.HasPrefix(key, "#") {
					s.add(thing{name: t.name + ": " + key, value: value})
				}
			}
		default:
			t.value = info.Mode().String()
		}
		s.add(t)
		return nil
	})
}

// event is a thing that the kernel announced as new, changed or gone.
type event struct {
	thing
	gone bool
}

func (e event) String() string {
	if e.gone {
		return "− " + e.name
	}
	return "+ " + e.name + " = " + e.value
}

// heard returns what the kernel has announced since the last call. An announcement that repeats a known value of a link or
// an address is none: the kernel makes them for counters, carriers and duplicate address detection.
func (k *kernel) heard(known state) (out []event, err error) {
	known = maps.Clone(known)
	buffer := make([]byte, 1<<16)
	for {
		// What has happened was announced before it was answered: there is nothing to wait for.
		n, _, err := unix.Recvfrom(k.monitor.GetFd(), buffer, unix.MSG_DONTWAIT)
		if errors.Is(err, unix.EAGAIN) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("the monitor of host %s lost announcements: %w", k.host, err)
		}
		messages, err := syscall.ParseNetlinkMessage(buffer[:n])
		if err != nil {
			return nil, err
		}
		for _, m := range messages {
			out = append(out, k.announced(known, m)...)
		}
	}
}

func (k *kernel) announced(known state, m syscall.NetlinkMessage) (out []event) {
	kind := m.Header.Type
	gone := kind == unix.RTM_DELLINK || kind == unix.RTM_DELADDR || kind == unix.RTM_DELROUTE || kind == unix.RTM_DELRULE
	for _, t := range k.things(kind, m.Data) {
		before, there := known[t.name]
		repeats := strings.HasPrefix(t.name, "nic ") && there && before.value == t.value
		if gone {
			delete(known, t.name)
		} else if known[t.name] = t; repeats {
			continue
		}
		out = append(out, event{t, gone})
	}
	return out
}

// settle waits until the kernel has done by itself what follows from a change: every NIC that is up runs, and no address
// is being probed.
func (k *kernel) settle() error {
	var busy string
	for range 500 {
		busy = ""
		links, err := whole(k.handle.LinkList)
		if err != nil {
			return err
		}
		for _, l := range links {
			if f := l.Attrs().RawFlags; l.Attrs().Name != "lo" && f&unix.IFF_UP != 0 && f&unix.IFF_RUNNING == 0 {
				busy = l.Attrs().Name
			}
		}
		addrs, err := whole(func() ([]netlink.Addr, error) { return k.handle.AddrList(nil, netlink.FAMILY_V6) })
		if err != nil {
			return err
		}
		for _, a := range addrs {
			if a.Flags&unix.IFA_F_TENTATIVE != 0 && a.Flags&unix.IFA_F_DADFAILED == 0 && links[slices.IndexFunc(links, func(l netlink.Link) bool { return l.Attrs().Index == a.LinkIndex })].Attrs().RawFlags&unix.IFF_UP != 0 {
				busy = a.IPNet.String()
			}
		}
		if busy == "" {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return fmt.Errorf("host %s does not settle: %s", k.host, busy)
}
