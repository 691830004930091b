package vm

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"testing"
	"time"

	"github.com/fabricform/fabricform/lab/site"
)

// ethernet is a frame with a payload of an EtherType.
func ethernet(hexTypes string, payload []byte) []byte {
	types, err := hex.DecodeString(hexTypes)
	if err != nil {
		panic(err)
	}
	return slices.Concat(frame(2, 1)[:12], types, payload)
}

// ipv4 is an IPv4 header with a valid checksum, and some payload.
func ipv4(tos byte) []byte {
	p := []byte{0x45, tos, 0, 28, 0x12, 0x34, 0x40, 0, 64, 17, 0, 0, 10, 20, 0, 1, 10, 20, 0, 2, 1, 2, 3, 4, 5, 6, 7, 8}
	var sum uint32
	for i := 0; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(p[i:]))
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	binary.BigEndian.PutUint16(p[10:], ^uint16(sum))
	return p
}

func ipv6(class byte) []byte {
	p := make([]byte, 48)
	p[0], p[1], p[2], p[3] = 0x60|class>>4, class<<4|0x9, 0xab, 0xcd // with a flow label
	return p
}

func TestRemarkChangesTheDSCPAlone(t *testing.T) {
	for name, c := range map[string]struct{ before, after []byte }{
		"IPv4":          {ethernet("0800", ipv4(160)), ethernet("0800", ipv4(32))},
		"IPv4, ECN 2":   {ethernet("0800", ipv4(162)), ethernet("0800", ipv4(34))},
		"IPv4, ECN 3":   {ethernet("0800", ipv4(163)), ethernet("0800", ipv4(35))},
		"same DSCP":     {ethernet("0800", ipv4(32)), ethernet("0800", ipv4(32))},
		"VLAN":          {ethernet("8100a0070800", ipv4(160)), ethernet("8100a0070800", ipv4(32))},
		"two VLANs":     {ethernet("88a8a0078100a0070800", ipv4(160)), ethernet("88a8a0078100a0070800", ipv4(32))},
		"IPv6":          {ethernet("86dd", ipv6(162)), ethernet("86dd", ipv6(34))},
		"ARP":           {ethernet("0806", make([]byte, 28)), ethernet("0806", make([]byte, 28))},
		"short":         {ethernet("0800", ipv4(160)[:19]), ethernet("0800", ipv4(160)[:19])},
		"ends in a tag": {ethernet("8100a0", nil), ethernet("8100a0", nil)},
	} {
		got := bytes.Clone(c.before)
		remark(got, 8)
		if !bytes.Equal(got, c.after) {
			t.Errorf("%s:\n got %x\nwant %x", name, got, c.after)
		}
	}
	for tos := range 256 { // the checksum stays right at each value
		for dscp := range 64 {
			got := ethernet("0800", ipv4(byte(tos)))
			remark(got, dscp)
			if want := ethernet("0800", ipv4(byte(dscp<<2|tos&3))); !bytes.Equal(got, want) {
				t.Fatalf("TOS %d to DSCP %d:\n got %x\nwant %x", tos, dscp, got, want)
			}
		}
	}
}

func (b *bench) reads(i int) []byte {
	b.t.Helper()
	_ = b.ends[i].SetReadDeadline(time.Now().Add(10 * time.Second))
	f, err := readFrame(b.ends[i])
	if err != nil {
		b.t.Fatal(err)
	}
	return f
}

func TestACableRemarksInBothDirections(t *testing.T) {
	b := newBench(t, 0, 0, 0)
	b.board.fault(1, site.Fault{Remark: true, DSCP: 8})
	sent, remarked := ethernet("0800", ipv4(160)), ethernet("0800", ipv4(32))
	b.send(0, sent)
	if got := b.reads(1); !bytes.Equal(got, remarked) {
		t.Errorf("to the faulty cable: %x", got)
	}
	if got := b.reads(2); !bytes.Equal(got, sent) {
		t.Errorf("to another cable: %x", got)
	}
	b.send(1, sent)
	for _, i := range []int{0, 2} {
		if got := b.reads(i); !bytes.Equal(got, remarked) {
			t.Errorf("from the faulty cable to port %d: %x", i, got)
		}
	}
}

// TestACableLacksAVLAN, as a switch in which nobody entered it: other frames pass, and those of the VLAN in no direction.
func TestACableLacksAVLAN(t *testing.T) {
	b := newBench(t, 0, 0, 0)
	b.board.fault(1, site.Fault{NoVLAN: 200})
	tagged := func(tag string) []byte { return ethernet("8100"+tag+"0800", ipv4(0)) }
	for _, from := range []int{0, 1} {
		b.send(from, tagged("00c8"))
		b.send(from, tagged("60c8")) // with a priority
		for _, other := range [][]byte{tagged("00c9"), ethernet("88a800c8"+"0800", ipv4(0)), ethernet("0800", ipv4(0))} {
			b.send(from, other)
			if got := b.reads(1 - from); !bytes.Equal(got, other) {
				t.Errorf("from port %d: got %x, want %x", from, got, other)
			}
		}
	}
	b.send(0, tagged("00c8"))
	if got := b.reads(2); vlanOf(got) != 200 {
		t.Errorf("another cable has the VLAN: %x", got)
	}
}

func TestACablePausesUntilItIsRepaired(t *testing.T) {
	b := newBench(t, 0, 0)
	b.board.fault(1, site.Fault{Pause: true, Priority: 5})
	want, _ := hex.DecodeString("0180c2000001" + "020000000000" + "8808" + "0101" + "0020" + "00000000000000000000ffff00000000")
	for range 3 {
		if got := b.reads(1); len(got) != 60 || !bytes.HasPrefix(got, want) {
			t.Fatalf("got %x\nwant %x", got, want)
		}
	}
	b.board.fault(1, site.Fault{})
	for b.hears(1, false) { // what was on its way
		continue
	}
	b.want(0xff, 1, 0, false, true)
}
