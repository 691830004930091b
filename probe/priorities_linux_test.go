package probe

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/fabricform/fabricform/host/dcb"
)

// TestStatisticsOfDriversAreRead by their names. What ethtool does not show of PFC, dcbnl does.
func TestStatisticsOfDriversAreRead(t *testing.T) {
	pfc := &pfcCounts{}
	pfc.requests[5], pfc.indications[5], pfc.indications[4] = 77, 78, 79
	for driver, want := range map[string]string{
		"mlx5": "packets 50/40 of 5000/4000 bytes, paused by 11 frames for 1100 µs, pauses by 12 for 1200 µs, discards 3+4+5, marked 6, storms 1+2, " +
			"port pauses /, port discards 7/0",
		"bnxt_en": "packets 50/40 of 5000/4000 bytes, paused by 11 frames for 1100 µs, pauses by 12 for 1200 µs, discards , marked , storms , port pauses 1/2, " +
			"port discards 7+7/0",
		"ice": "packets / of / bytes, paused by 11 frames for  µs, pauses by 12 for  µs, discards , marked , storms , port pauses 1/2, port discards 7/",
	} {
		all := read(fixture(t, driver), pfc)
		of := func(c Counted, sent bool, priority int) string {
			var values []string
			for _, s := range all {
				if s.Counts == c && s.Sent == sent && s.Priority == priority {
					values = append(values, fmt.Sprint(s.Value))
				}
			}
			return strings.Join(values, "+")
		}
		got := fmt.Sprintf("packets %s/%s of %s/%s bytes, paused by %s frames for %s µs, pauses by %s for %s µs, discards %s, marked %s, storms %s, port pauses %s/%s, "+
			"port discards %s/%s", of(Packets, false, 5), of(Packets, true, 5), of(Bytes, false, 5), of(Bytes, true, 5), of(PauseFrames, false, 5), of(PausedMicros, false, 5), of(PauseFrames, true, 5),
			of(PausedMicros, true, 5), sum(of(Discards, false, 5)), of(Marked, false, 5), sum(of(PauseStorms, true, WholePort)), of(PauseFrames, false, WholePort),
			of(PauseFrames, true, WholePort), of(Discards, false, WholePort), of(Discards, true, WholePort))
		if got != want {
			t.Errorf("%s: %s\nwant %s", driver, got, want)
		}
		if got := of(PauseFrames, false, 4); got != "79" {
			t.Errorf("%s: dcbnl's PFC frames of priority 4: %q", driver, got)
		}
	}
}

// sum sorts the parts of a sum.
func sum(s string) string {
	parts := strings.Split(s, "+")
	slices.Sort(parts)
	return strings.Join(parts, "+")
}

func fixture(t *testing.T, driver string) map[string]uint64 {
	t.Helper()
	raw, err := os.ReadFile("testdata/statistics-" + driver + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]uint64{}
	for line := range strings.Lines(string(raw)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if n, err := strconv.ParseUint(value, 10, 64); ok && err == nil {
			out[name] = n
		}
	}
	return out
}

func TestDCBIsRead(t *testing.T) {
	pfc := make([]byte, dcb.SizePFC)
	pfc[dcb.PFCMask] = 1<<5 | 1<<3
	binary.NativeEndian.PutUint64(pfc[dcb.PFCRequests+8*5:], 7)
	binary.NativeEndian.PutUint64(pfc[dcb.PFCIndications+8*7:], 8)
	answer := func(parts ...[]byte) []byte {
		return append([]byte{0, dcb.CmdIEEEGet, 0, 0}, dcb.Attribute(dcb.AttrIEEE|dcb.Nested, slices.Concat(parts...))...)
	}
	attribute := func(kind uint16, value ...byte) []byte { return dcb.Attribute(kind, value) }
	app := func(selector, priority byte, protocol uint16) []byte {
		return attribute(1, binary.NativeEndian.AppendUint16([]byte{selector, priority}, protocol)...)
	}
	apps := attribute(dcb.IEEEApps|dcb.Nested, slices.Concat(app(dcb.SelectorDSCP, 5, 40), app(1, 3, 0x8915))...)
	for name, c := range map[string]struct {
		parts   [][]byte
		dscp    map[int]int
		pcp     bool
		counted bool
	}{
		"a table of trust":         {[][]byte{attribute(dcb.IEEEPFC, pfc...), apps, attribute(dcb.IEEETrust|dcb.Nested, attribute(1, dcb.SelectorDSCP)...)}, map[int]int{40: 5}, false, true},
		"a table without DSCP":     {[][]byte{attribute(dcb.IEEEPFC, pfc...), apps, attribute(dcb.IEEETrust|dcb.Nested, attribute(2, 255)...)}, map[int]int{40: 5}, true, true},
		"no table, and a DSCP":     {[][]byte{apps}, map[int]int{40: 5}, false, false},
		"no table, and no DSCP":    {nil, map[int]int{}, true, false},
		"an empty table":           {[][]byte{attribute(dcb.IEEETrust | dcb.Nested)}, map[int]int{}, true, false},
		"no DSCP of six bits":      {[][]byte{attribute(dcb.IEEEApps|dcb.Nested, app(dcb.SelectorDSCP, 5, 64)...)}, map[int]int{}, true, false},
		"what nobody has seen yet": {[][]byte{attribute(99, 1, 2, 3), apps}, map[int]int{40: 5}, false, false},
	} {
		got, counts, err := parseDCB(answer(c.parts...))
		if err != nil || !reflect.DeepEqual(got.DSCP, c.dscp) || got.TrustsPCP != c.pcp || (counts != nil) != c.counted {
			t.Errorf("%s: %+v %+v %v", name, got, counts, err)
			continue
		}
		if c.counted && (!reflect.DeepEqual(got.PFC, []int{3, 5}) || counts.requests[5] != 7 || counts.indications[7] != 8) {
			t.Errorf("%s: PFC %v, %+v", name, got.PFC, counts)
		}
	}
	if _, _, err := parseDCB(answer(attribute(dcb.IEEEPFC, 1, 2))); err == nil {
		t.Error("a struct that is cut off is accepted")
	}
}

