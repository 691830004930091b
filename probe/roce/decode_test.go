package roce

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"math/bits"
	"os"
	"strings"
	"testing"
	"time"
)

// foreign are frames that other programs and a NIC made, by name.
func foreign(t testing.TB) map[string][]byte {
	t.Helper()
	f, err := os.Open("testdata/frames.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := map[string][]byte{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		name, text, ok := strings.Cut(lines.Text(), "\t")
		if !ok {
			continue
		}
		if out[name], err = hex.DecodeString(text); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestDecodeForeignFrames(t *testing.T) {
	frames := foreign(t)
	for name, want := range map[string]string{
		"send only 2 bytes, pad 2":              "10.99.0.1 > 10.99.0.2 RC SEND_ONLY QP 17 PSN 14864888, 2 bytes: ACK requested",
		"write first":                           "10.99.0.1 > 10.99.0.2 RC RDMA_WRITE_FIRST QP 18 PSN 16777215, 1024 bytes: 65536 bytes at 0x7f3c5a2e1000, rkey 0x1a2b",
		"read request":                          "10.99.0.1 > 10.99.0.2 RC RDMA_READ_REQUEST QP 19 PSN 5, 0 bytes: 65536 bytes at 0x7f3c5a2e1000, rkey 0x1a2b",
		"read response only":                    "10.99.0.1 > 10.99.0.2 RC RDMA_READ_RESPONSE_ONLY QP 20 PSN 5, 4 bytes: ACK, MSN 9",
		"ud send":                               "10.99.0.1 > 10.99.0.2 UD SEND_ONLY QP 1 PSN 5, 256 bytes: from QP 33, qkey 0x80010000",
		"cnp":                                   "10.99.0.1 > 10.99.0.2 CNP QP 210 PSN 0, 16 bytes: ",
		"ack":                                   "10.99.0.1 > 10.99.0.2 RC ACKNOWLEDGE QP 17 PSN 6, 0 bytes: ACK, MSN 3",
		"rnr nak":                               "10.99.0.1 > 10.99.0.2 RC ACKNOWLEDGE QP 17 PSN 6, 0 bytes: RNR NAK, 640µs, MSN 3",
		"nak":                                   "10.99.0.1 > 10.99.0.2 RC ACKNOWLEDGE QP 17 PSN 6, 0 bytes: NAK, PSN sequence error, MSN 3",
		"atomic ack":                            "10.99.0.1 > 10.99.0.2 RC ATOMIC_ACKNOWLEDGE QP 17 PSN 6, 0 bytes: ACK, MSN 3",
		"uc send (scapy test/contrib/roce.uts)": "192.168.0.7 > 192.168.0.7 UC SEND_ONLY QP 211 PSN 13571856, 18 bytes: ",
		"cnp of a ConnectX-4 Lx":                "10.0.17.1 > 10.0.18.1 CNP QP 280 PSN 0, 16 bytes: ",
	} {
		p, err := Decode(frames[name])
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		r := p.Row()
		if got := fmt.Sprintf("%s > %s %s QP %d PSN %d, %d bytes: %s", r.Source, r.Target, r.Opcode, r.TargetQP, r.PSN, r.Payload, r.Detail); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, want)
		}
		if p.ICRCState != Good || p.PKey != 0xffff {
			t.Errorf("%s: ICRC %08x in state %d; %+v", name, p.ICRC, p.ICRCState, p)
		}
		delete(frames, name)
	}
	if len(frames) != 0 {
		t.Errorf("frames without an expectation: %v", frames)
	}
}

func TestDecodeBitsOfTheHeaders(t *testing.T) {
	in := frame{source: "fd00::1", target: "fd00::2", vlans: []uint16{7, 4094}, tos: 0x6b, payload: []byte("abcde"),
		bth: BTH{Opcode: 0x04, Solicited: true, Pad: 3, Version: 5, PKey: 0x8001, FECN: true, TargetQP: 0xfffffe, PSN: 0xabcdef}}
	p, err := Decode(in.build())
	if err != nil {
		t.Fatal(err)
	}
	if p.BTH != in.bth || fmt.Sprint(p.VLANs) != "[7 4094]" || p.TrafficClass != 0x6b || p.TTL != 64 || p.SourcePort != 0xc000 || p.Payload != 5 ||
		!p.CongestionExperienced() || p.ICRCState != Good || p.Source.String() != "fd00::1" || p.Target.String() != "fd00::2" {
		t.Errorf("%+v", p)
	}
	in.bth = BTH{Opcode: 0x05, Migrated: true, BECN: true, AckRequest: true, PSN: 1}
	in.extension = words(0xcafe)
	if p, err = Decode(in.build()); err != nil || p.BTH != in.bth || *p.Immediate != 0xcafe {
		t.Errorf("%+v %v", p, err)
	}
}

