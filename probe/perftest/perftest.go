// Package perftest speaks the language of the perftest programs (ib_send_lat, ib_write_bw, …): it makes
// their arguments, reads their reports and names the cause of their failures. It starts nothing.
//
// Facts about the programs are from their source, https://github.com/linux-rdma/perftest; the files
// that comments name are under src/ there.
package perftest

import (
	"fmt"
	"slices"
	"strings"
)

// Test is one perftest program, without its prefix.
type Test string

// The tests. Latencies of send and write are one way, half of a round trip; a read's is the whole of
// it (rtt_factor in perftest_parameters.c).
const (
	SendLat  Test = "send_lat"
	WriteLat Test = "write_lat"
	ReadLat  Test = "read_lat"
	SendBW   Test = "send_bw"
	WriteBW  Test = "write_bw"
	ReadBW   Test = "read_bw"
)

// Tests are all tests, latencies first.
func Tests() []Test { return []Test{SendLat, WriteLat, ReadLat, SendBW, WriteBW, ReadBW} }

// Program is the test's executable, without a folder.
func (t Test) Program() string { return "ib_" + string(t) }

// Bandwidth is true of the tests that measure bandwidth; the others measure latency.
func (t Test) Bandwidth() bool { return strings.HasSuffix(string(t), "_bw") }

// Valid is true of the tests above.
func (t Test) Valid() bool { return slices.Contains(Tests(), t) }

// Version is the number that perftest gives itself and exchanges with its peer (AC_INIT in
// configure.ac). It is not the release: 6.06 is 4.5-0.17 of Debian 12, 6.24 is 25.01.0-0.80 of
// Debian 13.
type Version struct {
	Major int `json:"major"`
	Minor int `json:"minor"`
}

// ParseVersion reads what `ib_write_bw --version` prints. The programs print it and exit with 1, as
// they do on errors (VERSION_EXIT in write_bw.c).
func ParseVersion(out []byte) (Version, error) {
	for line := range strings.Lines(string(out)) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), "Version:")
		if !ok {
			continue
		}
		major, minor, ok := strings.Cut(strings.TrimSpace(rest), ".")
		v := Version{Major: digits(major), Minor: digits(minor)}
		if !ok || v.Major < 0 || v.Minor < 0 {
			return Version{}, fmt.Errorf("read perftest's version: %.40q is none", strings.TrimSpace(rest))
		}
		return v, nil
	}
	return Version{}, fmt.Errorf("read perftest's version: no line says it")
}

// digits is the value of one to six digits, or -1.
func digits(s string) int {
	if s == "" || len(s) > 6 {
		return -1
	}
	n := 0
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return -1
		}
		n = n*10 + int(c-'0')
	}
	return n
}

// String is the number as perftest writes it: 6.06.
func (v Version) String() string { return fmt.Sprintf("%d.%02d", v.Major, v.Minor) }

// Compare is negative where v is older than w, positive where it is newer.
func (v Version) Compare(w Version) int {
	if v.Major != w.Major {
		return v.Major - w.Major
	}
	return v.Minor - w.Minor
}

// WritesJSON is true where --out_json_file writes what ParseJSON can read. Before 24.01.0-0.38, which
// is 6.20, keys had no quotes and lists ended in commas.
func (v Version) WritesJSON() bool { return v.Compare(Version{6, 20}) >= 0 }
