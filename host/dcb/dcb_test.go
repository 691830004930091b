package dcb

import (
	"bytes"
	"slices"
	"testing"
)

// TestResultsOfDrivers: ice accepts a change with 1 or 2.
func TestResultsOfDrivers(t *testing.T) {
	for said, want := range map[byte]uint8{0: 0, 1: 0, 2: 0, 256 - 22: 22, 256 - 95: 95} {
		if got, err := Result(append([]byte{0, CmdIEEESet, 0, 0}, Attribute(AttrIEEE, []byte{said})...)); err != nil || got != want {
			t.Errorf("%d: %d, %v", said, got, err)
		}
	}
}

// TestCraftedAnswersAreRefused: attributes that are shorter than their header, longer than the message, or than their struct.
func TestCraftedAnswersAreRefused(t *testing.T) {
	head := []byte{0, CmdIEEEGet, 0, 0}
	for _, length := range []byte{0, 1, 3, 200} {
		if _, err := ParseIEEE(append(slices.Clone(head), length, 0, 13, 0, 0, 0, 0, 0)); err == nil {
			t.Errorf("an attribute of %d bytes is read", length)
		}
	}
	for trailing := 1; trailing < 4; trailing++ { // a header that is cut off
		if _, err := ParseIEEE(append(slices.Concat(head, Attribute(AttrIEEE|Nested, nil)), make([]byte, trailing)...)); err == nil {
			t.Errorf("%d bytes behind the last attribute are read", trailing)
		}
	}
	for kind, size := range map[uint16]int{IEEEETS: SizeETS, IEEEPFC: SizePFC, IEEEBuffer: SizeBuffer} {
		if _, err := ParseIEEE(append(slices.Clone(head), Attribute(AttrIEEE|Nested, Attribute(kind, make([]byte, size-1)))...)); err == nil {
			t.Errorf("a struct of kind %d with %d bytes is read", kind, size-1)
		}
	}
}

// TestMessagesAreThoseOfDcb: `strace -xx dcb app add dev lo dscp-prio 40:5` of iproute2 6.1 shows these bytes.
func TestMessagesAreThoseOfDcb(t *testing.T) {
	const want = "\x00\x14\x00\x00\x07\x00\x01\x00lo\x00\x00\x10\x00\x0d\x80\x0c\x00\x03\x80\x08\x00\x01\x00\x05\x05\x28\x00"
	if got := Message(CmdIEEESet, "lo", OfDSCP(40, 5).Encode()); !bytes.Equal(got, []byte(want)) {
		t.Errorf("%x, want %x", got, want)
	}
}

// FuzzParse: whatever a kernel answers, it is read without a panic.
func FuzzParse(f *testing.F) {
	head := []byte{0, CmdIEEEGet, 0, 0}
	answer := func(attributes ...[]byte) { f.Add(slices.Concat(head, slices.Concat(attributes...))) }
	pfc := Attribute(AttrIEEE, Attribute(IEEEPFC, make([]byte, SizePFC)))
	answer(Attribute(AttrIEEE|Nested, slices.Concat(Attribute(IEEEETS, make([]byte, SizeETS)), Attribute(IEEEPFC, make([]byte, SizePFC)),
		Attribute(IEEEBuffer, make([]byte, SizeBuffer)))))
	answer(OfDSCP(63, 7).Encode())
	answer(EncodeTrust([]uint8{SelectorDSCP, SelectorPCP}))
	answer(Attribute(AttrDCBX, []byte{0x0d}))
	answer(Attribute(AttrIEEE, []byte{0}))
	answer(pfc)
	answer(Attribute(AttrIEEE, Attribute(IEEEApps, Attribute(1, []byte{5, 5, 40, 0}))))
	answer(pfc[:13])
	answer([]byte("\x10\x00\r\x00(\x00\xc3\xc3\xc3\xc3\xc3\x03\x00\b\x10\x00\r\x00(\x00\xc3\xc3\xc3\xc3\xc3\x03\x00\x01\x00"))
	f.Fuzz(func(_ *testing.T, raw []byte) {
		_, _ = ParseDCBX(raw)
		_, _ = Result(raw)
		d, _ := ParseIEEE(raw)
		d.TrustsDSCP()
	})
}

// TestRequestsHaveTheKernelsNumbers: enum dcbnl_commands and the DCB_CAP_DCBX flags of include/uapi/linux/dcbnl.h.
func TestRequestsHaveTheKernelsNumbers(t *testing.T) {
	if got, want := [...]int{CmdIEEESet, CmdIEEEGet, CmdGetDCBX, CmdSetDCBX, CmdIEEEDel}, [...]int{20, 21, 22, 23, 27}; got != want {
		t.Errorf("commands are %v", got)
	}
	if got, want := [...]int{DCBXHost, DCBXManaged, DCBXCEE, DCBXIEEE, DCBXStatic}, [...]int{1, 2, 4, 8, 16}; got != want {
		t.Errorf("flags are %v", got)
	}
}