func TestDecodeAllHeaders(t *testing.T) {
	for _, o := range knownOpcodes() {
		f := frame{source: "10.0.0.1", target: "10.0.0.2", bth: BTH{Opcode: o}, extension: extensionOf(o), payload: []byte("payload!")}
		p, err := Decode(f.build())
		if err != nil || p.Payload != 8 || p.ICRCState != Good {
			t.Errorf("%s: %+v %v", o, p, err)
			continue
		}
		h := o.headers()
		for _, c := range []struct {
			bit headers
			got bool
		}{
			{hasRDETH, p.RDETH != nil && *p.RDETH == 0x102}, {hasXRCETH, p.XRCETH != nil && *p.XRCETH == 0x304},
			{hasDETH, p.DETH != nil && *p.DETH == DETH{0x80010000, 0x21}}, {hasFETH, p.FETH != nil && *p.FETH == 0x31},
			{hasRETH, p.RETH != nil && *p.RETH == RETH{0x7f3c5a2e1000, 0x1a2b, 65536}},
			{hasAtomicETH, p.Atomic != nil && *p.Atomic == AtomicETH{0x7f3c5a2e1008, 0x1a2c, 41, 42}},
			{hasAETH, p.AETH != nil && *p.AETH == AETH{0x1f, 7}}, {hasAtomicAckETH, p.AtomicAck != nil && *p.AtomicAck == 1<<32|2},
			{hasImm, p.Immediate != nil && *p.Immediate == 0xcafe}, {hasIETH, p.Invalidate != nil && *p.Invalidate == 0xbeef},
		} {
			if c.got != (h&c.bit != 0) {
				t.Errorf("%s: header %d", o, bits.TrailingZeros16(uint16(c.bit)))
			}
		}
	}
}

// The checksum again, in the words of annex A17: all of the packet, what may change replaced by ones.
func TestICRCOverIPv6(t *testing.T) {
	b := frame{source: "fd00::1", target: "fd00::2", tos: 0x6a, bth: BTH{Opcode: 0x04, BECN: true}, payload: []byte("abcd")}.build()
	ip := bytes.Clone(b[14 : len(b)-4])
	for _, i := range []int{1, 2, 3, 7, 40 + 6, 40 + 7, 48 + 4} {
		ip[i] = 0xff
	}
	ip[0] = 0x6f
	want := bits.ReverseBytes32(crc32.ChecksumIEEE(append(bytes.Repeat([]byte{0xff}, 8), ip...)))
	p, err := Decode(b)
	if err != nil || p.ICRC != want || p.ICRCState != Good {
		t.Errorf("%08x, want %08x; %+v %v", p.ICRC, want, p, err)
	}
	for name, change := range map[string]int{"hop limit": 14 + 7, "traffic class": 14 + 1, "UDP checksum": 14 + 46, "BECN": 14 + 52} {
		c := bytes.Clone(b)
		c[change] ^= 0x10
		if p, err := Decode(c); err != nil || p.ICRCState != Good {
			t.Errorf("%s may change on the way: %+v %v", name, p, err)
		}
	}
	c := bytes.Clone(b)
	c[len(c)-5] ^= 1
	if p, err := Decode(c); err != nil || p.ICRCState != Bad {
		t.Errorf("the payload may not change: %+v %v", p, err)
	}
}

