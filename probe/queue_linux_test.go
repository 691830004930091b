package probe

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestParseQueuedReadsStampAndError(t *testing.T) {
	stamp := make([]byte, unix.CmsgSpace(48))
	copy(stamp, []byte{64, 0, 0, 0, 0, 0, 0, 0, unix.SOL_SOCKET, 0, 0, 0, unix.SO_TIMESTAMPING, 0, 0, 0, 7})
	errs := make([]byte, unix.CmsgSpace(32))
	copy(errs, []byte{48, 0, 0, 0, 0, 0, 0, 0, unix.IPPROTO_IP, 0, 0, 0, unix.IP_RECVERR, 0, 0, 0,
		byte(unix.EMSGSIZE), 0, 0, 0, unix.SO_EE_ORIGIN_ICMP, 3, 4, 0, 0xdc, 5, 0, 0, 9})
	q := parseQueued(append(stamp, errs...))
	if q.stamp.Unix() != 7 || q.data != 9 || q.problem() != "too large for the path: a router reports a next-hop MTU of 1500" {
		t.Fatalf("%+v %s", q, q.problem())
	}
}

func FuzzParseQueued(f *testing.F) {
	f.Add([]byte{17, 0, 0, 0, 0, 0, 0, 0, unix.SOL_SOCKET, 0, 0, 0, unix.SO_TIMESTAMPING, 0, 0, 0, 7})
	f.Add(make([]byte, 64))
	f.Fuzz(func(_ *testing.T, b []byte) { _ = parseQueued(b).problem() })
}
