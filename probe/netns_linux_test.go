package probe

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// namespace runs functions on one thread in a network namespace of its own. The thread is never
// unlocked, so the runtime throws it away.
type namespace struct {
	work chan func()
	fd   int
}

func netnsInode() (uint64, error) {
	var st unix.Stat_t
	err := unix.Stat(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()), &st)
	return st.Ino, err
}

func newNamespace(t *testing.T) *namespace {
	t.Helper()
	if os.Geteuid() != 0 && os.Getenv("CI") != "true" {
		t.Skip("needs root for a network namespace")
	}
	var host unix.Stat_t
	if err := unix.Stat("/proc/self/ns/net", &host); err != nil {
		t.Fatal(err)
	}
	r := &namespace{work: make(chan func())}
	ready := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			var mine uint64
			if mine, err = netnsInode(); err == nil && mine == host.Ino {
				err = fmt.Errorf("still in the machine's own network namespace")
			}
		}
		if err == nil {
			r.fd, err = unix.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		}
		ready <- err
		if err != nil {
			return
		}
		for f := range r.work {
			f()
		}
	}()
	if err := <-ready; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { close(r.work); _ = unix.Close(r.fd) })
	return r
}

func (r *namespace) do(f func()) {
	done := make(chan struct{})
	r.work <- func() { defer close(done); f() }
	<-done
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// cable joins two namespaces by n veth pairs: c0 with 10.0.0.0/30 and fd00::/64, c1 with the next, …
func cable(t *testing.T, a, b *namespace, n, mtu int) {
	t.Helper()
	for i := range n {
		name := fmt.Sprintf("c%d", i)
		a.do(func() {
			must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name, MTU: mtu}, PeerName: name, PeerNamespace: netlink.NsFd(b.fd), PeerMTU: uint32(mtu)}))
		})
		for j, r := range []*namespace{a, b} {
			r.do(func() {
				l, err := netlink.LinkByName(name)
				must(t, err)
				if err != nil {
					return
				}
				for _, s := range []string{fmt.Sprintf("10.0.%d.%d/30", i, j+1), fmt.Sprintf("fd00:%d::%d/64", i, j+1)} {
					addr, _ := netlink.ParseAddr(s)
					addr.Flags |= unix.IFA_F_NODAD
					must(t, netlink.AddrAdd(l, addr))
				}
				// Link-local addresses are of use at once: nobody else is on the cable.
				must(t, os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/accept_dad", []byte("0"), 0o644))
				must(t, netlink.LinkSetUp(l))
			})
		}
	}
	for i := range n {
		for _, r := range []*namespace{a, b} {
			r.do(func() { must(t, awaitLinkLocal(fmt.Sprintf("c%d", i))) })
		}
	}
}

// awaitLinkLocal waits until the kernel has made a link's own address, which it does when there is a carrier.
func awaitLinkLocal(name string) error {
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		l, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		addrs, err := netlink.AddrList(l, netlink.FAMILY_V6)
		if err != nil {
			return err
		}
		for _, a := range addrs {
			if a.IP.IsLinkLocalUnicast() && a.Flags&unix.IFA_F_TENTATIVE == 0 {
				return nil
			}
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s gets no link-local address", name)
		}
	}
}

func spec(dev, src, dst string, size int, df bool) PingSpec {
	return PingSpec{Netdev: dev, Source: netip.MustParseAddr(src), Targets: []netip.Addr{netip.MustParseAddr(dst)}, Count: 5, Interval: 5 * time.Millisecond, Timeout: 500 * time.Millisecond, Size: size, DontFragment: df}
}

func (r *namespace) ping(t *testing.T, s PingSpec) PingResult {
	t.Helper()
	var got []PingResult
	r.do(func() { var err error; got, err = pingAll(context.Background(), s); must(t, err) })
	t.Logf("%s->%s %d: %+v", s.Source, s.Targets, s.Size, got)
	if len(got) != 1 {
		t.Fatalf("%d results for one target", len(got))
	}
	return got[0]
}

