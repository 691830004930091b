package probe

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/fabricform/fabricform/probe/roce"
)

// wire joins two namespaces by a bare veth pair named w0.
func wire(t *testing.T, a, b *namespace, mtu int) {
	t.Helper()
	a.do(func() {
		must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "w0", MTU: mtu}, PeerName: "w0", PeerNamespace: netlink.NsFd(b.fd), PeerMTU: uint32(mtu)}))
	})
	for _, r := range []*namespace{a, b} {
		r.do(func() {
			l, err := netlink.LinkByName("w0")
			must(t, err)
			must(t, netlink.LinkSetUp(l))
		})
	}
	// The kernel lets traffic through some time after both ends are up.
	for _, r := range []*namespace{a, b} {
		r.do(func() {
			for range 200 {
				l, err := netlink.LinkByName("w0")
				must(t, err)
				if l.Attrs().OperState == netlink.OperUp {
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
			t.Error("the wire does not come up")
		})
	}
}

// sendFrames puts frames on a netdev of the namespace as they are.
func (r *namespace) sendFrames(t *testing.T, netdev string, frames ...[]byte) {
	t.Helper()
	r.do(func() {
		dev, err := net.InterfaceByName(netdev)
		must(t, err)
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		must(t, err)
		defer unix.Close(fd)
		for _, f := range frames {
			if err := unix.Sendto(fd, f, 0, &unix.SockaddrLinklayer{Ifindex: dev.Index}); err != nil {
				t.Errorf("send %d bytes: %v", len(f), err)
				return
			}
		}
	})
}

// roceFrames are those that probe/roce is tested with.
func roceFrames(t *testing.T) [][]byte {
	t.Helper()
	file, err := os.ReadFile("roce/testdata/frames.txt")
	if err != nil {
		t.Fatal(err)
	}
	var out [][]byte
	lines := bufio.NewScanner(bytes.NewReader(file))
	for lines.Scan() {
		if _, text, ok := strings.Cut(lines.Text(), "\t"); ok {
			b, err := hex.DecodeString(text)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, b)
		}
	}
	return out
}

// open begins a capture of a namespace, and run takes it.
func (r *namespace) open(t *testing.T, s CaptureSpec) *capturer {
	t.Helper()
	var c *capturer
	r.do(func() {
		var err error
		if c, err = openCapture(s); err != nil {
			t.Fatal(err)
		}
	})
	return c
}

func run(t *testing.T, ctx context.Context, c *capturer) ([]Frame, CaptureResult) {
	t.Helper()
	var out []Frame
	r, err := c.Run(ctx, func(f Frame) error {
		f.Data = bytes.Clone(f.Data)
		out = append(out, f)
		return nil
	})
	must(t, err)
	must(t, c.Close())
	return out, r
}

// ipv6Frame is an ACK over IPv6, with tags before it.
func ipv6Frame(tags ...uint16) []byte {
	b := []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1}
	for _, tag := range tags {
		b = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(b, 0x8100), tag)
	}
	b = append(b, 0x86, 0xdd, 0x60, 0, 0, 0, 0, 28, 17, 64)
	b = append(b, net.ParseIP("fd00::1")...)
	b = append(b, net.ParseIP("fd00::2")...)
	b = append(b, 0xc0, 0, 0x12, 0xb7, 0, 28, 0, 0, 0x11, 0, 0xff, 0xff, 0, 0, 0, 9)
	return append(b, make([]byte, 12)...)
}

// noise is what the filter is to keep out.
func noise() [][]byte {
	edit := func(at int, to ...byte) []byte { b := ipv6Frame(); copy(b[at:], to); return b }
	v4 := append([]byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 48, 0, 0, 0, 7, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2}, 0xc0, 0, 0x12, 0xb7)
	v4 = append(v4, make([]byte, 24)...) // a later fragment, whose first bytes look like RoCE's port
	tcp := bytes.Clone(v4)
	tcp[14+6], tcp[14+7], tcp[14+9] = 0, 0, 6
	return [][]byte{edit(56, 0x12, 0xb6), edit(20, 6), edit(12, 8, 6), v4, tcp, edit(12, 0x88, 0xb5)}
}