func TestDecodeOfCutAndPaddedFrames(t *testing.T) {
	whole := frame{source: "10.0.0.1", target: "10.0.0.2", bth: BTH{Opcode: 0x0a}, extension: extensionOf(0x0a), payload: make([]byte, 1000)}.build()
	p, err := Decode(whole[:100])
	if err != nil || p.Payload != 1000 || p.RETH.Length != 65536 || p.ICRCState != Unchecked || p.ICRC != 0 {
		t.Errorf("%+v %v", p, err)
	}
	// Ethernet's smallest frame has 60 bytes: what stands behind an ACK's ICRC is no payload.
	ack := frame{source: "10.0.0.1", target: "10.0.0.2", bth: BTH{Opcode: 0x11}, extension: extensionOf(0x11)}.build()
	if p, err = Decode(append(ack, 9, 9, 9)); err != nil || p.Payload != 0 || p.ICRCState != Good {
		t.Errorf("%+v %v", p, err)
	}
	options := frame{source: "10.0.0.1", target: "10.0.0.2", options: []byte{1, 1, 1, 0}, bth: BTH{Opcode: 0x11}, extension: extensionOf(0x11)}
	if p, err = Decode(options.build()); err != nil || p.AETH.MSN != 7 || p.ICRCState != Unchecked {
		t.Errorf("%+v %v", p, err)
	}
	for n := range len(whole) {
		if _, err := Decode(whole[:n]); (err == nil) != (n >= 14+20+8+12+16) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

func TestDecodeSaysWhatIsWrong(t *testing.T) {
	good := frame{source: "10.0.0.1", target: "10.0.0.2", bth: BTH{Opcode: 0x11}, extension: extensionOf(0x11)}
	six := good
	six.source, six.target = "fd00::1", "fd00::2"
	change := func(b []byte, at int, to ...byte) []byte { copy(b[at:], to); return b }
	for _, c := range []struct {
		frame []byte
		other bool
		want  string
	}{
		{change(good.build(), 12, 0x08, 0x06), true, "not RoCE v2"},
		{change(good.build(), 12, 0x89, 0x15), true, "v1 (ethertype 0x8915)"},
		{change(good.build(), 14+20+2, 0, 53), true, "not RoCE v2"},
		{change(good.build(), 14+9, 6), true, "not RoCE v2"},
		{change(good.build(), 14+6, 0, 9), true, "not RoCE v2"},
		{change(good.build(), 14+6, 0x20, 0), false, "must not be fragmented"},
		{change(good.build(), 14+20+4, 1, 0), false, "UDP length 256 does not fit 28 bytes of IP payload"},
		{change(good.build(), 14+20+4, 0, 23), false, "15 bytes are too few"},
		{change(good.build(), 14+20+8, 0x13), false, "ends within the headers of RC COMPARE_SWAP"},
		{change(good.build(), 14+20+8+1, 0x30), false, "too few for RC ACKNOWLEDGE"},
		{change(six.build(), 14+6, 43), true, "not RoCE v2: cannot decode the IPv6 extension header 43"},
		{change(six.build(), 14+6, 58), true, "not RoCE v2"},
		{change(six.build(), 14+4, 0, 0), true, "not RoCE v2"},
	} {
		p, err := Decode(c.frame)
		if err == nil || errors.Is(err, ErrOther) != c.other || !strings.Contains(err.Error(), c.want) {
			t.Errorf("want %q, got %+v %v", c.want, p, err)
		}
	}
}

func TestSyndromes(t *testing.T) {
	for s, want := range map[Syndrome]string{
		0x1f: "ACK", 0x05: "ACK, credit code 5", 0x20: "RNR NAK, 655.36ms", 0x21: "RNR NAK, 10µs", 0x3f: "RNR NAK, 491.52ms",
		0x62: "NAK, remote access error", 0x7f: "NAK, reserved code 31", 0x40: "reserved syndrome 0x40", 0xff: "reserved syndrome 0xff",
	} {
		if got := s.String(); got != want {
			t.Errorf("%#02x: %q, want %q", uint8(s), got, want)
		}
	}
	if Syndrome(0x2c).RNRTimer() != 640*time.Microsecond || Syndrome(0x1f).RNRTimer() != 0 {
		t.Error("the timer is a table, not a formula")
	}
}

func TestOpcodesWithoutAName(t *testing.T) {
	for o, want := range map[Opcode]string{0x18: "opcode 0x18", 0x2c: "opcode 0x2c", 0x60: "opcode 0x60", 0x80: "opcode 0x80", 0xc0: "opcode 0xc0", 0xff: "opcode 0xff", 0xa4: "XRC SEND_ONLY"} {
		if got := o.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, b := range foreign(f) {
		f.Add(b)
	}
	for _, o := range knownOpcodes() {
		f.Add(frame{source: "fd00::1", target: "fd00::2", vlans: []uint16{5}, bth: BTH{Opcode: o}, extension: extensionOf(o)}.build())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Decode(b)
		if (p == nil) == (err == nil) {
			t.Fatalf("%v %v", p, err)
		}
		if p == nil {
			return
		}
		if p.Payload < 0 || p.Payload > 0xffff || p.PSN > 0xffffff || p.TargetQP > 0xffffff || p.Row().Opcode == "" {
			t.Errorf("%+v", p)
		}
		var s Summary
		s.Add(p)
		s.Add(p)
		if flows := s.Flows(); len(flows) != 1 || flows[0].Packets != 2 {
			t.Errorf("%+v", flows)
		}
	})
}
