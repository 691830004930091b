package lldp

import (
	"encoding/hex"
	"strings"
	"testing"
	"unicode"
)

func tlv(kind int, value string) string {
	head := kind<<9 | len(value)
	return string([]byte{byte(head >> 8), byte(head)}) + value
}

const ethernet = "\x01\x80\xc2\x00\x00\x0e\x02\x00\x00\x00\x00\x07\x88\xcc"

var leaf = ethernet + tlv(1, "\x04\x02\x00\x00\x00\x00\x01") + tlv(2, "\x05swp3") + tlv(3, "\x00\x78") + tlv(4, "to gpu01 rail3") +
	tlv(5, "leaf1") + tlv(6, "Cumulus Linux") + tlv(7, "\x00\x14\x00\x14") + tlv(127, "\x00\x80\xc2\x01\x00\x01") + tlv(0, "")

func TestASwitchIsReadAsItDescribesItself(t *testing.T) {
	f, ok := Decode([]byte(leaf))
	want := Neighbour{Source: "02:00:00:00:00:07", Chassis: "02:00:00:00:00:01", ChassisM: "02:00:00:00:00:01", Port: "swp3", About: "to gpu01 rail3",
		Name: "leaf1", System: "Cumulus Linux", Bridge: true, Router: true, Seconds: 120}
	if !ok || f.LLDP == nil || *f.LLDP != want {
		t.Errorf("%+v", f.LLDP)
	}
}

func TestIdentifiersOfEachKind(t *testing.T) {
	for chassis, want := range map[string]string{"\x05\x01\x0a\x00\x00\x01": "10.0.0.1", "\x07leaf1": "leaf1", "\x04\x01\x02": "0102", "\x07\xff\xfe": "fffe",
		"\x07a\x1b[2Jb": "a [2Jb", "\x05\x02\xfd\x00" + strings.Repeat("\x00", 13) + "\x01": "fd00::1"} {
		f, _ := Decode([]byte(ethernet + tlv(1, chassis) + tlv(2, "\x07x") + tlv(3, "\x00\x78")))
		if f.LLDP == nil || f.LLDP.Chassis != want {
			t.Errorf("%q: %+v, want %s", chassis, f.LLDP, want)
		}
	}
}

// TestAFrameThatBreaksTheStandardSaysNothing: each of these is refused by IEEE 802.1AB, 9.2.7.7.
func TestAFrameThatBreaksTheStandardSaysNothing(t *testing.T) {
	for _, body := range []string{"", tlv(2, "\x05swp3"), tlv(1, "\x04"), tlv(1, "\x07a") + tlv(3, "\x00\x78") + tlv(2, "\x05swp3"),
		tlv(1, "\x07a") + tlv(2, "\x05b") + tlv(3, "\x00"), tlv(1, "\x07a") + tlv(2, "\x05b") + tlv(3, "\x00\x78") + tlv(1, "\x07a"),
		tlv(1, "\x07a") + tlv(2, "\x05b") + tlv(3, "\x00\x78") + "\x0a\xffshort"} {
		if f, ok := Decode([]byte(ethernet + body)); !ok || f.LLDP != nil || f.Type != typeLLDP {
			t.Errorf("%q: %+v", body, f.LLDP)
		}
	}
}

func TestABridgeIsReadFromItsBPDU(t *testing.T) {
	// A configuration BPDU of Linux's bridge (net/bridge/br_stp_bpdu.c).
	raw, err := hex.DecodeString("0180c200000002000000000500264242030000000000" + "8000020000000001" + "00000000" + "8000020000000005" + "8001" + "0000" + "1400" + "0200" + "0f00")
	if err != nil {
		t.Fatal(err)
	}
	f, ok := Decode(raw)
	if !ok || f.Root != "8000.02:00:00:00:00:01" || f.Bridge != "8000.02:00:00:00:00:05" {
		t.Errorf("%+v", f)
	}
	for cut := range raw {
		Decode(raw[:cut])
	}
}

// FuzzDecode: whatever is on the wire, nothing panics, and texts are fit to print.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(leaf))
	f.Add([]byte(ethernet))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, _ := Decode(b)
		if d.LLDP == nil {
			return
		}
		for _, s := range []string{d.LLDP.Chassis, d.LLDP.Port, d.LLDP.About, d.LLDP.Name, d.LLDP.System} {
			if len(s) > 2*textLimit || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("%q", s)
			}
		}
	})
}