func TestCaptureSeesRoCEOnBothEndsAndNothingElse(t *testing.T) {
	a, b := newNamespace(t), newNamespace(t)
	wire(t, a, b, 9000)
	frames := append(roceFrames(t), ipv6Frame(), ipv6Frame(5), ipv6Frame(5, 6))
	spec := CaptureSpec{Netdev: "w0", MaxPackets: len(frames) + 1, SnapLen: 9216, Duration: 400 * time.Millisecond}
	out, in := a.open(t, spec), b.open(t, spec)
	began := time.Now()
	for _, f := range frames {
		a.sendFrames(t, "w0", append(noise(), f)...)
	}
	for _, end := range []struct {
		c        *capturer
		outgoing bool
	}{{out, true}, {in, false}} {
		got, r := run(t, context.Background(), end.c)
		if r.Packets != len(frames) || r.Ended != EndedByDuration || r.Dropped != 0 {
			t.Errorf("outgoing %v: %+v, want %d packets", end.outgoing, r, len(frames))
		}
		for i, f := range got {
			if i >= len(frames) || !bytes.Equal(f.Data, frames[i]) || f.Length != len(frames[i]) || f.Outgoing != end.outgoing ||
				f.Time.Before(began.Add(-time.Second)) || f.Time.After(time.Now()) {
				t.Errorf("frame %d: %+v", i, f)
				continue
			}
			if _, err := roce.Decode(f.Data); err != nil {
				t.Errorf("frame %d: %v", i, err)
			}
		}
	}
}

func TestCaptureCutsFramesAndStopsAtItsLimit(t *testing.T) {
	a, b := newNamespace(t), newNamespace(t)
	wire(t, a, b, 9000)
	long := append(ipv6Frame(5), make([]byte, 900)...)
	c := b.open(t, CaptureSpec{Netdev: "w0", MaxPackets: 3, SnapLen: 64, Duration: time.Minute})
	a.sendFrames(t, "w0", long, long, long, long, long)
	got, r := run(t, context.Background(), c)
	if r.Packets != 3 || r.Ended != EndedByPackets || r.Bytes != int64(3*len(long)) {
		t.Errorf("%+v", r)
	}
	for _, f := range got {
		if !bytes.Equal(f.Data, long[:64]) || f.Length != len(long) {
			t.Errorf("%+v", f)
		}
	}
}

func TestCaptureEndsWithItsCallerAndKeepsWhatCameBefore(t *testing.T) {
	a, b := newNamespace(t), newNamespace(t)
	wire(t, a, b, 1500)
	c := b.open(t, CaptureSpec{Netdev: "w0", MaxPackets: 100, SnapLen: 128, Duration: time.Minute})
	ctx, cancel := context.WithCancel(context.Background())
	a.sendFrames(t, "w0", ipv6Frame())
	cancel() // at once: the packet is still in a block that the kernel keeps
	if got, r := run(t, ctx, c); len(got) != 1 || r.Ended != EndedByCaller {
		t.Errorf("%+v", r)
	}
	c = b.open(t, CaptureSpec{Netdev: "w0", MaxPackets: 100, SnapLen: 128, Duration: time.Minute})
	a.sendFrames(t, "w0", ipv6Frame())
	full := errors.New("disk full")
	r, err := c.Run(context.Background(), func(Frame) error { return full })
	if !errors.Is(err, full) || r.Packets != 1 {
		t.Errorf("%+v %v", r, err)
	}
	must(t, c.Close())
}

