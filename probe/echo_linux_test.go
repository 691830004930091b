package probe

import (
	"encoding/binary"
	"testing"
)

// reply is an echo reply as a raw IPv4 socket gives it.
func reply(id, seq uint16) []byte {
	b := make([]byte, 28)
	b[0] = 0x45
	binary.BigEndian.PutUint16(b[24:], id)
	binary.BigEndian.PutUint16(b[26:], seq)
	return b
}

func TestParseEchoReadsRepliesAndRefusals(t *testing.T) {
	if e, ok := parseEcho(reply(7, 9), false); !ok || e.id != 7 || e.seq != 9 || e.token != 0 || e.problem != "" {
		t.Fatalf("%+v %v", e, ok)
	}
	if e, ok := parseEcho(append(reply(7, 9), 1, 2, 3, 4, 5, 6, 7, 8), false); !ok || e.token != 0x0102030405060708 {
		t.Fatalf("%+v %v", e, ok)
	}
	tooBig := append(append([]byte{0x45, 19: 0}, 3, 4, 0, 0, 0, 0, 0x05, 0xdc), reply(7, 9)...)
	if e, ok := parseEcho(tooBig, false); !ok || e.id != 7 || e.problem != "too large for the path: a router reports a next-hop MTU of 1500" {
		t.Fatalf("%+v %v", e, ok)
	}
	if e, ok := parseEcho([]byte{129, 0, 0, 0, 0, 7, 0, 9}, true); !ok || e.seq != 9 {
		t.Fatalf("%+v %v", e, ok)
	}
}

func TestChecksumMakesAPacketSumToZero(t *testing.T) {
	b := []byte{8, 0, 0, 0, 1, 2, 3, 4, 5}
	binary.BigEndian.PutUint16(b[2:], checksum(b))
	if checksum(b) != 0 {
		t.Fatal("the checksum is wrong")
	}
}

func FuzzParseEcho(f *testing.F) {
	f.Add(reply(1, 2), false)
	f.Add([]byte{0x4f, 1}, false)
	f.Add([]byte{2, 0, 0, 0, 0, 0, 5, 0xdc, 0x60}, true)
	f.Fuzz(func(_ *testing.T, b []byte, v6 bool) { parseEcho(b, v6) })
}