func TestPingOnOneCable(t *testing.T) {
	a, b := newNamespace(t), newNamespace(t)
	cable(t, a, b, 2, 9000)
	for _, s := range []PingSpec{spec("c0", "10.0.0.1", "10.0.0.2", 56, false), spec("c0", "fd00:0::1", "fd00:0::2", 56, false),
		spec("c0", "10.0.0.1", "10.0.0.2", 8972, true), spec("c0", "fd00:0::1", "fd00:0::2", 8952, true)} {
		if got := a.ping(t, s); got.Received != 5 || got.Stamped != 5 || got.Duplicates != 0 || got.Avg <= 0 {
			t.Errorf("%+v", got)
		}
	}
	// b must not answer for c0's address on c1, or the echo truly crosses c1 (weak host model).
	b.do(func() { l, _ := netlink.LinkByName("c1"); must(t, netlink.LinkSetDown(l)) })
	if got := a.ping(t, spec("c1", "10.0.1.1", "10.0.0.2", 56, false)); got.Received != 0 {
		t.Errorf("answered over the wrong device: %+v", got)
	}
}

func TestFullSizePingFindsASmallerMTU(t *testing.T) {
	a, b := newNamespace(t), newNamespace(t)
	cable(t, a, b, 1, 9000)
	b.do(func() { l, _ := netlink.LinkByName("c0"); must(t, netlink.LinkSetMTU(l, 1500)) })
	for _, s := range []PingSpec{spec("c0", "10.0.0.1", "10.0.0.2", 8972, true), spec("c0", "fd00:0::1", "fd00:0::2", 8952, true)} {
		if got := a.ping(t, s); got.Received != 0 {
			t.Errorf("peer at 1500 took 9000: %+v", got)
		}
	}
	for _, s := range []PingSpec{spec("c0", "10.0.0.2", "10.0.0.1", 8972, true), spec("c0", "fd00:0::2", "fd00:0::1", 8952, true)} {
		if got := b.ping(t, s); got.Received != 0 || len(got.Errors) == 0 || !strings.Contains(got.Errors[0], "larger than the MTU") {
			t.Errorf("DF above own MTU: %+v", got)
		}
	}
}

func TestPingToNobodySaysWhy(t *testing.T) {
	a, b := newNamespace(t), newNamespace(t)
	cable(t, a, b, 1, 1500)
	b.do(func() {
		l, _ := netlink.LinkByName("c0")
		ad, _ := netlink.ParseAddr("10.0.0.2/30")
		must(t, netlink.AddrDel(l, ad))
	})
	// The kernel tells its own senders by ICMP over lo, which is up on every real host.
	a.do(func() { l, _ := netlink.LinkByName("lo"); must(t, netlink.LinkSetUp(l)) })
	s := spec("c0", "10.0.0.1", "10.0.0.2", 56, false)
	s.Timeout = 5 * time.Second
	if got := a.ping(t, s); got.Received != 0 || len(got.Errors) == 0 {
		t.Errorf("no reason: %+v", got)
	}
}

func TestPingOfManyPeersKeepsThemApart(t *testing.T) {
	a, b := newNamespace(t), newNamespace(t)
	cable(t, a, b, 1, 9000)
	s := spec("c0", "fd00:0::1", "fd00:0::2", 8952, true)
	b.do(func() {
		l, _ := netlink.LinkByName("c0")
		for i := 3; i < 40; i++ {
			addr, _ := netlink.ParseAddr(fmt.Sprintf("fd00:0::%x/64", i))
			addr.Flags |= unix.IFA_F_NODAD
			must(t, netlink.AddrAdd(l, addr))
			s.Targets = append(s.Targets, netip.MustParseAddr(addr.IP.String()))
		}
	})
	s.Targets = append(s.Targets, netip.MustParseAddr("fd00:0::99"), s.Targets[0])
	nobody := func(i int) bool { return s.Targets[i] == netip.MustParseAddr("fd00:0::99") }
	got := a.pingAll(t, s, func(i int) int {
		if nobody(i) {
			return 0
		}
		return s.Count
	})
	for i, r := range got {
		if nobody(i) && r.Received != 0 || !nobody(i) && (r.Received != 5 || r.Stamped != 5 || r.Duplicates != 0 || len(r.Errors) != 0) {
			t.Errorf("%s: %+v", s.Targets[i], r)
		}
	}
	if len(got) != len(s.Targets) {
		t.Errorf("%d results for %d targets", len(got), len(s.Targets))
	}
}

// A queue that is full drops the packet, and tells the sender: it is sent again.
func TestPingWaitsForAFullQueue(t *testing.T) {
	a, b := newNamespace(t), newNamespace(t)
	cable(t, a, b, 1, 1500)
	s := spec("c0", "10.0.0.1", "10.0.0.2", 1000, false)
	a.ping(t, s) // finds the neighbour
	a.do(func() {
		l, err := netlink.LinkByName("c0")
		must(t, err)
		must(t, netlink.QdiscReplace(&netlink.Tbf{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: l.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT},
			Rate: 1 << 20, Buffer: netlink.Xmittime(1<<20, 2000), Limit: 4000}))
	})
	for range 31 {
		s.Targets = append(s.Targets, s.Targets[0])
	}
	s.Count, s.Timeout = 2, 10*time.Second
	for i, r := range a.pingAll(t, s, func(int) int { return 2 }) {
		if r.Sent != 2 || r.Received != 2 || r.Duplicates != 0 || len(r.Errors) != 0 {
			t.Errorf("%d: %+v", i, r)
		}
	}
}