func TestCaptureCountsWhatItMissed(t *testing.T) {
	a, b := newNamespace(t), newNamespace(t)
	wire(t, a, b, 9000)
	c := b.open(t, CaptureSpec{Netdev: "w0", MaxPackets: 1e6, SnapLen: 9216, Duration: 300 * time.Millisecond})
	long := append(ipv6Frame(), make([]byte, 8900)...)
	const sent = 2000 // twice what the ring holds
	burst := make([][]byte, sent)
	for i := range burst {
		burst[i] = long
	}
	a.sendFrames(t, "w0", burst...)
	got, r := run(t, context.Background(), c)
	if r.Dropped == 0 || r.Packets+r.Dropped > sent || len(got) != r.Packets || r.Packets < 500 {
		t.Errorf("%d sent: %+v", sent, r)
	}
}

func TestCaptureOutlivesALinkThatGoesDown(t *testing.T) {
	a, b := newNamespace(t), newNamespace(t)
	wire(t, a, b, 1500)
	c := b.open(t, CaptureSpec{Netdev: "w0", MaxPackets: 2, SnapLen: 128, Duration: 5 * time.Second})
	done := make(chan CaptureResult)
	var before, after unix.Rusage
	must(t, unix.Getrusage(unix.RUSAGE_SELF, &before))
	go func() {
		_, r := run(t, context.Background(), c)
		done <- r
	}()
	a.sendFrames(t, "w0", ipv6Frame())
	b.do(func() {
		l, err := netlink.LinkByName("w0")
		must(t, err)
		must(t, netlink.LinkSetDown(l))
		time.Sleep(300 * time.Millisecond)
		must(t, netlink.LinkSetUp(l))
	})
	// The kernel lets traffic through some time after the link is up.
	var r CaptureResult
	for again := true; again; {
		a.sendFrames(t, "w0", ipv6Frame())
		select {
		case r = <-done:
			again = false
		case <-time.After(20 * time.Millisecond):
		}
	}
	if r.Packets != 2 || r.Ended != EndedByPackets {
		t.Errorf("%+v", r)
	}
	must(t, unix.Getrusage(unix.RUSAGE_SELF, &after))
	if spent := time.Duration(after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()); spent > 200*time.Millisecond {
		t.Errorf("waiting for a link that is down took %s of CPU", spent)
	}
}

// Loopback shows a packet on its way out and in: one of them is enough.
func TestCaptureOnLoopbackSeesEachPacketOnce(t *testing.T) {
	a := newNamespace(t)
	a.do(func() { l, err := netlink.LinkByName("lo"); must(t, err); must(t, netlink.LinkSetUp(l)) })
	c := a.open(t, CaptureSpec{Netdev: "lo", MaxPackets: 10, SnapLen: 128, Duration: 300 * time.Millisecond})
	a.do(func() {
		conn, err := net.Dial("udp", "127.0.0.1:4791")
		must(t, err)
		_, err = conn.Write(append([]byte{0x11, 0, 0xff, 0xff, 0, 0, 0, 9}, make([]byte, 12)...))
		must(t, err)
		must(t, conn.Close())
	})
	got, r := run(t, context.Background(), c)
	if len(got) != 1 || r.Packets != 1 || got[0].Outgoing {
		t.Fatalf("%+v %+v", r, got)
	}
	p, err := roce.Decode(got[0].Data)
	if err != nil || p.TargetQP != 9 || p.Opcode.String() != "RC ACKNOWLEDGE" || p.Source.String() != "127.0.0.1" {
		t.Errorf("%+v %v", p, err)
	}
}

func TestCaptureRefusesWhatCannotBe(t *testing.T) {
	good := CaptureSpec{Netdev: "lo", MaxPackets: 1, SnapLen: 64, Duration: time.Second}
	for want, change := range map[string]func(*CaptureSpec){
		"0 packets": func(s *CaptureSpec) { s.MaxPackets = 0 }, "63 bytes": func(s *CaptureSpec) { s.SnapLen = 63 },
		"in 0s": func(s *CaptureSpec) { s.Duration = 0 }, `on ""`: func(s *CaptureSpec) { s.Netdev = "" },
		"capture on nosuch0": func(s *CaptureSpec) { s.Netdev = "nosuch0" },
	} {
		s := good
		change(&s)
		if _, err := openCapture(s); err == nil || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
