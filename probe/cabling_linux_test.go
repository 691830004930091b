package probe

import (
	"bytes"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/fabricform/fabricform/retry"
)

const run1, run2 = "000102030405060708090a0b0c0d0e0f", "ff0102030405060708090a0b0c0d0e0f"

// listen listens in a namespace until collect is called.
func (r *namespace) listen(t *testing.T, s *cablingServer, netdevs ...string) (collect func() CablingHeard) {
	t.Helper()
	var l CablingListening
	r.do(func() {
		var err error
		l, err = s.Listen(t.Context(), CablingListenSpec{Token: run1, Netdevs: netdevs, Duration: time.Minute})
		must(t, err)
	})
	for _, p := range l.Ports {
		if p.Failed != "" || p.Eats != "" {
			t.Fatalf("%+v", p)
		}
	}
	return func() CablingHeard {
		time.Sleep(100 * time.Millisecond)
		h, err := s.Collect(t.Context(), l.ID)
		must(t, err)
		return h
	}
}

func (r *namespace) sendProbes(t *testing.T, token string, ports ...CablingPort) {
	t.Helper()
	var s cablingServer
	r.do(func() {
		sent, err := s.Send(t.Context(), CablingSendSpec{Token: token, Ports: ports})
		must(t, err)
		for _, p := range sent {
			if p.Frames != CablingFrames || p.Failed != "" {
				t.Errorf("%+v", p)
			}
		}
	})
}

// TestProbesTellACableFromASegment: over a cable both kinds of frames come; over a bridge the broadcast alone.
func TestProbesTellACableFromASegment(t *testing.T) {
	a, b, bridge := newNamespace(t), newNamespace(t), newNamespace(t)
	cable(t, a, b, 1, 1500)
	for i, r := range []*namespace{a, b} {
		r.do(func() {
			must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "s0"}, PeerName: fmt.Sprintf("p%d", i), PeerNamespace: netlink.NsFd(bridge.fd)}))
			l, err := netlink.LinkByName("s0")
			must(t, err)
			must(t, netlink.LinkSetUp(l))
		})
	}
	bridge.do(func() {
		br := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}
		must(t, netlink.LinkAdd(br))
		must(t, netlink.LinkSetUp(br))
		for _, name := range []string{"p0", "p1"} {
			l, err := netlink.LinkByName(name)
			must(t, err)
			must(t, netlink.LinkSetMaster(l, br))
			must(t, netlink.LinkSetUp(l))
		}
	})
	for _, at := range []struct { // a port sends and forwards once the kernel has noticed its carrier
		in    *namespace
		names []string
	}{{bridge, []string{"p0", "p1"}}, {a, []string{"c0", "s0"}}, {b, []string{"c0", "s0"}}} {
		at.in.do(func() {
			for _, name := range at.names {
				must(t, retry.Until(t.Context(), 10*time.Millisecond, time.Minute, func() (bool, error) {
					l, err := netlink.LinkByName(name)
					if err != nil {
						return false, err
					}
					return l.Attrs().OperState == netlink.OperUp, nil
				}))
			}
		})
	}
	var s cablingServer
	collect := b.listen(t, &s, "c0", "s0")
	a.sendProbes(t, run1, CablingPort{"c0", 7}, CablingPort{"s0", 8})
	a.sendProbes(t, run2, CablingPort{"c0", 9})
	heard := collect()
	want := []CablingProbe{{"c0", 7, false, 2}, {"c0", 7, true, 2}, {"s0", 8, false, 2}}
	slices.SortFunc(heard.Probes, func(a, b CablingProbe) int { return bytes.Compare(fmt.Append(nil, a), fmt.Append(nil, b)) })
	if !slices.Equal(heard.Probes, want) {
		t.Errorf("heard %+v, want %+v", heard.Probes, want)
	}
	// The other run's frames are kept as they are.
	if len(heard.Others) != 2 || heard.Others[0].Netdev != "c0" || heard.Others[0].Count != 2 || len(heard.Full) > 0 {
		t.Errorf("others: %+v, full: %v", heard.Others, heard.Full)
	}
	if _, err := s.Collect(t.Context(), "nothing"); err == nil {
		t.Error("a listening that does not exist was collected")
	}
}

// TestAPortKeepsABoundedPart: a device that sends ever new frames fills no memory, and the port is named.
func TestAPortKeepsABoundedPart(t *testing.T) {
	a, b := newNamespace(t), newNamespace(t)
	cable(t, a, b, 1, 1500)
	var s cablingServer
	collect := b.listen(t, &s, "c0")
	a.do(func() {
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
		must(t, err)
		defer unix.Close(fd)
		dev, err := net.InterfaceByName("c0")
		must(t, err)
		for i := range 100 {
			frame := probeFrame(nearestBridge, [6]byte(dev.HardwareAddr), [cablingTokenSize]byte{byte(i)}, 1)
			must(t, unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: dev.Index, Halen: 6}))
		}
	})
	if heard := collect(); len(heard.Others) != maxCablingOthers || !slices.Equal(heard.Full, []string{"c0"}) {
		t.Errorf("%d kept, full: %v", len(heard.Others), heard.Full)
	}
}

// TestAListeningNamesItsLimits: a request beyond them is refused, and a port that does not exist is named.
func TestAListeningNamesItsLimits(t *testing.T) {
	var s cablingServer
	for _, spec := range []CablingListenSpec{{Token: "x", Duration: time.Second}, {Token: run1}, {Token: run1, Duration: time.Hour},
		{Token: run1, Duration: time.Second, Netdevs: make([]string, MaxCablingPorts+1)}} {
		if _, err := s.Listen(t.Context(), spec); err == nil {
			t.Errorf("%+v was accepted", spec)
		}
	}
	newNamespace(t).do(func() {
		l, err := s.Listen(t.Context(), CablingListenSpec{Token: run1, Duration: time.Second, Netdevs: []string{"none0"}})
		if err != nil || len(l.Ports) != 1 || l.Ports[0].Failed == "" {
			t.Errorf("%+v: %v", l, err)
		}
	})
}

func TestFirmwareThatEatsLLDPIsNamedByItsFlag(t *testing.T) {
	for want, flags := range map[string]map[string]bool{
		"disable-fw-lldp": {"disable-fw-lldp": false, "MFP": true}, "fw-lldp-agent": {"fw-lldp-agent": true},
	} {
		if got := eatsLLDP(flags); got != want {
			t.Errorf("%v: %q", flags, got)
		}
	}
	for _, flags := range []map[string]bool{nil, {"disable-fw-lldp": true}, {"fw-lldp-agent": false}, {"rx_cqe_moder": true}} {
		if got := eatsLLDP(flags); got != "" {
			t.Errorf("%v: %q", flags, got)
		}
	}
}

// TestAnyFrameIsRead: readProbe is given what any device sends.
func TestAnyFrameIsRead(t *testing.T) {
	token := [cablingTokenSize]byte{1}
	whole := probeFrame(nearestBridge, [6]byte{2}, token, 5)
	if n, group, ours := readProbe(whole, token); n != 5 || !group || !ours || len(whole) != shortestFrame {
		t.Errorf("%d %v %v of %d bytes", n, group, ours, len(whole))
	}
	for i := range whole {
		if _, _, ours := readProbe(whole[:i], token); ours && i < ethernetHeader+len(cablingMark)+cablingTokenSize+4 {
			t.Errorf("%d bytes pass for a probe", i)
		}
	}
	if _, _, ours := readProbe(whole, [cablingTokenSize]byte{2}); ours {
		t.Error("the probe of another run is ours")
	}
}
