// Package perftest knows the perftest programs (ib_send_lat, ib_write_bw, …): it builds their arguments, parses
// their reports and explains their failures. It starts nothing.
//
// Facts about the programs are from their source, https://github.com/linux-rdma/perftest; comments name files
// under its src/.
package perftest

import (
	"fmt"
	"slices"
	"strings"
)

// Test is one perftest program, without its prefix.
type Test string

// The tests. The latency of send and write is one way, half of a round trip; the latency of read is the whole
// round trip (rtt_factor in perftest_parameters.c).
const (
	SendLat  Test = "send_lat"
	WriteLat Test = "write_lat"
	ReadLat  Test = "read_lat"
	SendBW   Test = "send_bw"
	WriteBW  Test = "write_bw"
	ReadBW   Test = "read_bw"
)

// Tests returns all tests, latencies first.
func Tests() []Test { return []Test{SendLat, WriteLat, ReadLat, SendBW, WriteBW, ReadBW} }

// Program returns the name of the test's executable, without a folder.
func (t Test) Program() string { return "ib_" + string(t) }

// Bandwidth reports whether the test measures bandwidth; the others measure latency.
func (t Test) Bandwidth() bool { return strings.HasSuffix(string(t), "_bw") }

// Valid reports whether the test is one of Tests.
func (t Test) Valid() bool { return slices.Contains(Tests(), t) }

// Version is perftest's internal version, which it exchanges with its peer (AC_INIT in configure.ac). It is not the
// release: 6.06 is 4.5-0.17 of Debian 12, 6.24 is 25.01.0-0.80 of Debian 13.
type Version struct {
	Major int `json:"major"`
	Minor int `json:"minor"`
}

// ParseVersion parses the output of `ib_write_bw --version`. The programs print the version and exit with 1, as on
// errors (VERSION_EXIT in write_bw.c).
func ParseVersion(out []byte) (Version, error) {
	for line := range strings.Lines(string(out)) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), "Version:")
		if !ok {
			continue
		}
		major, minor, ok := strings.Cut(strings.TrimSpace(rest), ".")
		v := Version{Major: digits(major), Minor: digits(minor)}
		if !ok || v.Major < 0 || v.Minor < 0 {
			return Version{}, fmt.Errorf("read perftest's version: %.40q is not a version", strings.TrimSpace(rest))
		}
		return v, nil
	}
	return Version{}, fmt.Errorf("read perftest's version: the output has none")
}

// digits returns the value of one to six digits, or -1.
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

// String formats the version as perftest does: 6.06.
func (v Version) String() string { return fmt.Sprintf("%d.%02d", v.Major, v.Minor) }

// Compare is negative if v is older than w, positive if it is newer.
func (v Version) Compare(w Version) int {
	if v.Major != w.Major {
		return v.Major - w.Major
	}
	return v.Minor - w.Minor
}

// WritesJSON reports whether --out_json_file writes valid JSON. Before 24.01.0-0.38, which is 6.20, keys had no
// quotes and lists ended in commas.
func (v Version) WritesJSON() bool { return v.Compare(Version{6, 20}) >= 0 }