// TestANICWithoutPrioritiesHasNone: neither statistics nor DCB, and no error.
func TestANICWithoutPrioritiesHasNone(t *testing.T) {
	n := newNamespace(t)
	n.do(func() {
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "v0"}, PeerName: "v1"}); err != nil {
			t.Error(err)
		}
		for _, name := range []string{"lo", "v0"} {
			got, err := readPriorities(t.Context(), name)
			if err != nil || len(got.Statistics) != 0 || got.DCB != nil {
				t.Errorf("%s: %+v %v", name, got, err)
			}
		}
		counters, err := ethtoolStatistics("v0")
		if _, has := counters["peer_ifindex"]; err != nil || !has { // the first of veth's, by its name
			t.Errorf("%v %v", counters, err)
		}
		if _, err := readPriorities(t.Context(), "nothing"); err == nil {
			t.Error("a NIC that does not exist has priorities")
		}
		if _, _, err := readDCB("nothing"); !errors.Is(err, unix.ENODEV) { // the kernel has read the name
			t.Error(err)
		}
	})
}

// TestAPingHasItsClass: the traffic class is in the packets of both families.
func TestAPingHasItsClass(t *testing.T) {
	a, b := newNamespace(t), newNamespace(t)
	cable(t, a, b, 1, 1500)
	for _, s := range []PingSpec{spec("c0", "10.0.0.1", "10.0.0.2", 56, false), spec("c0", "fd00:0::1", "fd00:0::2", 56, false)} {
		s.TrafficClass, s.Priority = 160, 5
		classes := classesAt(t, b, func() {
			if got := a.ping(t, s); got.Received != s.Count {
				t.Errorf("%+v", got)
			}
		}, func(protocol byte, payload []byte) bool {
			return protocol == 1 && payload[0] == 8 || protocol == 58 && payload[0] == 128
		})
		if len(classes) != 1 || classes[160] != s.Count {
			t.Errorf("%s: packets by traffic class: %v", s.Source, classes)
		}
	}
}

// TestAClassOfDSCP0HasAPriority, too.
func TestAClassOfDSCP0HasAPriority(t *testing.T) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	defer func() { must(t, unix.Close(fd)) }()
	must(t, Class{Priority: 3}.classify(fd, false))
	if got, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PRIORITY); got != 3 || err != nil {
		t.Errorf("priority %d, %v", got, err)
	}
}

// TestATCPStreamHasItsClass in both families, from the first packet on.
func TestATCPStreamHasItsClass(t *testing.T) {
	a, b := newNamespace(t), newNamespace(t)
	cable(t, a, b, 1, 1500)
	for from, at := range map[string]string{"10.0.0.1": "10.0.0.2", "fd00:0::1": "fd00:0::2"} {
		to := netip.MustParseAddr(at)
		var server tcpServer
		var l TCPListenResult
		b.do(func() {
			var err error
			l, err = server.Listen(context.Background(), TCPListenSpec{Netdev: "c0", Token: token, Address: to, Streams: 1, Duration: time.Second / 5})
			must(t, err)
		})
		classes := classesAt(t, b, func() {
			a.do(func() {
				_, err := sendTCP(context.Background(), TCPSendSpec{Netdev: "c0", Source: netip.MustParseAddr(from), Target: netip.AddrPortFrom(to, l.Port),
					Token: token, Streams: 1, Duration: time.Second / 5, Class: Class{TrafficClass: 160, Priority: 5}})
				must(t, err)
			})
			_, err := server.Collect(context.Background(), l.ID)
			must(t, err)
		}, func(protocol byte, payload []byte) bool {
			return protocol == 6 && binary.BigEndian.Uint16(payload[2:]) == l.Port
		})
		if len(classes) != 1 || classes[160] < 4 { // SYN, ACK, token, data
			t.Errorf("%s: packets by traffic class: %v", to, classes)
		}
	}
}

// classesAt counts the packets that c0 of a namespace receives meanwhile, by traffic class. wanted chooses them by their protocol and its header.
func classesAt(t *testing.T, at *namespace, meanwhile func(), wanted func(protocol byte, payload []byte) bool) map[int]int {
	t.Helper()
	var fd int
	at.do(func() {
		dev, err := net.InterfaceByName("c0")
		must(t, err)
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		must(t, err)
		must(t, unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: 0x0300, Ifindex: dev.Index})) // ETH_P_ALL in network order
	})
	defer func() { must(t, unix.Close(fd)) }()
	meanwhile()
	classes := map[int]int{}
	for buf := make([]byte, 1<<16); ; {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if err != nil {
			return classes
		}
		switch {
		case n > 54 && buf[12] == 0x08 && buf[13] == 0x00 && wanted(buf[23], buf[34:n]):
			classes[int(buf[15])]++
		case n > 58 && buf[12] == 0x86 && buf[13] == 0xdd && wanted(buf[20], buf[54:n]):
			classes[int(binary.BigEndian.Uint16(buf[14:])>>4&0xff)]++
		}
	}
}