// pingAll pings, and again where fewer answers came than each target is to give: on a busy machine
// kernels drop what they say to each other, and tell nobody.
func (r *namespace) pingAll(t *testing.T, s PingSpec, answers func(i int) int) (got []PingResult) {
	t.Helper()
	for range 5 {
		r.do(func() { var err error; got, err = pingAll(context.Background(), s); must(t, err) })
		lost := 0
		for i, p := range got {
			lost += max(answers(i)-p.Received, 0)
		}
		if lost == 0 {
			break
		}
		t.Logf("%d answers are missing", lost)
	}
	return got
}

var token = rand.Text()

func TestTCPMovesBothPortsCounters(t *testing.T) {
	a, b := newNamespace(t), newNamespace(t)
	cable(t, a, b, 1, 9000)
	var s tcpServer
	var l TCPListenResult
	var before, after Counters
	b.do(func() {
		var err error
		before, err = readCounters(t.Context(), "c0")
		must(t, err)
		l, err = s.Listen(context.Background(), TCPListenSpec{Netdev: "c0", Token: token, Address: netip.MustParseAddr("10.0.0.2"), Streams: 2, Duration: time.Second})
		must(t, err)
	})
	// a stranger with a bad token first
	a.do(func() {
		c, err := net.Dial("tcp", fmt.Sprintf("10.0.0.2:%d", l.Port))
		must(t, err)
		if err == nil {
			_, _ = c.Write([]byte(strings.Repeat("x", 64)))
			_ = c.Close()
		}
	})
	sent := send(t, a, TCPSendSpec{Target: netip.AddrPortFrom(netip.MustParseAddr("10.0.0.2"), l.Port), Token: token, Streams: 2, Duration: time.Second})
	got, err := s.Collect(context.Background(), l.ID)
	must(t, err)
	b.do(func() { after, err = readCounters(t.Context(), "c0"); must(t, err) })
	t.Logf("sent %+v got %+v", sent, got)
	if got.Bytes == 0 || got.Gbps <= 0 || sent.Congestion == "" || after.RxBytes-before.RxBytes < uint64(got.Bytes) {
		t.Errorf("sent %+v got %+v rx %d", sent, got, after.RxBytes-before.RxBytes)
	}
}

// send sends over the first cable from its first address.
func send(t *testing.T, from *namespace, s TCPSendSpec) (sent TCPResult) {
	t.Helper()
	s.Netdev, s.Source = "c0", netip.MustParseAddr("10.0.0.1")
	from.do(func() { var err error; sent, err = sendTCP(context.Background(), s); must(t, err) })
	return sent
}

// transfer is a whole measurement over the first cable, in the direction of its addresses.
func transfer(t *testing.T, a, b *namespace, streams int, d time.Duration, congestion string, discard bool) (sent, got TCPResult) {
	t.Helper()
	var s tcpServer
	var l TCPListenResult
	to := netip.MustParseAddr("10.0.0.2")
	b.do(func() {
		var err error
		l, err = s.Listen(context.Background(), TCPListenSpec{Netdev: "c0", Token: token, Address: to, Streams: streams, Duration: d, Discard: discard})
		must(t, err)
	})
	sent = send(t, a, TCPSendSpec{Target: netip.AddrPortFrom(to, l.Port), Token: token, Streams: streams, Duration: d, Congestion: congestion})
	got, err := s.Collect(context.Background(), l.ID)
	must(t, err)
	return sent, got
}

func TestTCPSaysHowItWasMeasured(t *testing.T) {
	a, b := newNamespace(t), newNamespace(t)
	cable(t, a, b, 1, 9000)
	for _, discard := range []bool{false, true} {
		sent, got := transfer(t, a, b, 3, 300*time.Millisecond, "reno", discard)
		for tries := 0; got.Bytes == 0 && tries < 5; tries++ { // on a busy machine, nothing may arrive in that time
			sent, got = transfer(t, a, b, 3, 300*time.Millisecond, "reno", discard)
		}
		if sent.Congestion != "reno" || got.Discarded != discard || got.Bytes == 0 || got.Bytes != sent.Bytes {
			t.Errorf("discard %v: sent %+v got %+v", discard, sent, got)
		}
		// MTU 9000, without the headers of IP and TCP and 12 bytes of options, at most. The token is a segment of each stream, too.
		if sent.Segment != 9000-52 || sent.Segments < int(got.Bytes)/sent.Segment || sent.Segments > int(got.Bytes)/sent.Segment*2+100 || sent.Buffer < 1<<16 || got.Buffer < 1<<16 {
			t.Errorf("sent %+v got %+v", sent, got)
		}
	}
	a.do(func() {
		s := TCPSendSpec{Netdev: "c0", Source: netip.MustParseAddr("10.0.0.1"), Target: netip.MustParseAddrPort("10.0.0.2:9999"), Token: token, Streams: 1, Duration: time.Second, Congestion: "no-such"}
		if _, err := sendTCP(context.Background(), s); err == nil {
			t.Error("an algorithm that the kernel does not have was taken")
		}
	})
}

// A cable cut early must not read as the rate of the first half second.
func TestTCPOnACutCableReportsTheWholeDuration(t *testing.T) {
	a, b := newNamespace(t), newNamespace(t)
	cable(t, a, b, 1, 9000)
	var s tcpServer
	var l TCPListenResult
	b.do(func() {
		var err error
		l, err = s.Listen(context.Background(), TCPListenSpec{Netdev: "c0", Token: token, Address: netip.MustParseAddr("10.0.0.2"), Streams: 1, Duration: 3 * time.Second})
		must(t, err)
	})
	cut := make(chan struct{})
	go func() {
		defer close(cut)
		time.Sleep(500 * time.Millisecond)
		b.do(func() { l, _ := netlink.LinkByName("c0"); must(t, netlink.LinkSetDown(l)) })
	}()
	var sent TCPResult
	a.do(func() {
		var err error
		sent, err = sendTCP(context.Background(), TCPSendSpec{Netdev: "c0", Source: netip.MustParseAddr("10.0.0.1"), Target: netip.AddrPortFrom(netip.MustParseAddr("10.0.0.2"), l.Port), Token: token, Streams: 1, Duration: 3 * time.Second})
		t.Logf("send: %+v %v", sent, err)
	})
	<-cut
	got, err := s.Collect(context.Background(), l.ID)
	t.Logf("receive: %+v %v", got, err)
	if err == nil && got.Elapsed < 2*time.Second {
		t.Errorf("cable dead for 2.5 of 3 s, yet %.1f Gb/s over %s and no error", got.Gbps, got.Elapsed)
	}
}

// TestASenderServesNoLiar: what the receiving host says decides neither what is sent first nor that this host itself is sent to.
func TestASenderServesNoLiar(t *testing.T) {
	a := newNamespace(t)
	cable(t, a, newNamespace(t), 1, 1500)
	a.do(func() {
		l, err := net.Listen("tcp4", ":0")
		must(t, err)
		defer l.Close()
		_, port, err := net.SplitHostPort(l.Addr().String())
		must(t, err)
		for _, s := range []TCPSendSpec{
			{Target: netip.MustParseAddrPort("127.0.0.1:" + port), Token: token},
			{Target: netip.MustParseAddrPort("127.8.8.8:" + port), Token: token},
			{Target: netip.MustParseAddrPort("[::ffff:127.0.0.1]:" + port), Token: token},
			{Target: netip.MustParseAddrPort("0.0.0.0:" + port), Token: token},
			{Target: netip.MustParseAddrPort("[::]:" + port), Token: token},
			{Target: netip.MustParseAddrPort("10.0.0.1:" + port), Token: token},
			{Target: netip.MustParseAddrPort("[::ffff:10.0.0.1]:" + port), Token: token},
			{Target: netip.MustParseAddrPort("224.0.0.1:" + port), Token: token},
			{Target: netip.MustParseAddrPort("10.0.0.2:22"), Token: token},
			{Target: netip.MustParseAddrPort("10.0.0.2:" + port), Token: "FLUSHALL\r\n"},
			{Target: netip.MustParseAddrPort("10.0.0.2:" + port), Token: token + "\n"},
			{Target: netip.MustParseAddrPort("10.0.0.2:" + port)},
		} {
			s.Streams, s.Duration = 1, time.Millisecond
			if _, err := sendTCP(t.Context(), s); err == nil || !strings.HasPrefix(err.Error(), "send TCP: ") {
				t.Errorf("to %s with %q: %v", s.Target, s.Token, err)
			}
		}
	})
}
